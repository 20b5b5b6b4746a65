/* SPDX-License-Identifier: Apache-2.0 */
/* What reader.c and reader_set.c share. Nobody else includes this. */
#ifndef SLUICE_BENCH_READER_INTERNAL_H
#define SLUICE_BENCH_READER_INTERNAL_H

#include "base/file.h"
#include "bench/reader.h"

/* The large file. As file_path(). */
int reader_large_path(const struct reader_set *set, char out[FILE_PATH_MAX], struct err *err);
/* The i-th small file. As file_path(). */
int reader_file_path(const struct reader_set *set, size_t i, char out[FILE_PATH_MAX],
		     struct err *err);

#endif

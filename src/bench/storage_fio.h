/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same reading by fio, where it is installed: its engine through its command, its JSON read.
 * What it read is not looked at. Blocks until it has ended.
 *
 * Source: https://fio.readthedocs.io/en/latest/fio_doc.html
 */
#ifndef SLUICE_BENCH_STORAGE_FIO_H
#define SLUICE_BENCH_STORAGE_FIO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/reader.h"

struct err;

enum storage_fio_limits {
	STORAGE_FIO_OUTPUT_MAX = 4 << 20,
	STORAGE_FIO_GRACE_S = 60, /* beyond the time of the case */
};

/* Whether it reads such a case: not an epoch of small files, and not through a cold page cache,
 * which it empties once at the beginning and no more. */
bool storage_fio_can(const struct reader_case *what);
/* As reader_run(); `program` is fio, a path or a name. -ETIMEDOUT: it did not end; -EIO with what
 * it said. */
int storage_fio_run(const char *program, const struct reader_set *set,
		    const struct reader_case *what, uint64_t time_ns, uint64_t seed,
		    const atomic_bool *stop, struct reader_outcome *out, struct err *err);
/* Of what it prints with --output-format=json. -EBADMSG: no result is in it; -EIO: its job failed,
 * -EOPNOTSUPP if that was for O_DIRECT (EINVAL). Pure. */
int storage_fio_parse(const char *text, size_t length, struct reader_outcome *out, struct err *err);

#endif

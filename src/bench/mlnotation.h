/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value in Python's notation as JSON: some trainings log str(dict) where JSON belongs
 * ({'epoch_num': 3, 'is_last': True, 'note': None}), some words without quotes ({file: manual}),
 * and Python's own writer of JSON has NaN and Infinity. Token by token, without recursion and
 * without a tree: who reads the JSON sees what is wrong with its grammar. Pure.
 * https://docs.python.org/3/reference/lexical_analysis.html#literals
 */
#ifndef SLUICE_BENCH_MLNOTATION_H
#define SLUICE_BENCH_MLNOTATION_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

/*
 * Appends `text` as JSON: strings in double quotes, true, false and null, lists for tuples, no
 * comma before a closing bracket, words in quotes. NaN and the infinities, which JSON cannot say,
 * become the strings "NaN", "Infinity" and "-Infinity". `out_is_python`: there was more than those
 * three that JSON does not know. -EINVAL: a character or the end of the text that no token has,
 * with its offset; -ENOMEM, -ENOSPC.
 */
int mlnotation_to_json(const char *text, size_t length, struct buf *out, bool *out_is_python,
		       struct err *err);

#endif

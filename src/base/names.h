/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of an enum as one table, and the only way in which a member is looked up there: a value
 * that came from elsewhere and is no member never reads behind the table.
 */
#ifndef SLUICE_BASE_NAMES_H
#define SLUICE_BASE_NAMES_H

#include <stddef.h>

#include "base/check.h"

/* names[value], or `unknown`. A macro, because only a macro knows how long the table is; `value` is
 * an enum or an unsigned number without side effects. */
#define names_at(names, value, unknown)                                                            \
	((size_t)(value) < array_length(names) ? (names)[(value)] : (unknown))

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of memory, on purpose. Every unit test program is linked so that the allocations of our code,
 * of the test, of libevent and of jansson pass through here; those inside other libraries do not.
 * By itself nothing fails. Two ways to use it:
 *
 * 1. failmalloc_each() in a test: a scenario runs again and again with its 1st, 2nd, ... nth
 *    allocation failing, must return 0 or -ENOMEM each time and give back all memory.
 * 2. tests/unit/failmalloc.py PROGRAM (the key 'failmalloc' in meson.build): the whole program runs
 *    with $FAILMALLOC_AT=1, 2, ... n. Its cases may then fail, as an assertion on a NULL does; what
 *    it may not do is crash, hang, or make a sanitizer speak. So a test asserts that what it made
 * is not NULL before it uses it.
 */
#ifndef TESTS_UNIT_FAILMALLOC_H
#define TESTS_UNIT_FAILMALLOC_H

/* Returns how many allocations `scenario` makes when none fails. Fails the test otherwise. */
unsigned failmalloc_each(int (*scenario)(void *context), void *context);

#endif

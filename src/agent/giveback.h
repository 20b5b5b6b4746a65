/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the agent does not need any more goes back to the system every few seconds: of the
 * start, of many clients, of a long list, of a queue that nobody uses. By itself the C library
 * keeps it for good (2 MB after 48 clients that watched), and code stays mapped that nobody runs.
 */
#ifndef SLUICE_AGENT_GIVEBACK_H
#define SLUICE_AGENT_GIVEBACK_H

#include <stdint.h>

struct err;
struct giveback;
struct loop;
struct queue;

/* The start needs most, and what it leaves is given back soon: the first time after one second,
 * then after two more, and so on up to ten. */
#define GIVEBACK_FIRST_NS UINT64_C(1000000000)
#define GIVEBACK_EACH_NS  UINT64_C(10000000000)

/* To be made before there are other threads. `loop` is borrowed, and so is `queue`, whose pointer
 * may be NULL at any time. NULL: -ENOMEM. */
struct giveback *giveback_new(struct loop *loop, struct queue *const *queue, struct err *err);
struct giveback *giveback_free(struct giveback *giveback);

#endif

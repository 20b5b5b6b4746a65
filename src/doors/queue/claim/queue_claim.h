/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the queue makes of claims.h: which devices and jobs they mean now, and how they are changed
 * (queue_claim() of queue.h). For the files of the queue alone; knows nothing of who may ask.
 */
#ifndef SLUICE_DOORS_QUEUE_CLAIM_QUEUE_CLAIM_H
#define SLUICE_DOORS_QUEUE_CLAIM_QUEUE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "job/job.h"

struct err;
struct queue;
struct schedule_machine;

/* What lies in the store, when the queue is opened. */
int queue_claim_load(struct queue *queue, struct err *err);
/* Marks the devices that claims name. */
void queue_claim_mark(const struct queue *queue, struct schedule_machine *machine);
/* What is shut to the job now. */
uint64_t queue_claim_shut(const struct queue *queue, const struct job *job, int64_t now_unix_ns);
/* After a look at the machine: where a GPU of a reservation is not well, drained or gone, another
 * one takes its place if there is one. */
void queue_claim_move(struct queue *queue);
/* Whether its user is drained, and why. */
bool queue_claim_waits(const struct queue *queue, const struct job *job, char out[JOB_REASON_MAX]);

#endif

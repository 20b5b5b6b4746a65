/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA resources of jobs: tells the queue which adapters it may give, as often as that may be
 * another. An adapter belongs to one door at a time, as a GPU does. A row in the table of doors
 * (doors.c).
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_POOLS_H
#define SLUICE_AGENT_DOORS_DOOR_POOLS_H

struct doors;
struct err;
struct queue;

/* -ENOMEM. */
int door_pools_open(struct doors *doors, void **out, struct err *err);
void door_pools_update(void *door);
void door_pools_set_queue(void *door, struct queue *queue);
void door_pools_stop(void *door);
void *door_pools_free(void *door);

/* At once, whatever was told before. */
void door_pools_tell(void *door);

#endif

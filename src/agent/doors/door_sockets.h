/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our sockets in the kubelet's directory: notes which are served (socket_record.h), and removes
 * what an agent before this one has left. A row in the table of doors (doors.c).
 */
#ifndef SLUICE_AGENT_DOORS_DOOR_SOCKETS_H
#define SLUICE_AGENT_DOORS_DOOR_SOCKETS_H

struct doors;
struct err;
struct uninstall_options;

/* -ENOMEM. */
int door_sockets_open(struct doors *doors, void **out, struct err *err);
void door_sockets_update(void *door);
void *door_sockets_free(void *door);
int door_sockets_cleanup(const struct uninstall_options *options, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says when a device comes, goes or changes: its messages on a netlink socket. Here
 * is the socket and whether a message is about a subsystem; who listens, and what for, is not known
 * here. Facts: lib/kobject_uevent.c of the Linux kernel.
 */
#ifndef SLUICE_HARDWARE_UEVENT_H
#define SLUICE_HARDWARE_UEVENT_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum uevent_limits { UEVENT_MESSAGE_MAX = 8192 }; /* UEVENT_BUFFER_SIZE is 2048 */

/* A socket that does not block and hears the kernel's messages; to be closed. -errno. */
int uevent_open(struct err *err);
/*
 * Takes all messages that wait. Whether one of them is about the subsystem, or some were lost.
 * Messages that are not the kernel's do not count.
 */
bool uevent_take(int fd, const char *subsystem);
/* "add@/devices/...", then "KEY=value" texts, each with its NUL: whether SUBSYSTEM is that. Pure.
 */
bool uevent_is_of(const char *bytes, size_t length, const char *subsystem);

#endif

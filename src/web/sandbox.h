/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the process gives up before it reads the first byte of a stranger: user and groups,
 * capabilities, the file system, the right to new descriptors beyond what connections need, and all
 * system calls but those that serving what is in memory takes. The filter is written by hand for
 * x86-64 and aarch64; elsewhere there is none, and the rest holds.
 *
 * A call that is not on the list fails with EPERM: a C library of tomorrow that tries one more does
 * not end the service. One that only somebody who has taken the process over would make (another
 * program, a socket, another process's memory, code that can be written) ends it.
 */
#ifndef SLUICE_WEB_SANDBOX_H
#define SLUICE_WEB_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct sock_filter;

enum sandbox_limits {
	SANDBOX_DESCRIPTORS = 128, /* 80 connections and a dozen of its own, and room */
	SANDBOX_ADDRESS_MB = 256,
	SANDBOX_CODE_MAX = 256, /* instructions of the filter */
};

#define SANDBOX_KEEP UINT32_MAX /* uid and gid: stays who it is */

/*
 * All of it, in the right order. With a uid and gid the process was started by root and becomes
 * that user, in an empty root directory that nobody else can reach; where the kernel does not let
 * it change its root, the filter alone keeps it from files. Where it may not become anybody (a
 * container without capabilities) it stays who it is behind the filter. 0; -EPERM and the like: it
 * could not, and must not go on.
 */
int sandbox_enter(uint32_t uid, uint32_t gid, struct err *err);

/* The last step alone. 0, -ENOTSUP where there is no filter for this processor, -errno. */
int sandbox_filter(struct err *err);

/* The instructions that it gives the kernel, of which `out` has room for SANDBOX_CODE_MAX: for a
 * test where no kernel of this processor runs them. Returns how many; 0 where there is no filter.
 */
uint16_t sandbox_filter_code(struct sock_filter *out);

#endif

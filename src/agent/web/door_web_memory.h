/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the web process sees (web/view.h): a memfd that nobody but the agent can write,
 * and a tick that tells of a new view. Knows nothing of what is in it.
 */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_MEMORY_H
#define SLUICE_AGENT_WEB_DOOR_WEB_MEMORY_H

#include <stdint.h>

struct err;
struct view_shared;

struct web_memory {
	int fd;			    /* owned; -1: none */
	struct view_shared *shared; /* owned mapping; NULL */
};
#define WEB_MEMORY_NONE                                                                            \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * An empty view that is valid. Its size cannot be changed any more and, where the kernel can say so
 * (5.1), nobody can ever write it again but through the mapping that we have; everywhere else can
 * only root and we. Pages that are not used take no memory. -ENOMEM, -EMFILE, -ENOSYS.
 */
int web_memory_open(struct web_memory *memory, struct err *err);
void web_memory_close(struct web_memory *memory);

/* A descriptor of it for the web process, which can only be read. Owned by the caller. -EMFILE, or
 * -ENOENT without /proc. */
int web_memory_reader(const struct web_memory *memory, struct err *err);

/*
 * Both ends of the tick, owned by the caller: ours, and that of the web process. A socket pair: the
 * flags of an eventfd belong to both processes, so that one which was taken over could make our
 * write wait for ever.
 */
int web_tick_open(int out_fds[2], struct err *err);
/* Never waits; one that was not read yet is enough. */
void web_tick(int fd);

#endif

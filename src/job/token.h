/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token of a GPU slot: who has it may use the slot, and the kernel takes it back when the last
 * process that holds it is gone, however it went. A token is two things, and both must be had:
 *
 *   - an abstract unix socket, bound and listening, "\0sluice/gpu/<unit>/<slot>": needs no
 *     directory and no permission, so users who share nothing else still share it. Its name lives
 *     as long as any copy of the descriptor. Abstract names belong to a network namespace:
 *     processes in different ones do not see each other's;
 *   - a file lock (flock) on RUNTIME_DIR/gpu/<unit>.<slot>, where there is such a directory: sees
 *     through network namespaces. The files stay when the lock goes: unlinking a lock file that
 *     somebody is about to lock would let two in.
 *
 * Both survive fork and exec when the descriptors do, so a job that inherits them keeps its GPU
 * even if every process of ours is killed.
 *
 * Knows nothing of jobs, commands, inventories or of whether a unit exists. Called by whoever
 * starts jobs: `sluice run` today, the queue's supervisor as well.
 */
#ifndef SLUICE_JOB_TOKEN_H
#define SLUICE_JOB_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/note.h"

struct err;

enum token_limits {
	TOKEN_UNIT_MAX = 56,	/* bytes of a unit's UUID with the final NUL */
	TOKEN_MACHINE_MAX = 36, /* bytes of a machine's id with the final NUL */
	TOKEN_SLOT_MAX = 999,
	TOKEN_BACKLOG = 1024, /* waiters that may be connected before the holder looks */
};

/* Where this process looks for tokens. */
struct token_place {
	int dir_fd;			 /* owned; RUNTIME_DIR/gpu, or -1: sockets alone */
	char machine[TOKEN_MACHINE_MAX]; /* "" on a real machine */
};

#define TOKEN_PLACE_NONE ((struct token_place){.dir_fd = -1})

/*
 * `runtime_dir` is where the lock files go (made if missing, mode 0755); NULL: no files, sockets
 * alone. It and its "gpu" must be real directories that belong to root or to us and that nobody
 * else can write: -EPERM otherwise.
 * `sim_state` is the state file of a simulated machine, NULL on a real one: simulated machines
 * have equal UUIDs, so their tokens carry the file's identity. -ENOENT, -EACCES, ...
 */
int token_place_open(const char *runtime_dir, const char *sim_state, struct token_place *out,
		     struct err *err);
void token_place_close(struct token_place *place);
#define _cleanup_token_place_ __attribute__((cleanup(token_place_close)))

/* Both descriptors are O_CLOEXEC. Plain data: copying it does not copy the ownership. */
struct token {
	int socket_fd; /* owned; listening */
	int lock_fd;   /* owned; -1 where there is no directory */
};

#define TOKEN_NONE ((struct token){.socket_fd = -1, .lock_fd = -1})

/*
 * Takes the token of `unit` (a GPU's or MIG device's UUID) and `slot` (0 to TOKEN_SLOT_MAX),
 * without waiting. `self` is written into the lock file for others to read.
 * Returns 0 and fills `out`; -EBUSY when somebody has it; -EINVAL for a unit that is no UUID;
 * otherwise what the system said.
 */
int token_take(const struct token_place *place, const char *unit, unsigned slot,
	       const struct note *self, struct token *out, struct err *err);

/* Closes our descriptors. The token is free when the last copy of them is closed. */
void token_release(struct token *token);

/*
 * Connects to the token's holder. The descriptor hangs up (POLLHUP) when the token is released, so
 * waiting for it needs no polling; before that it may become readable once, with the holder's note
 * (token_read_note()). `out_holder` gets what the kernel knows at once: pid and uid.
 * Returns the descriptor (caller's); -ECONNREFUSED when nobody listens: the token is free, or its
 * holder is of a kind that cannot be watched (another network namespace, a process between bind
 * and listen); -EAGAIN when too many are watching already.
 */
int token_watch(const struct token_place *place, const char *unit, unsigned slot,
		struct note *out_holder, struct err *err);

/*
 * Reads the note that the holder sends, waiting up to `timeout_ms` for it. pid and uid in `holder`
 * stay what the kernel said. Returns 0, or -ETIMEDOUT, -EINVAL (not one of ours), -ECONNRESET.
 */
int token_read_note(int watch_fd, int timeout_ms, struct note *holder, struct err *err);

/* What the lock file says of its holder: for those who cannot reach its socket. -ENOENT: nothing.
 */
int token_read_lock(const struct token_place *place, const char *unit, unsigned slot,
		    struct note *out_holder, struct err *err);

/* Abstract names for others who want the same kernel-kept life: `kind` "gpu", "queue". The name
 * is "sluice/<kind>/[<machine>/]<rest>", without the leading NUL. -ENAMETOOLONG. */
enum { TOKEN_SOCKET_NAME_MAX = 108 };

#endif

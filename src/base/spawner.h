/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is started many times a second is started once more, as a helper that forks
 * itself: what it starts is linked and initialised already. Each of those is our own child, as if
 * we had executed the program (CLONE_PARENT). The helper is there while starts follow each other
 * closely, and is started anew when the program's file is another one. Without it, or when it does
 * not answer, the program is executed. The program's side is src/libexec/supervise/spawned.h.
 */
#ifndef SLUICE_BASE_SPAWNER_H
#define SLUICE_BASE_SPAWNER_H

#include <stdint.h>
#include <sys/types.h>

struct child_set;
struct child_spec;
struct err;
struct loop;
struct spawner;

enum spawner_limits {
	SPAWNER_FD = 3,		  /* the helper's end of the connection, SOCK_SEQPACKET */
	SPAWNER_FDS_MAX = 5,	  /* that are handed over */
	SPAWNER_TEXT_MAX = 64,	  /* of arguments */
	SPAWNER_FORKS_MAX = 1000, /* of one helper: the addresses in memory are those of all */
	SPAWNER_ANSWER_MS = 1000, /* a helper that takes longer is killed */
};

#define SPAWNER_BURST_NS UINT64_C(1000000000)  /* between two starts that follow each other */
#define SPAWNER_IDLE_NS	 UINT64_C(3000000000)  /* then the helper ends */
#define SPAWNER_LIFE_NS	 UINT64_C(60000000000) /* then it is started anew */

/* What is asked for, with as many descriptors as targets. */
struct spawner_request {
	uint32_t fd_count;
	int32_t targets[SPAWNER_FDS_MAX];
	char arguments[SPAWNER_TEXT_MAX]; /* behind the program's name, a NUL after each; then "" */
};

/* And what comes back. */
struct spawner_answer {
	int32_t pid; /* or -errno: nothing was started */
};

/* `path`: of the program, which understands "--spawner". All are borrowed until spawner_free(). */
struct spawner *spawner_new(struct child_set *set, struct loop *loop, const char *path,
			    struct err *err);
/* Ends the helper, and nothing that it has started. NULL is fine; returns NULL. */
struct spawner *spawner_free(struct spawner *spawner);

/* A child_spawner; `how` is a struct spawner. -EINPROGRESS: the helper was told, and what became of
 * it nobody knows. Otherwise as child_spawn(). */
int spawner_spawn(void *how, const struct child_spec *spec, pid_t *out_pid, struct err *err);

/* Of the helper, or -1: for tests. */
pid_t spawner_pid(const struct spawner *spawner);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sockets of ours lie in the kubelet's directory, noted in the state directory: an agent that
 * is killed leaves them there, under names that other device plugins have as well. Whoever comes
 * next (the agent that starts, or `sluice agent --cleanup`) removes those on which nobody listens
 * any more, and no others.
 */
#ifndef SLUICE_AGENT_SOCKET_RECORD_H
#define SLUICE_AGENT_SOCKET_RECORD_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct kubelet;
struct log;
struct notes;
struct socket_record;
struct storage;

#define SOCKET_RECORD_NAME "kubelet-sockets"

enum socket_record_limits { SOCKET_RECORD_MAX = 1 << 16 /* bytes of the file */ };

struct socket_record_options {
	struct storage *storage; /* borrowed, all; ends before socket_record_free() */
	struct log *log;	 /* may be NULL */
	const char *state_dir;
};

/* The file: one absolute path of a socket (NAME.sock) in each line. Adds those to `out`; a line
 * that we would not have written is left out. Pure. */
void socket_record_parse(const char *bytes, size_t length, struct notes *out);

/* -ENOMEM, -ENAMETOOLONG. */
int socket_record_new(const struct socket_record_options *options, struct socket_record **out,
		      struct err *err);
struct socket_record *socket_record_free(struct socket_record *record);

/*
 * What is served now: the endpoints of `kubelets` (`count`; NULL entries serve nothing) in
 * `directory`. Written on the storage thread where it is another than before. `cleans`: what was
 * noted earlier, is not served and nobody listens on is removed; before that it stays noted.
 */
void socket_record_update(struct socket_record *record, const char *directory,
			  const struct kubelet *const *kubelets, unsigned count, bool cleans);

/*
 * Blocks. Removes what is noted in the state directory, is not in `kept` (may be NULL) and is a
 * socket on which nobody listens; `removed` (may be NULL) is told each. The note stays. 0, also
 * where there is none; the first failure to remove one.
 */
int socket_record_clean(const char *state_dir, const struct notes *kept,
			void (*removed)(const char *path, void *context), void *context,
			struct err *err);

#endif

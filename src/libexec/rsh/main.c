/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-rsh [options] HOST WORD...: the remote shell of MPI's launchers inside a job with several
 * workers. Asks the job's supervisor, by the socket that SLUICE_RSH names, to run the words in
 * worker HOST with the descriptors of this process, waits, and exits as that did. Looks at nothing
 * of it and copies nothing.
 *
 * sluice-rsh --enter COMMAND...: becomes a part of the worker whose rank it is, and executes the
 * command; Open MPI's orte_fork_agent, when all ranks are below one daemon.
 *
 * sluice-rsh --ranks: the launcher of a job without MPI. Has the job's command run once in each
 * worker, and ends as they do.
 *
 * Runs in any image and as any user: no C library (see freestanding/kernel.h), no files.
 */
#include <asm/errno.h>
#include <asm/unistd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libexec/freestanding/kernel.h"
#include "libexec/freestanding/memory.h"
#include "libexec/rsh/packet.h"
#include "libexec/rsh/words.h"

enum {
	MAIN_UNIX = 1,		       /* AF_UNIX */
	MAIN_SEQPACKET = 5 | 02000000, /* SOCK_SEQPACKET | SOCK_CLOEXEC */
	MAIN_SOCKET = 1,	       /* SOL_SOCKET */
	MAIN_RIGHTS = 1,	       /* SCM_RIGHTS */
	MAIN_NOSIGNAL = 0x4000,	       /* MSG_NOSIGNAL */
	MAIN_EXIT_FAILED = 255,	       /* as ssh(1) */
	MAIN_EXIT_NOT_EXECUTABLE = 126,
	MAIN_EXIT_NOT_FOUND = 127,
	MAIN_VARIABLES_MAX = 16384,
	MAIN_PATH_MAX = 4096,
	MAIN_RANK_MAX = 1 << 20,
};

/* The kernel's struct msghdr, cmsghdr with descriptors, sockaddr_un. */
struct vector {
	const void *bytes;
	size_t length;
};
struct rsh_rights {
	size_t length;
	int level, type;
	int fds[PACKET_FDS];
	int padding;
};
struct message {
	const void *name;
	unsigned name_length;
	struct vector *vectors;
	size_t vector_count;
	const void *control;
	size_t control_length;
	unsigned flags;
};
struct rsh_address {
	uint16_t family;
	char path[108];
};

static char main_text[PACKET_TEXT_MAX];
static char main_host[PACKET_HOST_MAX + 1];
static char main_packet[PACKET_MAX];
static const char *main_variables[MAIN_VARIABLES_MAX + 1];

void rsh_start(const long *stack);

/* --- texts ------------------------------------------------------------------------------------ */

static size_t text_length(const char *text)
{
	size_t length = 0;
	while (text[length])
		length++;
	return length;
}

static void text_print(int fd, const char *text)
{
	(void)kernel_call(__NR_write, fd, (long)text, (long)text_length(text), 0);
}

static void text_complain(const char *subject, const char *what)
{
	text_print(2, "sluice-rsh: ");
	if (subject) {
		text_print(2, subject);
		text_print(2, ": ");
	}
	text_print(2, what);
	text_print(2, "\n");
}

/* The length of `name` when `text` begins with it and '='; 0. */
static size_t text_has_name(const char *text, const char *name)
{
	size_t i = 0;
	while (name[i] && text[i] == name[i])
		i++;
	return name[i] || text[i] != '=' ? 0 : i;
}

static bool text_is_same_variable(const char *a, const char *b)
{
	size_t i = 0;
	while (a[i] && a[i] != '=' && a[i] == b[i])
		i++;
	return a[i] == b[i] && a[i] == '=';
}

static const char *text_variable(const char *const *environment, const char *name)
{
	for (; *environment; environment++) {
		size_t length = text_has_name(*environment, name);
		if (length)
			return *environment + length + 1;
	}
	return NULL;
}

/* --- the supervisor --------------------------------------------------------------------------- */

/* The connection, or -errno. */
static long main_connect(const char *name)
{
	struct rsh_address address = {.family = MAIN_UNIX};
	size_t length = text_length(name);
	if (length > PACKET_NAME_MAX)
		return -ENAMETOOLONG;

	memcpy(address.path + 1, name, length); /* behind the NUL: an abstract one */
	long fd = kernel_call(__NR_socket, MAIN_UNIX, MAIN_SEQPACKET, 0, 0);
	if (fd < 0)
		return fd;

	long size = (long)(offsetof(struct rsh_address, path) + 1 + length), rc;
	do {
		rc = kernel_call(__NR_connect, fd, (long)&address, size, 0);
	} while (rc == -EINTR);
	return rc < 0 ? rc : fd;
}

static long main_send(int fd, size_t length, bool with_descriptors)
{
	struct rsh_rights rights = {.length = offsetof(struct rsh_rights, fds) + sizeof(rights.fds),
				    .level = MAIN_SOCKET,
				    .type = MAIN_RIGHTS,
				    .fds = {0, 1, 2}};
	struct vector vector = {main_packet, length};
	struct message message = {.vectors = &vector, .vector_count = 1};

	if (with_descriptors) {
		message.control = &rights;
		message.control_length = rights.length;
	}

	long rc;
	do {
		rc = kernel_call(__NR_sendmsg, fd, (long)&message, MAIN_NOSIGNAL, 0);
	} while (rc == -EINTR);
	return rc;
}

/* Asks, and waits for the answer, as long as it takes. False: it has said why. */
static bool main_ask(const char *const *environment, const struct packet *request,
		     struct packet *out)
{
	const char *subject = request->kind == PACKET_RUN ? request->host : NULL;
	const char *name = text_variable(environment, "SLUICE_RSH");
	if (!name || !*name) {
		text_complain(subject, "SLUICE_RSH is not set: this is no job with workers");
		return false;
	}

	size_t length = packet_format(request, main_packet, sizeof(main_packet));
	long fd = main_connect(name);
	if (fd < 0) {
		text_complain(subject, fd == -ECONNREFUSED
					   ? "the supervisor of the job does not answer: has the "
					     "job ended, or is this another network namespace?"
					   : "cannot reach the supervisor of the job");
		return false;
	}

	long rc = main_send((int)fd, length, request->kind != PACKET_ENTER);
	if (rc < 0) {
		text_complain(subject, rc == -EBADF ? "stdin, stdout or stderr is closed"
						    : "cannot ask the supervisor of the job");
		return false;
	}

	do {
		rc = kernel_call(__NR_read, fd, (long)main_packet, sizeof(main_packet), 0);
	} while (rc == -EINTR);
	(void)kernel_call(__NR_close, fd, 0, 0, 0);

	if (rc <= 0 || !packet_parse(main_packet, (size_t)rc, out)) {
		text_complain(subject, "the supervisor of the job went away");
		return false;
	}

	if (out->kind == PACKET_REFUSED)
		text_complain(subject, out->text);

	return out->kind != PACKET_REFUSED;
}

/* --- --enter ---------------------------------------------------------------------------------- */

static bool main_rank(const char *text, uint32_t *out)
{
	uint32_t value = 0;

	if (!text || !*text)
		return false;

	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > MAIN_RANK_MAX)
			return false;
		value = value * 10 + (uint32_t)(*text - '0');
	}

	*out = value;
	return true;
}

/* The variables of this process, with those of the answer in place of their own. */
static bool main_merge(const char *const *environment, const struct packet *answer)
{
	size_t count = 0;
	const char *end = answer->text + answer->text_length;
	for (const char *at = answer->text; at < end; at += text_length(at) + 1) {
		if (count == MAIN_VARIABLES_MAX)
			return false;
		main_variables[count++] = at;
	}

	size_t own = count;

	for (; *environment; environment++) {
		bool is_set = false;
		for (size_t i = 0; i < own; i++)
			is_set |= text_is_same_variable(*environment, main_variables[i]);

		if (is_set)
			continue;
		if (count == MAIN_VARIABLES_MAX)
			return false;

		main_variables[count++] = *environment;
	}

	main_variables[count] = NULL;
	return true;
}

/* As execvp(3). -errno. */
static long main_execute(const char *const *argv)
{
	char path[MAIN_PATH_MAX];
	const char *at = text_variable(main_variables, "PATH");
	size_t length = text_length(argv[0]);
	bool has_slash = false;

	for (size_t i = 0; i < length; i++)
		has_slash |= argv[0][i] == '/';

	if (has_slash)
		return kernel_call(__NR_execve, (long)argv[0], (long)argv, (long)main_variables, 0);

	long failure = -ENOENT;

	for (at = at ? at : "/usr/bin:/bin"; *at;) {
		size_t part = 0;
		while (at[part] && at[part] != ':')
			part++;

		if (part > 0 && part + length + 2 < sizeof(path)) {
			memcpy(path, at, part);
			path[part] = '/';
			memcpy(path + part + 1, argv[0], length + 1);

			long rc = kernel_call(__NR_execve, (long)path, (long)argv,
					      (long)main_variables, 0);
			if (rc != -ENOENT && rc != -ENOTDIR)
				failure = rc;
		}

		at += part + (at[part] == ':');
	}

	return failure;
}

static int main_enter(const char *const *argv, const char *const *environment)
{
	struct packet request = {.kind = PACKET_ENTER}, answer;
	if (!argv[0] ||
	    !main_rank(text_variable(environment, "OMPI_COMM_WORLD_LOCAL_RANK"), &request.value)) {
		text_complain(NULL, "--enter is for Open MPI's orte_fork_agent, which sets "
				    "OMPI_COMM_WORLD_LOCAL_RANK and names a command");
		return MAIN_EXIT_FAILED;
	}

	if (!main_ask(environment, &request, &answer))
		return MAIN_EXIT_FAILED;
	if (answer.kind != PACKET_ENTERED || !main_merge(environment, &answer)) {
		text_complain(NULL, "too many variables");
		return MAIN_EXIT_FAILED;
	}

	long rc = main_execute(argv);
	text_complain(argv[0], rc == -ENOENT ? "not found" : "cannot be executed");
	return rc == -ENOENT ? MAIN_EXIT_NOT_FOUND : MAIN_EXIT_NOT_EXECUTABLE;
}

/* --- one command ------------------------------------------------------------------------------ */

static int main_ranks(const char *const *environment)
{
	struct packet request = {.kind = PACKET_RANKS}, answer;
	if (!main_ask(environment, &request, &answer) || answer.kind != PACKET_ENDED)
		return MAIN_EXIT_FAILED;
	return (int)(answer.value & 0xff);
}

static const char main_help[] =
    "usage: sluice-rsh [options] HOST COMMAND [WORD...]\n"
    "\n"
    "Runs the words, joined by one blank, with /bin/sh in worker HOST of the job in which it is\n"
    "called, and exits as that did (128 + N: ended by signal N). MPI's launchers call it in place\n"
    "of ssh; 'sluice run --workers' sets the variables that make them do so.\n"
    "\n"
    "  -x -n -q -T -v -4 -6 -f -t     ignored\n"
    "  -o -p -l -i -F -E -c -m VALUE  ignored, with their values\n"
    "  --enter COMMAND [WORD...]      for Open MPI's orte_fork_agent: executes it as a rank\n"
    "  --ranks                        the launcher of 'sluice run --mpi ranks'\n"
    "\n"
    "SLUICE_RSH names the socket of the job's supervisor. There is no 'serve' and no way to\n"
    "another machine yet: that needs the controller of a cluster.\n"
    "\n"
    "exit status: the command's; 255 when it could not be started, and why\n";

static int main_usage(const char *what)
{
	text_complain(NULL, what);
	text_print(2, "usage: sluice-rsh [options] HOST COMMAND [WORD...] (--help says more)\n");
	return MAIN_EXIT_FAILED;
}

static bool main_is(const char *text, const char *word)
{
	size_t i = 0;
	while (text[i] && text[i] == word[i])
		i++;
	return text[i] == word[i];
}

static int rsh_main(int argc, const char *const *argv, const char *const *environment)
{
	struct rsh_words words;
	struct packet answer;

	if (argc > 1 && main_is(argv[1], "--enter"))
		return main_enter(argv + 2, environment);
	if (argc == 2 && main_is(argv[1], "--ranks"))
		return main_ranks(environment);

	switch (words_parse(argc, argv, PACKET_HOST_MAX, main_text, sizeof(main_text), &words)) {
	case WORDS_OK:
		break;
	case WORDS_HELP:
		text_print(1, main_help);
		return 0;
	case WORDS_BAD_OPTION:
		return main_usage("an option that is not known, or one without its value");
	case WORDS_NO_HOST:
		return main_usage("no host");
	case WORDS_NO_COMMAND:
		return main_usage("no command");
	case WORDS_TOO_LONG:
		return main_usage("the host or the command is too long: 255 and 131071 bytes");
	}
	memcpy(main_host, words.host, words.host_length);

	struct packet request = {.kind = PACKET_RUN, .host = main_host, .text = main_text};
	if (!main_ask(environment, &request, &answer) || answer.kind != PACKET_ENDED)
		return MAIN_EXIT_FAILED;

	return (int)(answer.value & 0xff);
}

/* `stack` is as the kernel leaves it: argc, argv and its NULL, the environment and its NULL. */
void rsh_start(const long *stack)
{
	const char *const *argv = (const char *const *)(stack + 1);
	int status = rsh_main((int)stack[0], argv, argv + stack[0] + 1);
	(void)kernel_call(__NR_exit_group, status, 0, 0, 0);
	__builtin_unreachable();
}

KERNEL_ENTRY("rsh_start");

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-memlock LIMIT [warn]: an OCI hook (createRuntime) that raises RLIMIT_MEMLOCK of one
 * container, because Kubernetes has no field for it and a job with RDMA that may not lock memory
 * runs over TCP without a word. LIMIT is "unlimited" or bytes. Never lowers a limit, opens nothing
 * of the container's root, and changes nothing but this limit.
 *
 * On failure it says why and exits 1, so the container does not start; with `warn` it exits 0.
 * Without a C library (freestanding/kernel.h): 10 KB, no loader, no environment.
 */
#include <asm/fcntl.h>
#include <asm/unistd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libexec/freestanding/kernel.h"
#include "libexec/freestanding/memory.h"
#include "libexec/memlock/state.h"

enum {
	MAIN_MEMLOCK =
	    8, /* RLIMIT_MEMLOCK of asm-generic/resource.h, and of both processors here */
	MAIN_HERE = -100, /* AT_FDCWD */
	MAIN_LINE_MAX = 512,
	MAIN_PATH_MAX = 4096,
	MAIN_EXIT_USAGE = 64,
};

/* struct rlimit64 of the kernel. */
struct limit {
	uint64_t soft, hard;
};

static char main_text[STATE_TEXT_MAX + 1];
static char main_config[STATE_CONFIG_MAX + 1];

void memlock_start(const long *stack);

/* --- one line of text ------------------------------------------------------------------------- */

struct memlock_line {
	char text[MAIN_LINE_MAX];
	size_t length;
};

/* Room is kept for the end of the line. What is not printable becomes '?'. */
static void line_bytes(struct memlock_line *line, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length && line->length < sizeof(line->text) - 1; i++) {
		char c = bytes[i];
		line->text[line->length++] = c >= ' ' && c <= '~' ? c : '?';
	}
}

static void line_text(struct memlock_line *line, const char *text)
{
	size_t length = 0;
	while (text[length])
		length++;
	line_bytes(line, text, length);
}

static void line_number(struct memlock_line *line, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	line_bytes(line, digits + at, sizeof(digits) - at);
}

static void line_limit(struct memlock_line *line, uint64_t limit)
{
	if (limit == STATE_UNLIMITED)
		line_text(line, "unlimited");
	else
		line_number(line, limit);
}

static void line_start(struct memlock_line *line, const struct memlock_state *state)
{
	line->length = 0;
	line_text(line, "sluice-memlock: container ");
	if (state->id)
		line_bytes(line, state->id, state->id_length < 128 ? state->id_length : 128);
	else
		line_text(line, "without a name");
	line_text(line, ": ");
}

static void line_print(struct memlock_line *line)
{
	line->text[line->length++] = '\n';
	(void)kernel_call(__NR_write, 2, (long)line->text, (long)line->length, 0);
}

/* --- files ------------------------------------------------------------------------------------ */

/* As many bytes as there are, at most `size`; < 0: -errno. */
static long main_read(int fd, char *out, size_t size)
{
	const long interrupted = -4; /* EINTR */
	size_t length = 0;

	while (length < size) {
		long rc =
		    kernel_call(__NR_read, fd, (long)(out + length), (long)(size - length), 0);
		if (rc == interrupted)
			continue;
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;

		length += (size_t)rc;
	}

	return (long)length;
}

/* runc 1.1.5 sets what config.json says after the hooks: then it is lower than it was to be.
 * crun 1.8.1 does so before them. */
static void main_look_at_config(const struct memlock_state *state, uint64_t wanted)
{
	static const char name[] = "/config.json";
	char path[MAIN_PATH_MAX];
	struct state_limit limit;

	if (!state->bundle || state->bundle_length >= sizeof(path) - sizeof(name))
		return;

	memcpy(path, state->bundle, state->bundle_length);
	memcpy(path + state->bundle_length, name, sizeof(name));

	/* NONBLOCK: whatever it is, opening it does not wait. */
	long fd = kernel_call(__NR_openat, MAIN_HERE, (long)path,
			      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return;

	long length = main_read((int)fd, main_config, sizeof(main_config));
	if (length < 0 || length > STATE_CONFIG_MAX ||
	    !state_config_parse(main_config, (size_t)length, &limit) || limit.soft >= wanted)
		return;

	struct memlock_line line;
	line_start(&line, state);
	line_text(&line, "its config.json sets RLIMIT_MEMLOCK to ");
	line_limit(&line, limit.soft);
	line_text(&line, ", and runc does that after this: remove it from the runtime's defaults");
	line_print(&line);
}

/* --- what it is for --------------------------------------------------------------------------- */

static const char *main_reason(long rc)
{
	switch (-rc) {
	case 1: /* EPERM */
		return "not permitted (root without CAP_SYS_RESOURCE?)";
	case 3: /* ESRCH */
		return "its process is gone";
	default:
		return NULL;
	}
}

static uint64_t main_larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool main_raise(const struct memlock_state *state, uint64_t wanted)
{
	struct limit now;
	long rc = kernel_call(__NR_prlimit64, state->pid, MAIN_MEMLOCK, 0, (long)&now);
	if (rc == 0) {
		struct limit next = {.soft = main_larger(now.soft, wanted),
				     .hard = main_larger(now.hard, wanted)};
		if (next.soft == now.soft && next.hard == now.hard)
			return true;

		rc = kernel_call(__NR_prlimit64, state->pid, MAIN_MEMLOCK, (long)&next, 0);
		if (rc == 0)
			return true;
	}

	struct memlock_line line;
	line_start(&line, state);
	line_text(&line, "cannot raise RLIMIT_MEMLOCK to ");
	line_limit(&line, wanted);
	line_text(&line, ": ");

	if (main_reason(rc)) {
		line_text(&line, main_reason(rc));
	} else {
		line_text(&line, "error ");
		line_number(&line, (uint64_t)-rc);
	}

	line_print(&line);
	return false;
}

static bool main_is_word(const char *text, const char *word)
{
	size_t i = 0;
	while (text[i] && text[i] == word[i])
		i++;
	return text[i] == word[i];
}

static int main_usage(void)
{
	struct memlock_line line = {.length = 0};
	line_text(&line, "usage: sluice-memlock unlimited|BYTES [warn] <STATE (an OCI hook)");
	line_print(&line);
	return MAIN_EXIT_USAGE;
}

static int memlock_main(int argc, const char *const *argv)
{
	uint64_t wanted;
	struct memlock_state state;
	size_t length = 0;

	if (argc < 2 || argc > 3 || (argc == 3 && !main_is_word(argv[2], "warn")))
		return main_usage();

	while (argv[1][length])
		length++;

	if (!state_limit_parse(argv[1], length, &wanted))
		return main_usage();

	int failed = argc == 3 ? 0 : 1;
	long read = main_read(0, main_text, sizeof(main_text));
	if (read < 0 || read > STATE_TEXT_MAX ||
	    !memlock_state_parse(main_text, (size_t)read, &state)) {
		struct memlock_line line = {.length = 0};
		line_text(&line, "sluice-memlock: standard input is no state of a container with a "
				 "process (at most 65536 bytes of JSON)");
		line_print(&line);
		return failed;
	}

	if (!main_raise(&state, wanted))
		return failed;

	main_look_at_config(&state, wanted);
	return 0;
}

/* `stack` is as the kernel leaves it: argc, then argv. */
void memlock_start(const long *stack)
{
	int status = memlock_main((int)stack[0], (const char *const *)(stack + 1));
	(void)kernel_call(__NR_exit_group, status, 0, 0, 0);
	__builtin_unreachable();
}

KERNEL_ENTRY("memlock_start");

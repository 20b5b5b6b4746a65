/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe as a program of its own. It does what `sluice probe` does and takes the same arguments
 * from the same caller (src/probe/client_spawn.c), but neither the tables of all commands nor the
 * libraries of the agent are in it: each of the two costs a process memory that cannot be shared.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/parse.h"
#include "base/text.h"
#include "hardware/pci.h"
#include "probe/server.h"

enum { EXIT_USAGE = 64, FD_MIN = 3, FD_MAX = 65535 };
#define PERIOD_MIN_NS UINT64_C(1000000)
#define PERIOD_MAX_NS UINT64_C(3600000000000)

static bool take_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	return parse_u64(text, min, max, out) == 0;
}

static bool take_fd(const char *text, int *out)
{
	uint64_t fd;
	if (!take_number(text, FD_MIN, FD_MAX, &fd))
		return false;
	*out = (int)fd;
	return true;
}

/* "INDEX/BUS": a GPU that is left alone. */
static bool take_skip(const char *text, struct inventory_skip *out)
{
	const char *slash = strchr(text, '/');
	uint64_t index;

	if (!slash || strlen(slash + 1) >= sizeof(out->bus) ||
	    parse_u64_span(text, (size_t)(slash - text), 0, UINT32_MAX, &index) < 0)
		return false;

	out->index = (uint32_t)index;
	(void)snprintf(out->bus, sizeof(out->bus), "%s", slash + 1);
	return true;
}

/* What stands behind "--NAME=", or NULL for another option. */
static const char *value_of(const char *argument, const char *name)
{
	size_t length = strlen(name);
	bool is_it = text_starts_with(argument, "--") && strncmp(argument + 2, name, length) == 0 &&
		     argument[2 + length] == '=';
	return is_it ? argument + 2 + length + 1 : NULL;
}

static bool take_argument(const char *argument, struct server_options *options,
			  struct inventory_skip *skip)
{
	const char *value;

	if (strcmp(argument, "--once") == 0)
		return options->once = true;
	if (strcmp(argument, "--kernel-log") == 0)
		return options->kernel_log = true;
	if (strcmp(argument, "--log-is-live") == 0)
		return options->log_is_live = true;
	if ((value = value_of(argument, "fd")))
		return take_fd(value, &options->fd);

	if ((value = value_of(argument, "marks-fd")))
		return take_fd(value, &options->marks_fd);
	if ((value = value_of(argument, "period-ns")))
		return take_number(value, PERIOD_MIN_NS, PERIOD_MAX_NS, &options->period_ns);
	if ((value = value_of(argument, "sequence")))
		return take_number(value, 0, UINT64_MAX, &options->snapshot_sequence);
	if ((value = value_of(argument, "log-after")))
		return take_number(value, 0, UINT64_MAX, &options->kmsg_after);

	if ((value = value_of(argument, "skip")))
		return options->skip_count < GPU_MAX &&
		       take_skip(value, &skip[options->skip_count++]);

	return false;
}

int main(int argc, char **argv)
{
	static struct inventory_skip skip[GPU_MAX];
	struct server_options options = {
	    .fd = -1,
	    .marks_fd = -1,
	    .period_ns = UINT64_C(1000000000),
	    .kmsg_after = UINT64_MAX,
	    .root = pci_root(),
	    .skip = skip,
	};

	/* It is 'sluice probe' to ps, and started through a descriptor, whose number is no name. */
	(void)prctl(PR_SET_NAME, "sluice");
	bool good = argc > 1 && strcmp(argv[1], "probe") == 0;
	for (int i = 2; i < argc && good; i++)
		good = take_argument(argv[i], &options, skip);

	struct stat info;
	if (!good || fstat(options.fd, &info) < 0 || !S_ISSOCK(info.st_mode)) {
		(void)fprintf(stderr, "sluice-probe: it is started by the service; "
				      "'sluice devices' shows what it sees\n");
		return EXIT_USAGE;
	}

	server_run(&options);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this program is when a link to it is called sluice-runtime: an OCI runtime for images that
 * ask for GPUs by NVIDIA_VISIBLE_DEVICES. It edits the container's config.json, before there is a
 * container, and becomes runc or crun. It starts no process, talks to no driver and touches no
 * root file system. cdi/runtime/wrapper.h has the edit.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cdi/runtime/wrapper.h"
#include "hardware/pci.h"
#include "policy/config.h"

enum { RUNTIME_LINE_MAX = 8192 };

/* Container engines show the runtime's log rather than its standard error. */
static void runtime_log(const struct wrapper_call *call, const char *text)
{
	static const char file[] = "file:"; /* as crun has it */
	const char *path = call->log;

	if (!path || text_starts_with(path, "journald:") || text_starts_with(path, "syslog:"))
		return;
	if (text_starts_with(path, file))
		path += strlen(file);

	_cleanup_buf_ struct buf line;
	buf_init(&line, RUNTIME_LINE_MAX);

	_cleanup_close_ int fd =
	    open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
	if (fd < 0 || wrapper_log_line(call->log_format, text, clock_unix_s(), &line) < 0)
		return;

	(void)!write(fd, buf_text(&line), line.length); /* standard error has it as well */
}

static void runtime_say(const struct wrapper_call *call, const struct err *err)
{
	char text[ERR_TEXT_MAX + 32];
	(void)snprintf(text, sizeof(text), "sluice-runtime: %s", err->text);
	cmd_print(stderr, text);
	fputc('\n', stderr);
	runtime_log(call, text);
}

static int runtime_load(struct config **out, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = agent_paths_config(NULL, path, err);
	if (rc < 0)
		return rc;
	/* The variables of the environment are NVIDIA's plugin's, and none is of ours. */
	return path[0] ? config_load(path, NULL, false, out, err)
		       : config_parse(NULL, 0, "", NULL, false, out, err);
}

static int runtime_edit(const struct wrapper_call *call, const struct config *config,
			struct err *err)
{
	const struct wrapper_settings settings = {
	    .visible = {.annotations = config->runtime.annotations,
			.volume_mounts = config->runtime.volume_mounts,
			.unprivileged_variable = config->runtime.unprivileged_envvar,
			.variables = config->runtime.swarm_variables},
	    .root = pci_root(),
	};
	return wrapper_edit(call, &settings, err);
}

/* jansson 2.14 writes beyond its buffer when it gets no memory for a text that it reads: this
 * program ends before that, with the file as it was. */
static void *runtime_allocate(size_t size)
{
	static const char text[] = "sluice-runtime: out of memory\n";
	void *memory = malloc(size);
	if (memory)
		return memory;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(CMD_EXIT_FAILED);
}

int runtime_wrapper_main(int argc, char **argv)
{
	json_set_alloc_funcs(runtime_allocate, free);
	struct wrapper_call call;
	struct config *config = NULL;
	struct err err = {.code = 0};

	wrapper_call_parse(argc, argv, &call);
	int rc = runtime_load(&config, &err);
	/* A mistake in the file must not keep containers from being stopped. */
	if (rc < 0 && !call.is_start) {
		runtime_say(&call, &err);
		rc = config_parse(NULL, 0, "", NULL, false, &config, &err);
	}

	char path[FILE_PATH_MAX];
	_cleanup_close_ int self = open("/proc/self/exe", O_PATH | O_CLOEXEC);

	if (rc == 0)
		rc = wrapper_find_runtime(config->runtime.runtimes, getenv("PATH"), self, path,
					  &err);
	if (rc == 0 && call.is_start)
		rc = runtime_edit(&call, config, &err);
	(void)config_free(config);

	if (rc == 0) {
		argv[0] = path;
		(void)execv(path, argv);
		(void)err_set(&err, -errno, "cannot become '%s': %s", path, err_describe(errno));
	}

	runtime_say(&call, &err);
	return CMD_EXIT_FAILED;
}

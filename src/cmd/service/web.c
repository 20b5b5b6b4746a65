/* SPDX-License-Identifier: Apache-2.0 */
/* sluice web: becomes the program of libexec that answers HTTP. Started by the service. */
#include <errno.h>
#include <unistd.h>

#include "agent/libexec.h"
#include "base/err.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "web/sandbox.h"

struct web_call_options {
	uint32_t uid, gid; /* SANDBOX_KEEP: stays who it is */
	bool no_sandbox;
};

static const struct option_row rows[] = {
    {.name = "uid",
     .kind = OPTION_U32,
     .help = "user that it becomes when it is started as root",
     .max = UINT32_MAX - 1,
     OPTION_FIELD(struct web_call_options, uid)},
    {.name = "gid",
     .kind = OPTION_U32,
     .help = "group that it takes then",
     .max = UINT32_MAX - 1,
     OPTION_FIELD(struct web_call_options, gid)},
    {.name = "no-sandbox",
     .kind = OPTION_FLAG,
     .help = "for debuggers and sanitizers: does not shut itself in",
     OPTION_FIELD(struct web_call_options, no_sandbox)},
    {.name = NULL},
};

static const struct web_call_options defaults = {.uid = SANDBOX_KEEP, .gid = SANDBOX_KEEP};

static int run(const struct cmd_call *call)
{
	const struct web_call_options *options = call->options;
	char path[FILE_PATH_MAX];
	char uid[TEXT_U64_MAX], gid[TEXT_U64_MAX];
	const char *argv[7] = {"sluice-web"};
	struct err err;
	int count = 1;

	(void)text_u64(uid, options->uid);
	(void)text_u64(gid, options->gid);

	if (options->uid != SANDBOX_KEEP) {
		argv[count++] = "--uid";
		argv[count++] = uid;
	}

	if (options->gid != SANDBOX_KEEP) {
		argv[count++] = "--gid";
		argv[count++] = gid;
	}

	if (options->no_sandbox)
		argv[count++] = "--no-sandbox";
	if (libexec_find("sluice-web", "web", NULL, path, &err) < 0)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	(void)execv(path, (char *const *)argv);
	(void)err_set(&err, -errno, "cannot execute '%s': %s", path, err_describe(-errno));
	return cmd_fail(call, CMD_EXIT_FAILED, &err);
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "the service that started it is gone"},
    {CMD_EXIT_FAILED, "it could not shut itself in, or ran out of memory"},
    {CMD_EXIT_USAGE, "it was not started by the service"},
    {0, NULL},
};

const struct command cmd_web = {
    .name = "web",
    .summary = "Answer HTTP, for the service: metrics, page and events",
    .description =
	"The unprivileged process that answers on sluice.web.address. It has no capability, can "
	"open "
	"no file and no socket, and sees nothing but the view that the service writes for it, so "
	"that whoever takes it over has gained what everybody can read there.\n\n"
	"It is not meant to be started by hand: 'sluice agent' starts it.",
    .group = CMD_GROUP_SERVICE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct web_call_options),
    .exits = exits,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around the edit: the runtime's command line, its program, its log. */
#include "cdi/runtime/wrapper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/names.h"
#include "base/text.h"

/* An option that takes a value. */
struct wrapper_option {
	const char *name;
	char letter;
	const char **value; /* where it goes; NULL: nowhere */
};

static bool wrapper_is_command(const char *word)
{
	static const char *const commands[] = {
	    "checkpoint", "create", "delete", "events", "exec",	  "features", "help",
	    "init",	  "kill",   "list",   "pause",	"ps",	  "restore",  "resume",
	    "run",	  "spec",   "start",  "state",	"update",
	};

	return names_find(commands, word) >= 0;
}

/*
 * Whether `word` is the option; `*out_value` is what stands in it, behind '=' or the letter; NULL:
 * the next word is the value. runc takes one dash or two for any option.
 */
static bool wrapper_is_option(const struct wrapper_option *option, const char *word,
			      const char **out_value)
{
	const char *name = word + 1 + (word[1] == '-');
	size_t length = strlen(option->name);

	*out_value = NULL;
	if (strncmp(name, option->name, length) == 0 &&
	    (name[length] == '\0' || name[length] == '=')) {
		*out_value = name[length] == '=' ? name + length + 1 : NULL;
		return true;
	}

	if (!option->letter || word[1] != option->letter)
		return false;
	if (word[2] != '\0')
		*out_value = word + 2 + (word[2] == '=');

	return true;
}

/* How many words belong to the option at `argv`: 1 or 2. Takes its value. */
static int wrapper_take_option(const struct wrapper_option *options, size_t count,
			       char *const *argv)
{
	for (size_t i = 0; i < count; i++) {
		const char *value;
		if (!wrapper_is_option(&options[i], argv[0], &value))
			continue;
		if (options[i].value && (value || argv[1]))
			*options[i].value = value ? value : argv[1];

		return value || !argv[1] ? 1 : 2;
	}

	return 1; /* without a value, or one that we do not know */
}

void wrapper_call_parse(int argc, char *const *argv, struct wrapper_call *out)
{
	struct wrapper_call call = {.bundle = ".", .config = "config.json", .log_format = "text"};
	const struct wrapper_option before[] = {
	    {"log", '\0', &call.log}, {"log-format", '\0', &call.log_format},
	    {"root", '\0', NULL},     {"criu", '\0', NULL},
	    {"rootless", '\0', NULL}, {"cgroup-manager", '\0', NULL},
	};
	const struct wrapper_option behind[] = {
	    {"bundle", 'b', &call.bundle},  {"config", 'f', &call.config},
	    {"console-socket", '\0', NULL}, {"pid-file", '\0', NULL},
	    {"pidfd-socket", '\0', NULL},   {"preserve-fds", '\0', NULL},
	};
	int at = 1;

	/* Words that are no command belong to options that we do not know. */
	while (at < argc && !wrapper_is_command(argv[at]))
		at += argv[at][0] == '-'
			  ? wrapper_take_option(before, array_length(before), argv + at)
			  : 1;

	if (at < argc)
		call.command = argv[at++];
	call.is_start = call.command &&
			(strcmp(call.command, "create") == 0 || strcmp(call.command, "run") == 0);
	while (call.is_start && at < argc && strcmp(argv[at], "--") != 0)
		at += argv[at][0] == '-'
			  ? wrapper_take_option(behind, array_length(behind), argv + at)
			  : 1;

	*out = call;
}

/* ---- The program ---- */

static bool wrapper_is_program(const char *path, int self)
{
	struct stat status, own;
	if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) || access(path, X_OK) < 0)
		return false;
	/* By whatever name: it would never end. */
	return self < 0 || fstat(self, &own) < 0 || own.st_dev != status.st_dev ||
	       own.st_ino != status.st_ino;
}

static bool wrapper_look(const char *name, size_t length, const char *path, int self,
			 char out[FILE_PATH_MAX])
{
	if (memchr(name, '/', length))
		return name[0] == '/' && file_path(out, NULL, "%.*s", (int)length, name) == 0 &&
		       wrapper_is_program(out, self);

	while (*path) {
		size_t part = strcspn(path, ":");
		/* A relative directory would be the bundle's. */
		if (path[0] == '/' &&
		    file_path(out, NULL, "%.*s/%.*s", (int)part, path, (int)length, name) == 0 &&
		    wrapper_is_program(out, self))
			return true;

		path += part + (path[part] == ':');
	}

	return false;
}

int wrapper_find_runtime(const char *runtimes, const char *path, int self, char out[FILE_PATH_MAX],
			 struct err *err)
{
	if (!path || !path[0])
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

	for (const char *at = runtimes; *at;) {
		size_t length = strcspn(at, ",");
		if (length > 0 && length < FILE_PATH_MAX &&
		    wrapper_look(at, length, path, self, out))
			return 0;
		at += length + (at[length] == ',');
	}

	return err_set(err, -ENOENT,
		       "no OCI runtime to become: none of '%.128s' (sluice.cdi.runtime.runtimes) "
		       "is in %.256s",
		       runtimes, path);
}

/* ---- The log ---- */

int wrapper_log_line(const char *format, const char *text, long long now, struct buf *out)
{
	time_t seconds = (time_t)now;
	struct tm when = {0};
	char time[32] = "";

	if (gmtime_r(&seconds, &when))
		(void)strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &when);

	struct buf valid;
	buf_init(&valid, out->max);

	int rc = text_make_valid(&valid, text, strlen(text));
	json_auto_t *message = rc == 0 ? json_stringn(buf_text(&valid), valid.length) : NULL;

	buf_done(&valid);
	char *quoted = message ? json_dumps(message, JSON_ENCODE_ANY) : NULL;
	if (!quoted)
		return rc < 0 ? rc : -ENOMEM;

	if (strcmp(format, "json") == 0)
		rc = buf_printf(out, "{\"level\":\"error\",\"msg\":%s,\"time\":\"%s\"}\n", quoted,
				time);
	else
		rc = buf_printf(out, "time=\"%s\" level=error msg=%s\n", time, quoted);

	free(quoted);
	return rc;
}

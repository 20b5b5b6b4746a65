/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/script/run_head.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "cmd/script/run_slurm.h"

/* --- which file ------------------------------------------------------------------------------- */

/* Where exec would find a command without a slash. */
static bool head_find_in_path(const char *name, char out[FILE_PATH_MAX])
{
	const char *at = getenv("PATH");

	while (at && *at) {
		size_t length = strcspn(at, ":");
		if (length > 0 && file_path(out, NULL, "%.*s/%s", (int)length, at, name) == 0 &&
		    access(out, X_OK) == 0)
			return true;
		at += length + (at[length] == ':');
	}

	return false;
}

/* An absolute path; false: it has none. */
static bool head_find(const struct run_options *options, const char *command,
		      char out[FILE_PATH_MAX])
{
	char here[FILE_PATH_MAX];
	if (command[0] == '/')
		return file_path(out, NULL, "%s", command) == 0;
	if (!strchr(command, '/') && head_find_in_path(command, out))
		return out[0] == '/';
	if (!getcwd(here, sizeof(here)))
		return false;

	/* A script of this directory, as sbatch takes it: nothing else has its name. */
	if (!options->directory || !strchr(command, '/'))
		return file_path(out, NULL, "%s/%s", here, command) == 0;

	return options->directory[0] == '/'
		   ? file_path(out, NULL, "%s/%s", options->directory, command) == 0
		   : file_path(out, NULL, "%s/%s/%s", here, options->directory, command) == 0;
}

/* The head of a script; NULL: it is none, or cannot be read, of which exec will tell. */
static char *head_load(const char *path, size_t *out_length)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat info;
	char mark[2];

	if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) ||
	    pread(fd, mark, sizeof(mark), 0) != (ssize_t)sizeof(mark) ||
	    !run_script_is(mark, sizeof(mark)))
		return NULL;

	_cleanup_free_ char *bytes = malloc(RUN_SCRIPT_BYTES_MAX);
	size_t length = 0;
	ssize_t got = 1;

	while (bytes && got > 0 && length < RUN_SCRIPT_BYTES_MAX) {
		got = pread(fd, bytes + length, RUN_SCRIPT_BYTES_MAX - length, (off_t)length);
		length += got > 0 ? (size_t)got : 0;
	}

	*out_length = length;
	return bytes && got >= 0 ? take_ptr(bytes) : NULL;
}

/* --- what it says ----------------------------------------------------------------------------- */

/* Of the options that a script can have none of: which it has. */
static const char *head_forbidden(const struct run_options *options)
{
	return options->file	 ? "--file"
	       : options->lines	 ? "--lines"
	       : options->image	 ? "--image"
	       : options->key	 ? "--key"
	       : options->socket ? "--socket"
	       : options->own	 ? "--own"
	       : options->export ? "--export"
				 : NULL;
}

/* The words of one line, from `first` to `end`. */
static int head_parse_line(struct run_head *head, const char *path, size_t first, size_t end,
			   struct err *err)
{
	char *words[RUN_SCRIPT_WORDS_MAX + 2], mark[] = "#SLUICE";
	size_t count = end - first, line = head->script.lines[first];
	struct option_result result;
	struct err why = {.code = 0};

	words[0] = mark;
	memcpy(words + 1, head->script.words + first, count * sizeof(*words));
	words[count + 1] = NULL;

	int rc = options_parse(run_rows, OPTION_MANNER_POSIX, (int)count + 1, words, &head->options,
			       &result, &why);
	if (rc < 0)
		return err_set(err, rc, "%s:%zu: #SLUICE: %s", path, line, why.text);
	if (result.help)
		return err_set(err, -EINVAL, "%s:%zu: #SLUICE: --help is for the command line",
			       path, line);

	if ((size_t)result.first <= count)
		return err_set(err, -EINVAL, "%s:%zu: #SLUICE: '%s' is no option", path, line,
			       words[result.first]);

	const char *forbidden = head_forbidden(&head->options);
	if (forbidden)
		return err_set(err, -EINVAL, "%s:%zu: #SLUICE: %s is for the command line", path,
			       line, forbidden);

	return 0;
}

static int head_parse(const struct cmd_call *call, struct run_head *head, const char *path,
		      struct err *err)
{
	const struct run_script *script = &head->script;
	struct option_result result;
	size_t end;
	int rc = 0;

	head->options = run_defaults;
	head->has_options = true;

	for (size_t first = 0; rc == 0 && first < script->count; first = end) {
		for (end = first + 1;
		     end < script->count && script->lines[end] == script->lines[first];)
			end++;
		rc = head_parse_line(head, path, first, end, err);
	}

	if (rc < 0)
		return rc;

	/* What was typed counts more. */
	return options_parse(run_rows, OPTION_MANNER_POSIX, call->line_count, call->line,
			     &head->options, &result, err);
}

static void head_tell(const struct cmd_call *call, const struct run_script *script,
		      const char *path)
{
	for (size_t i = 0; i < script->note_count; i++) {
		const struct run_script_note *note = &script->notes[i];
		char ours[RUN_SLURM_TEXT_MAX];
		bool is_option = false;

		fprintf(stderr, "%s: ", call->path);
		cmd_print(stderr, path);
		if (note->is_late) {
			fprintf(stderr, ":%zu: #SLUICE after the first command has no effect\n",
				note->line);
			continue;
		}

		_cleanup_free_ char *text = text_copy(note->text, note->length);
		bool is_known = run_slurm_translate(note->text, note->length, ours, &is_option);

		fprintf(stderr, ":%zu: '#SBATCH ", note->line);
		cmd_print(stderr, text ? text : "");
		fputs("' has no effect", stderr);
		if (is_known) {
			fputs(is_option ? "; write '#SLUICE " : ": ", stderr);
			cmd_print(stderr, ours);
			fputs(is_option ? "'" : "", stderr);
		}

		fputc('\n', stderr);
	}
}

/* What is executed: by its whole path, for it may run elsewhere; by its interpreter where it may
 * not be executed itself, as sbatch does. */
static int head_make_command(const struct cmd_call *call, struct run_head *head, const char *path,
			     size_t length, struct err *err)
{
	size_t words = 0, at = 0;
	if (access(path, X_OK) < 0)
		words = run_script_interpreter(head->bytes, length, head->interpreter);

	head->path = strdup(path);
	head->argv = calloc((size_t)call->argc + words + 1, sizeof(*head->argv));
	if (!head->path || !head->argv)
		return err_set(err, -ENOMEM, "no memory for the command");

	for (size_t i = 0; i < words; i++)
		head->argv[at++] = head->interpreter[i];
	head->argv[at++] = head->path;
	for (int i = 1; i < call->argc; i++)
		head->argv[at++] = call->argv[i];

	if (!head->options.name) {
		run_request_name(path, head->name);
		head->options.name = head->name;
	}

	return 0;
}

int run_head_take(const struct cmd_call *call, struct run_head *out)
{
	const struct run_options *options = call->options;
	const char *command = call->argv[0];
	char path[FILE_PATH_MAX];
	size_t length = 0;
	struct err err = {0};

	*out = (struct run_head){.has_options = false};
	if (!command || options->file || options->lines || options->image ||
	    !head_find(options, command, path))
		return CMD_EXIT_OK;

	out->bytes = head_load(path, &length);
	if (!out->bytes)
		return CMD_EXIT_OK;

	int rc = run_script_read(command, out->bytes, length, &out->script, &err);
	if (rc == 0 && !options->quiet)
		head_tell(call, &out->script, command);
	if (rc == 0 && out->script.count > 0)
		rc = head_parse(call, out, command, &err);
	if (rc == 0 && out->script.count > 0)
		rc = head_make_command(call, out, path, length, &err);

	return rc == 0 ? CMD_EXIT_OK
		       : cmd_fail(call, rc == -ENOMEM ? CMD_EXIT_FAILED : CMD_EXIT_DATA, &err);
}

void run_head_done(struct run_head *head)
{
	if (head->has_options)
		options_done(run_rows, &head->options);
	run_script_done(&head->script);
	free(take_ptr(head->argv));
	free(take_ptr(head->bytes));
	free(take_ptr(head->path));
	free(take_ptr(head->interpreter[0]));
	free(take_ptr(head->interpreter[1]));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/rdma_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/filewatch.h"
#include "agent/node.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "base/yaml.h"
#include "policy/config.h"

/* One reading, with copies of what it is about. */
struct rdma_file_run {
	struct rdma_file *file; /* borrowed */
	struct storage_job job;
	char path[FILE_PATH_MAX];
	uint64_t known; /* hash of the content that was read before; 0: none */
	uint64_t hash;
	struct config *config; /* owned; NULL: refused, or the same as before */
	struct filewatch_plan plan;
	struct err err;
};

struct rdma_file {
	struct rdma_file_options options;
	struct filewatch *watch;   /* owned; NULL: there is none */
	struct loop_timer *look;   /* owned */
	struct rdma_file_run *run; /* owned; NULL: none is under way */
	bool run_again, is_stopping, is_known;
	uint64_t generation;	  /* of the node */
	char path[FILE_PATH_MAX]; /* wanted; "": none */
	bool is_named;		  /* it has to be there */
	struct config *config;	  /* owned: what it says; NULL */
	uint64_t hash;		  /* of the content that was read last; 0: none */
	char error[ERR_TEXT_MAX];
};

/* Never 0. */
static uint64_t content_hash(const char *text, size_t length)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ length;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return hash | 1;
}

/* --- a run: the storage thread's ----------------------------------------------------------------
 */

static int rdma_file_work(void *context)
{
	struct rdma_file_run *run = context;
	_cleanup_buf_ struct buf text;

	buf_init(&text, YAML_TEXT_MAX);
	/* Watched before it is read, so that nothing happens in between. */
	if (run->file->watch)
		filewatch_plan_file(run->file->watch, run->path, &run->plan);

	int rc = file_read(run->path, &text, &run->err);
	if (rc < 0)
		return rc;

	run->hash = content_hash(buf_text(&text), text.length);
	if (run->hash == run->known)
		return 0;

	return config_parse_rdma(buf_text(&text), text.length, run->path, NULL, false, &run->config,
				 &run->err);
}

/* --- what came of it: the loop's ----------------------------------------------------------------
 */

static void rdma_file_look(struct rdma_file *file);

static void rdma_file_warn(const struct rdma_file *file)
{
	const struct config *config = file->config;

	for (uint32_t i = 0; i < config->warning_count && i < CONFIG_WARNINGS_MAX; i++) {
		if (!config->warning[i].is_note)
			log_write(file->options.log, LOG_LEVEL_WARNING, NULL,
				  "%s:%" PRIu32 ":%" PRIu32 ": %s", file->path,
				  config->warning[i].line, config->warning[i].column,
				  config->warning[i].text);
	}
}

static void rdma_file_refuse(struct rdma_file *file, const char *text)
{
	if (strcmp(text, file->error) == 0)
		return;
	(void)snprintf(file->error, sizeof(file->error), "%s", text);
	log_write(file->options.log, LOG_LEVEL_ERROR, NULL, "RDMA: %s%s", text,
		  file->config ? ": what was read before stays in force" : "");
	if (file->options.refused)
		file->options.refused(text, file->options.context);
}

/* Returns whether what it says is another. */
static bool rdma_file_take(struct rdma_file *file, struct rdma_file_run *run, int code)
{
	bool had = file->config != NULL;
	bool is_absent = code == -ENOENT && !file->is_named;

	if (code < 0 && !is_absent) {
		/* What could not be read, or for a lack of memory, is looked at anew when it is
		 * there again, even if it is what was read before: the error is over then. */
		file->hash = code == -ENOMEM ? 0 : run->hash;
		rdma_file_refuse(file, run->err.text);
		return false;
	}

	if (code == 0 && !run->config)
		return false; /* the same as before, refused or not */

	file->error[0] = '\0';
	file->hash = run->hash;
	(void)config_free(file->config);
	file->config = take_ptr(run->config);
	if (file->config)
		rdma_file_warn(file);

	if (file->config)
		log_write(file->options.log, LOG_LEVEL_NOTICE, NULL,
			  "RDMA: '%s' has %zu resource%s", file->path, file->config->rdma.count,
			  file->config->rdma.count == 1 ? "" : "s");

	return had || file->config;
}

static struct rdma_file_run *rdma_file_run_free(struct rdma_file_run *run)
{
	(void)config_free(run->config);
	free(run);
	return NULL;
}

static void rdma_file_on_done(void *context, int code)
{
	struct rdma_file_run *run = context;
	struct rdma_file *file = run->file;
	bool is_new = false;

	file->run = NULL;
	if (!file->is_stopping && strcmp(run->path, file->path) == 0) {
		if (file->watch)
			filewatch_set(file->watch, &run->plan);
		is_new = rdma_file_take(file, run, code) || !file->is_known;
		file->is_known = true;
	}

	(void)rdma_file_run_free(run);
	if (file->run_again)
		rdma_file_look(file);
	if (is_new)
		file->options.changed(file->options.context);
}

/* What cannot even be begun is tried again with the timer. */
static void rdma_file_look(struct rdma_file *file)
{
	file->run_again = file->run != NULL && !file->is_stopping;
	if (file->run || file->is_stopping || file->path[0] == '\0')
		return;

	struct rdma_file_run *run = calloc(1, sizeof(*run));
	if (!run)
		return;

	run->file = file;
	run->known = file->hash;
	memcpy(run->path, file->path, sizeof(run->path));
	run->job =
	    (struct storage_job){.work = rdma_file_work, .done = rdma_file_on_done, .context = run};
	if (storage_submit(file->options.storage, &run->job, NULL) < 0)
		run = rdma_file_run_free(run);
	file->run = run;
}

static void rdma_file_on_change(void *context)
{
	rdma_file_look(context);
}

static void rdma_file_on_look(void *context)
{
	struct rdma_file *file = context;
	if (!file->watch || !filewatch_is_busy(file->watch))
		rdma_file_look(file);
	loop_timer_start(file->look, RDMA_FILE_LOOK_NS);
}

/* --- which file it is ---------------------------------------------------------------------------
 */

/* "": what stands in the configuration itself counts, or nothing. */
static void rdma_file_choose(const struct rdma_file *file, char out[FILE_PATH_MAX],
			     bool *out_is_named)
{
	const struct config *config = node_config(file->options.node);
	bool is_named = config->source[SCHEMA_RDMA_FILE] != CONFIG_DEFAULT;
	*out_is_named = is_named;
	if (config->rdma.is_set || config->rdma_file[0] == '\0' ||
	    file_path(out, NULL, "%s%s", is_named ? "" : file->options.root, config->rdma_file) < 0)
		out[0] = '\0';
}

void rdma_file_update(struct rdma_file *file, bool is_asked)
{
	char path[FILE_PATH_MAX];
	bool is_named, is_new = file->generation != node_generation(file->options.node);
	if (!is_new && !is_asked)
		return;

	file->generation = node_generation(file->options.node);
	rdma_file_choose(file, path, &is_named);
	file->is_named = is_named;
	if (strcmp(path, file->path) != 0) {
		memcpy(file->path, path, sizeof(path));
		file->config = config_free(file->config);
		file->hash = 0;
		file->error[0] = '\0';
		file->is_known = path[0] == '\0';
		is_asked = true;
	}

	if (is_asked)
		rdma_file_look(file);

	/* What was borrowed of the node's configuration is gone in any case. */
	if (is_new)
		file->options.changed(file->options.context);
}

const struct rdma_config *rdma_file_config(const struct rdma_file *file)
{
	const struct config *config = node_config(file->options.node);
	if (config->rdma.is_set)
		return &config->rdma;
	return file->config ? &file->config->rdma : NULL;
}

bool rdma_file_is_known(const struct rdma_file *file)
{
	return file->is_known;
}

const char *rdma_file_error(const struct rdma_file *file)
{
	return file->error;
}

/* --- its life -----------------------------------------------------------------------------------
 */

int rdma_file_new(const struct rdma_file_options *options, struct rdma_file **out, struct err *err)
{
	struct rdma_file *file = calloc(1, sizeof(*file));
	struct err unwatched = {0};

	if (!file)
		return err_set(err, -ENOMEM, "out of memory for the configuration of RDMA");

	file->options = *options;
	file->look = loop_timer_new(options->loop, rdma_file_on_look, file, err);
	if (!file->look) {
		(void)rdma_file_free(file);
		return -ENOMEM;
	}

	if (filewatch_new(options->loop, rdma_file_on_change, file, &file->watch, &unwatched) < 0)
		log_write(options->log, LOG_LEVEL_WARNING, NULL,
			  "RDMA: a changed configuration is noticed late: %s", unwatched.text);

	file->generation = node_generation(options->node);
	rdma_file_choose(file, file->path, &file->is_named);
	file->is_known = file->path[0] == '\0';
	rdma_file_look(file);
	loop_timer_start(file->look, RDMA_FILE_LOOK_NS);
	*out = file;

	return 0;
}

void rdma_file_stop(struct rdma_file *file)
{
	file->is_stopping = true;
	loop_timer_stop(file->look);
}

struct rdma_file *rdma_file_free(struct rdma_file *file)
{
	if (!file)
		return NULL;
	(void)filewatch_free(file->watch);
	(void)loop_timer_free(file->look);
	(void)config_free(file->config);
	free(file);
	return NULL;
}

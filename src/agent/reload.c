/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/paths.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "policy/schema.h"

/* One attempt. */
struct reload_attempt {
	struct reload_attempt *next;
	struct reload *reload; /* borrowed */
	struct storage_job job;
	char path[FILE_PATH_MAX];
	struct config *config; /* owned; what was read */
	struct err err;
	void (*done)(int result, uint32_t changed, const struct err *err, void *context);
	void *context;
};

struct reload {
	struct reload_options options;
	struct config *config; /* owned; in force */
	struct reload_state state;
	struct reload_attempt *attempts; /* owned; those under way */
};

/* Finds and parses the file. Any thread. */
static int reload_read(const char *given, char path[FILE_PATH_MAX], struct config **out,
		       struct err *err)
{
	int result = agent_paths_config(given, path, err);
	if (result < 0)
		return result;
	struct config_overrides overrides = {0};
	config_overrides_environment(&overrides);
	if (path[0] == '\0')
		return config_parse(NULL, 0, "", &overrides, false, out, err);
	return config_load(path, &overrides, false, out, err);
}

static void reload_log_warnings(const struct reload *reload)
{
	const struct config *config = reload->config;
	for (uint32_t i = 0; i < config->warning_count && i < CONFIG_WARNINGS_MAX; i++)
		log_write(reload->options.log, LOG_LEVEL_WARNING, NULL, "%s:%u:%u: %s",
			  reload->state.path, config->warning[i].line, config->warning[i].column,
			  config->warning[i].text);
}

/* Says which settings are not what they were; lists are told by the resources that they change. */
static void reload_log_differences(const struct reload *reload, const struct config *before,
				   const struct config *after)
{
	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		char was[CONFIG_TEXT_MAX], is[CONFIG_TEXT_MAX];
		if (schema_format(before, (enum schema_id)i, was, sizeof(was)) < 0 ||
		    schema_format(after, (enum schema_id)i, is, sizeof(is)) < 0 ||
		    strcmp(was, is) == 0)
			continue;
		log_write(reload->options.log, LOG_LEVEL_INFO, NULL, "%s: was '%s', is '%s'",
			  schema_row((enum schema_id)i)->path, was, is);
	}
}

/* `config` is given. */
static void reload_take(struct reload *reload, struct config *config, const char *path)
{
	(void)config_free(reload->config);
	reload->config = config;
	reload->state.config = config;
	(void)snprintf(reload->state.path, sizeof(reload->state.path), "%s", path);
	reload->state.read_unix_ns = clock_unix_ns();
	reload->state.error[0] = '\0';
	reload_log_warnings(reload);
}

int reload_new(const struct reload_options *options, struct reload **out, struct err *err)
{
	char path[FILE_PATH_MAX];
	struct config *config = NULL;
	struct reload *reload = calloc(1, sizeof(*reload));
	if (!reload)
		return err_set(err, -ENOMEM, "out of memory for the configuration");
	reload->options = *options;
	int result = reload_read(options->given, path, &config, err);
	if (result < 0) {
		free(reload);
		return result;
	}
	reload_take(reload, config, path);
	*out = reload;
	return 0;
}

static void reload_unlink(struct reload_attempt *attempt)
{
	struct reload_attempt **at = &attempt->reload->attempts;
	while (*at != attempt)
		at = &(*at)->next;
	*at = attempt->next;
}

struct reload *reload_free(struct reload *reload)
{
	if (!reload)
		return NULL;
	(void)config_free(reload->config);
	free(reload);
	return NULL;
}

const struct reload_state *reload_state(const struct reload *reload)
{
	return &reload->state;
}

/* On the storage thread. */
static int reload_work(void *context)
{
	struct reload_attempt *attempt = context;
	return reload_read(attempt->reload->options.given, attempt->path, &attempt->config,
			   &attempt->err);
}

static void reload_on_read(void *context, int result)
{
	struct reload_attempt *attempt = context;
	struct reload *reload = attempt->reload;
	uint32_t changed = 0;
	if (result == 0)
		result = reload->options.apply(attempt->config, &changed, reload->options.context,
					       &attempt->err);
	if (result < 0) {
		log_write(reload->options.log, LOG_LEVEL_ERROR, NULL,
			  "the configuration was refused, the one before stays: %s",
			  attempt->err.text);
		(void)snprintf(reload->state.error, sizeof(reload->state.error), "%s",
			       attempt->err.text);
		(void)config_free(attempt->config);
	} else {
		reload_log_differences(reload, reload->config, attempt->config);
		reload_take(reload, attempt->config, attempt->path);
		log_write(reload->options.log, LOG_LEVEL_NOTICE, NULL,
			  "configuration read again (%s): %u resource%s changed",
			  attempt->path[0] ? attempt->path : "no file, defaults", changed,
			  changed == 1 ? "" : "s");
	}
	reload_unlink(attempt);
	if (attempt->done)
		attempt->done(result, changed, &attempt->err, attempt->context);
	free(attempt);
}

int reload_start(struct reload *reload,
		 void (*done)(int result, uint32_t changed, const struct err *err, void *context),
		 void *context, struct err *err)
{
	struct reload_attempt *attempt = calloc(1, sizeof(*attempt));
	if (!attempt)
		return err_set(err, -ENOMEM, "out of memory for reading the configuration");
	attempt->reload = reload;
	attempt->done = done;
	attempt->context = context;
	attempt->job =
	    (struct storage_job){.work = reload_work, .done = reload_on_read, .context = attempt};
	int result = storage_submit(reload->options.storage, &attempt->job, err);
	if (result < 0) {
		free(attempt);
		return result;
	}
	attempt->next = reload->attempts;
	reload->attempts = attempt;
	return 0;
}

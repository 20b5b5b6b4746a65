/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/filewatch.h"
#include "agent/paths.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "base/yaml.h"
#include "policy/schema.h"

#define RELOAD_MEMORY_NAME "configuration"

/* A content that was seen: enough to know it again. */
struct reload_sight {
	bool is_known;
	char path[FILE_PATH_MAX]; /* "": there was no file */
	size_t length;
	uint64_t hash;
};

/* What is to be read. */
struct reload_question {
	char label[CHOICE_NAME_MAX];
	char running[CHOICE_NAME_MAX];
	bool has_running;
	struct reload_sight seen; /* this content need not be read again; unknown: read it anyhow */
};

struct reload_answer {
	struct choice choice;
	struct filewatch_plan plan;
	struct reload_sight sight;
	bool is_same;	       /* as `seen` */
	struct config *config; /* owned; NULL when it is the same or was refused */
};

/* One attempt. */
struct reload_attempt {
	struct reload_attempt *next;
	struct reload *reload; /* borrowed */
	struct storage_job job;
	bool is_look; /* nobody asked: only what is new counts */
	struct reload_question question;
	struct reload_answer answer;
	struct err err;
	void (*done)(int result, uint32_t changed, const struct err *err, void *context);
	void *context;
};

struct reload {
	struct reload_options options;
	struct config_overrides overrides;
	struct config *config; /* owned; in force */
	struct reload_state state;
	struct reload_attempt *attempts; /* owned; those under way */
	struct filewatch *watch;	 /* owned; NULL: there is none */
	struct loop_timer *look;	 /* owned */
	bool is_looking, look_again;
	char label[CHOICE_NAME_MAX]; /* of the node */
	struct reload_sight sight;   /* the last that was read, accepted or not */

	/* What is in the state file, and what is being written there. */
	struct choice_memory memory, written;
	struct storage_job save;
	struct err save_error;
	bool is_saving, save_failed;
};

/* --- reading: any thread --------------------------------------------------------------------- */

/* FNV-1a. Against edits, not against people: who can write the file needs no collision. */
static uint64_t reload_hash(const char *data, size_t length)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static bool sight_is_same(const struct reload_sight *a, const struct reload_sight *b)
{
	return a->is_known && b->is_known && a->length == b->length && a->hash == b->hash &&
	       strcmp(a->path, b->path) == 0;
}

/* One of the usual places, or the file that was named. */
static int reload_find_one(const struct reload *reload, struct reload_answer *out, struct err *err)
{
	char places[AGENT_PATHS_PLACES][FILE_PATH_MAX];
	bool is_named;
	int count = agent_paths_places(reload->options.given, places, &is_named, err);
	if (count < 0)
		return count;

	/* Watched before it is looked at, so that nothing happens in between. */
	for (int i = 0; reload->watch && i < count; i++)
		filewatch_plan_file(reload->watch, places[i], &out->plan);

	for (int i = count - 1; i >= 0; i--) {
		if (is_named || file_exists(places[i]))
			memcpy(out->choice.path, places[i], sizeof(places[i]));
	}

	return 0;
}

/* One of several. */
static int reload_find_chosen(const struct reload *reload, const struct reload_question *question,
			      struct reload_answer *out, struct err *err)
{
	const struct choice_rules *rules = &reload->options.rules;

	if (reload->watch)
		filewatch_plan_directory(reload->watch, rules->directory, &out->plan);

	int rc = choice_make(rules, question->label,
			     question->has_running ? question->running : NULL, &out->choice, err);
	if (rc < 0)
		return rc;
	if (reload->watch && out->choice.path[0] != '\0')
		filewatch_plan_file(reload->watch, out->choice.path, &out->plan);

	if (out->choice.name[0] != '\0' && out->choice.path[0] == '\0')
		return err_set(err, -ENOENT,
			       "specified config %s does not exist in '%s', nor does %s any more, "
			       "which stays as it was read",
			       out->choice.missing, rules->directory, out->choice.name);

	return 0;
}

static int reload_fetch(const struct reload *reload, const struct reload_question *question,
			struct reload_answer *out, struct err *err)
{
	int rc = reload->options.rules.directory ? reload_find_chosen(reload, question, out, err)
						 : reload_find_one(reload, out, err);
	if (rc < 0)
		return rc;

	_cleanup_buf_ struct buf text;
	buf_init(&text, YAML_TEXT_MAX);

	const char *path = out->choice.path;
	if (*path != '\0')
		rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;

	memcpy(out->sight.path, path, sizeof(out->sight.path));
	out->sight.length = text.length;
	out->sight.hash = reload_hash(buf_text(&text), text.length);
	out->sight.is_known = true;
	out->is_same = sight_is_same(&out->sight, &question->seen);
	if (out->is_same)
		return 0;

	return config_parse(*path != '\0' ? buf_text(&text) : NULL, text.length, path,
			    &reload->overrides, reload->options.strict, &out->config, err);
}

/* --- what was chosen, over a restart --------------------------------------------------------- */

static int reload_memory_path(const struct reload *reload, char out[FILE_PATH_MAX], struct err *err)
{
	return file_path(out, err, "%s/" RELOAD_MEMORY_NAME, reload->options.state_dir);
}

static bool reload_remembers(const struct reload *reload)
{
	return reload->options.rules.directory && reload->options.state_dir;
}

/* Blocks. What cannot be read was never there. */
static void reload_recall(struct reload *reload)
{
	char path[FILE_PATH_MAX];
	struct err err = {0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, CHOICE_MEMORY_MAX);
	if (!reload_remembers(reload))
		return;

	int rc = reload_memory_path(reload, path, &err);
	if (rc == 0)
		rc = file_read(path, &text, &err);

	if (rc == 0) {
		rc = choice_memory_parse(buf_text(&text), text.length, &reload->memory, &err);
		if (rc < 0)
			(void)err_wrap(&err, "'%s'", path);
	}

	if (rc < 0 && rc != -ENOENT)
		log_write(reload->options.log, LOG_LEVEL_WARNING, NULL,
			  "which configuration was chosen before is not known: %s", err.text);
	if (reload->options.awaits_label)
		memcpy(reload->label, reload->memory.label, sizeof(reload->label));
}

/* On the storage thread. */
static int reload_save_work(void *context)
{
	struct reload *reload = context;
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, CHOICE_MEMORY_MAX);
	int rc = reload_memory_path(reload, path, &reload->save_error);
	if (rc == 0 && choice_memory_format(&reload->written, &text) < 0)
		rc = err_set(&reload->save_error, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = file_write_atomic(path, text.data, text.length, 0644, &reload->save_error);

	return rc;
}

static void reload_save(struct reload *reload);

static void reload_on_saved(void *context, int rc)
{
	struct reload *reload = context;
	reload->is_saving = false;

	if (rc == 0)
		reload->memory = reload->written;
	else if (!reload->save_failed)
		log_write(reload->options.log, LOG_LEVEL_WARNING, NULL,
			  "which configuration is chosen is lost with a restart: %s",
			  reload->save_error.text);

	reload->save_failed = rc < 0;
	if (rc == 0)
		reload_save(reload); /* it may be another meanwhile */
}

/* Tried again with the next look when it fails. */
static void reload_save(struct reload *reload)
{
	struct choice_memory memory = {.is_known = true};
	memcpy(memory.name, reload->state.name, sizeof(memory.name));
	memcpy(memory.label, reload->label, sizeof(memory.label));

	if (!reload_remembers(reload) || reload->is_saving ||
	    (reload->memory.is_known && strcmp(memory.name, reload->memory.name) == 0 &&
	     strcmp(memory.label, reload->memory.label) == 0))
		return;

	reload->written = memory;
	reload->save = (struct storage_job){
	    .work = reload_save_work, .done = reload_on_saved, .context = reload};
	reload->is_saving = storage_submit(reload->options.storage, &reload->save, NULL) == 0;
}

/* --- what it means --------------------------------------------------------------------------- */

static void reload_log_warnings(const struct reload *reload)
{
	const struct config *config = reload->config;
	for (uint32_t i = 0; i < config->warning_count && i < CONFIG_WARNINGS_MAX; i++)
		log_write(reload->options.log, LOG_LEVEL_WARNING, NULL, "%s:%u:%u: %s",
			  reload->state.path, config->warning[i].line, config->warning[i].column,
			  config->warning[i].text);
}

/* At the start: what is not as it would be by itself, and why. */
static void reload_log_settings(const struct reload *reload)
{
	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		char is[CONFIG_TEXT_MAX];
		uint32_t source = reload->config->source[i];

		if (source != CONFIG_DEFAULT &&
		    schema_format(reload->config, (enum schema_id)i, is, sizeof(is)) == 0)
			log_write(reload->options.log, LOG_LEVEL_INFO, NULL, "%s: '%s' (%s)",
				  schema_row((enum schema_id)i)->path, is,
				  config_source_to_string(source));
	}
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

static void reload_note(const struct reload *reload, enum reload_note note, const char *text)
{
	if (reload->options.noted)
		reload->options.noted(note, text, reload->options.context);
}

/* The answer's configuration becomes ours. */
static void reload_take(struct reload *reload, struct reload_answer *answer)
{
	(void)config_free(reload->config);
	reload->config = take_ptr(answer->config);
	reload->state.config = reload->config;
	memcpy(reload->state.path, answer->choice.path, sizeof(reload->state.path));
	memcpy(reload->state.name, answer->choice.name, sizeof(reload->state.name));
	reload->state.read_unix_ns = clock_unix_ns();
	reload->state.error[0] = '\0';
	reload_log_warnings(reload);
}

/* Said when it is new. */
static void reload_set_missing(struct reload *reload, const struct choice *choice)
{
	char text[2 * CHOICE_NAME_MAX];

	if (strcmp(reload->state.missing, choice->missing) == 0)
		return;

	memcpy(reload->state.missing, choice->missing, sizeof(reload->state.missing));
	if (choice->missing[0] == '\0')
		return;

	(void)snprintf(text, sizeof(text), "specified config %s does not exist", choice->missing);
	log_write(reload->options.log, LOG_LEVEL_ERROR, NULL, "%s in '%s': %s%s", text,
		  reload->options.rules.directory,
		  choice->name[0] ? "in force is " : "the built-in defaults are in force",
		  choice->name);
	reload_note(reload, RELOAD_MISSING, text);
}

static void reload_refused(struct reload *reload, const struct reload_attempt *attempt, int rc)
{
	/* Seen once and for all, unless it was not its own fault. */
	if (rc == -ENOMEM || rc == -ESHUTDOWN)
		reload->sight.is_known = false;

	bool is_news = strcmp(reload->state.error, attempt->err.text) != 0;
	if (rc == -ESHUTDOWN || (attempt->is_look && !is_news))
		return;

	log_write(reload->options.log, LOG_LEVEL_ERROR, NULL,
		  "the configuration was refused, the one before stays: %s", attempt->err.text);
	(void)snprintf(reload->state.error, sizeof(reload->state.error), "%s", attempt->err.text);
	reload_note(reload, RELOAD_REFUSED, attempt->err.text);
}

/* --- attempts -------------------------------------------------------------------------------- */

/* On the storage thread. */
static int reload_work(void *context)
{
	struct reload_attempt *attempt = context;
	return reload_fetch(attempt->reload, &attempt->question, &attempt->answer, &attempt->err);
}

static void reload_unlink(struct reload_attempt *attempt)
{
	struct reload_attempt **at = &attempt->reload->attempts;
	while (*at != attempt)
		at = &(*at)->next;
	*at = attempt->next;
}

/* What was read counts from now on. */
static int reload_apply(struct reload *reload, struct reload_attempt *attempt,
			uint32_t *out_changed)
{
	struct reload_answer *answer = &attempt->answer;
	int rc = reload->options.apply(answer->config, out_changed, reload->options.context,
				       &attempt->err);
	if (rc < 0) {
		answer->config = config_free(answer->config);
		return rc;
	}

	reload_log_differences(reload, reload->config, answer->config);
	reload_take(reload, answer);
	log_write(reload->options.log, LOG_LEVEL_NOTICE, NULL,
		  "configuration read again (%s): %u resource%s changed",
		  reload->state.path[0] ? reload->state.path : "no file, defaults", *out_changed,
		  *out_changed == 1 ? "" : "s");
	reload_note(reload, RELOAD_APPLIED, reload->state.path);

	return 0;
}

static void reload_look(struct reload *reload);

static void reload_on_read(void *context, int rc)
{
	struct reload_attempt *attempt = context;
	struct reload *reload = attempt->reload;
	struct reload_answer *answer = &attempt->answer;
	uint32_t changed = 0;

	reload_unlink(attempt);
	if (reload->watch)
		filewatch_set(reload->watch, &answer->plan);
	reload->sight = answer->sight;

	if (rc == 0 || answer->choice.name[0] != '\0')
		reload_set_missing(reload, &answer->choice);
	if (rc == 0 && !answer->is_same)
		rc = reload_apply(reload, attempt, &changed);
	if (rc < 0)
		reload_refused(reload, attempt, rc);
	reload_save(reload);

	if (attempt->done)
		attempt->done(rc, changed, &attempt->err, attempt->context);

	if (attempt->is_look) {
		reload->is_looking = false;
		if (reload->look_again)
			reload_look(reload);
	}

	free(attempt);
}

static void reload_ask(const struct reload *reload, struct reload_question *out)
{
	memcpy(out->label, reload->label, sizeof(out->label));
	memcpy(out->running, reload->state.name, sizeof(out->running));
	out->has_running = true;
}

static struct reload_attempt *reload_attempt_new(struct reload *reload, struct err *err)
{
	struct reload_attempt *attempt = calloc(1, sizeof(*attempt));
	if (!attempt) {
		(void)err_set(err, -ENOMEM, "out of memory for reading the configuration");
		return NULL;
	}

	attempt->reload = reload;
	attempt->job =
	    (struct storage_job){.work = reload_work, .done = reload_on_read, .context = attempt};
	reload_ask(reload, &attempt->question);

	return attempt;
}

/* `attempt` is given. */
static int reload_submit(struct reload *reload, struct reload_attempt *attempt, struct err *err)
{
	int rc = storage_submit(reload->options.storage, &attempt->job, err);
	if (rc < 0) {
		free(attempt);
		return rc;
	}

	attempt->next = reload->attempts;
	reload->attempts = attempt;
	return 0;
}

int reload_start(struct reload *reload,
		 void (*done)(int result, uint32_t changed, const struct err *err, void *context),
		 void *context, struct err *err)
{
	struct reload_attempt *attempt = reload_attempt_new(reload, err);
	if (!attempt)
		return -ENOMEM;
	attempt->done = done;
	attempt->context = context;
	return reload_submit(reload, attempt, err);
}

/* Whether there is something new. What cannot even be begun is tried again with the timer. */
static void reload_look(struct reload *reload)
{
	reload->look_again = reload->is_looking;
	if (reload->is_looking)
		return;

	struct reload_attempt *attempt = reload_attempt_new(reload, NULL);
	if (!attempt)
		return;

	attempt->is_look = true;
	attempt->question.seen = reload->sight;
	reload->is_looking = reload_submit(reload, attempt, NULL) == 0;
}

static void reload_on_files(void *context)
{
	reload_look(context);
}

static void reload_on_look(void *context)
{
	struct reload *reload = context;
	if (!reload->watch || !filewatch_is_busy(reload->watch))
		reload_look(reload);
	loop_timer_start(reload->look, RELOAD_LOOK_NS);
}

void reload_set_label(struct reload *reload, const char *value)
{
	const char *label = value ? value : "";
	if (!reload->options.rules.directory || strcmp(reload->label, label) == 0)
		return;

	if (strlen(label) >= sizeof(reload->label)) {
		log_write(reload->options.log, LOG_LEVEL_ERROR, NULL,
			  "the node's label is longer than the %d characters that a file name has",
			  CHOICE_NAME_MAX - 1);
		return;
	}

	log_write(reload->options.log, LOG_LEVEL_NOTICE, NULL, "the node's label asks for %s%s%s",
		  *label ? "the configuration '" : "none", label,
		  *label ? "'" : " of the configurations");
	(void)snprintf(reload->label, sizeof(reload->label), "%s", label);
	reload_look(reload);
}

/* --- its life -------------------------------------------------------------------------------- */

/* The first time: what counted before the restart is next best to what should count. */
static int reload_read_first(struct reload *reload, struct reload_answer *answer, struct err *why)
{
	struct reload_question question = {.has_running = reload->memory.is_known};
	memcpy(question.label, reload->label, sizeof(question.label));
	memcpy(question.running, reload->memory.name, sizeof(question.running));

	int rc = reload_fetch(reload, &question, answer, why);
	bool is_gone = answer->choice.name[0] != '\0' && answer->choice.path[0] == '\0';
	bool is_other = strcmp(answer->choice.name, reload->memory.name) != 0;
	if (rc == 0 || !reload->memory.is_known || (!is_gone && !is_other))
		return rc;

	struct reload_answer second = {.is_same = false};
	struct err again = {0};

	if (is_gone)
		question.has_running = false;
	else
		memcpy(question.label, reload->memory.name, sizeof(question.label));

	if (reload_fetch(reload, &question, &second, &again) < 0)
		return rc;

	if (!is_gone) {
		log_write(reload->options.log, LOG_LEVEL_ERROR, NULL,
			  "the configuration was refused, %s stays: %s", second.choice.name,
			  why->text);
		(void)snprintf(reload->state.error, sizeof(reload->state.error), "%s", why->text);
		second.sight = answer->sight; /* until it is another, it is refused */
	}

	*answer = second;
	return 0;
}

static int reload_begin(struct reload *reload, struct err *err)
{
	struct err unwatched = {0};
	char error[ERR_TEXT_MAX];

	reload->look = loop_timer_new(reload->options.loop, reload_on_look, reload, err);
	if (!reload->look)
		return -ENOMEM;
	if (filewatch_new(reload->options.loop, reload_on_files, reload, &reload->watch,
			  &unwatched) < 0)
		log_write(reload->options.log, LOG_LEVEL_WARNING, NULL,
			  "changes of the configuration are noticed late: %s", unwatched.text);

	reload_recall(reload);
	struct reload_answer answer = {.is_same = false};
	struct err why = {0};
	int rc = reload_read_first(reload, &answer, &why);
	if (rc < 0)
		return err_set(err, rc, "%s", why.text);

	memcpy(error, reload->state.error, sizeof(error));
	reload_take(reload, &answer);
	memcpy(reload->state.error, error, sizeof(error));
	reload->sight = answer.sight;
	if (reload->watch)
		filewatch_set(reload->watch, &answer.plan);
	reload_set_missing(reload, &answer.choice);
	reload_log_settings(reload);
	reload_save(reload);
	loop_timer_start(reload->look, RELOAD_LOOK_NS);

	return 0;
}

int reload_new(const struct reload_options *options, struct reload **out, struct err *err)
{
	struct reload *reload = calloc(1, sizeof(*reload));
	if (!reload)
		return err_set(err, -ENOMEM, "out of memory for the configuration");

	reload->options = *options;
	reload->options.noted = NULL; /* not yet */
	if (options->overrides)
		reload->overrides = *options->overrides;
	config_overrides_environment(&reload->overrides);

	int rc = reload_begin(reload, err);
	if (rc < 0) {
		(void)reload_free(reload);
		return rc;
	}

	reload->options.noted = options->noted;
	*out = reload;
	return 0;
}

struct reload *reload_free(struct reload *reload)
{
	if (!reload)
		return NULL;
	(void)filewatch_free(reload->watch);
	(void)loop_timer_free(reload->look);
	(void)config_free(reload->config);
	free(reload);
	return NULL;
}

const struct reload_state *reload_state(const struct reload *reload)
{
	return &reload->state;
}

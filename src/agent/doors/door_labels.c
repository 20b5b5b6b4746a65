/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_labels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/answer.h"
#include "agent/cluster/cluster.h"
#include "agent/doors/doors.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "agent/uninstall.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/labels/facts.h"
#include "doors/labels/feature_file.h"
#include "doors/labels/held.h"
#include "doors/labels/label.h"
#include "doors/labels/labels.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"
#include "kube.pb-c.h"
#include "policy/config.h"
#include "policy/policy.h"

#define NONE	SLUICE__KUBE__V1__WAY__NONE
#define BY_FILE SLUICE__KUBE__V1__WAY__FILE
#define FEATURE SLUICE__KUBE__V1__WAY__NODE_FEATURE
#define DIRECT	SLUICE__KUBE__V1__WAY__DIRECT
#define AUTO	SLUICE__KUBE__V1__WAY__AUTO

/* How labels got to the node last, in the state directory: what is to end when it is another way,
 * also after a restart. A word, and behind it the path of a file. */
#define DOOR_LABELS_LAST "labels"
enum { DOOR_LABELS_LAST_MAX = FILE_PATH_MAX + 32 };

#define DOOR_LABELS_RELOADED_NS UINT64_C(2000000000) /* so near two notices are of one reload */

/* What reads or writes, with copies of all that it is about: the loop goes on meanwhile. */
struct door_labels_run {
	struct door_labels *door; /* borrowed */
	struct storage_job job;
	struct inventory inventory;
	struct labels_facts facts;
	char machine_file[FILE_PATH_MAX], path[FILE_PATH_MAX], directory[FILE_PATH_MAX];
	char before[FILE_PATH_MAX]; /* the file that was kept until now; "": none was */
	Sluice__Kube__V1__Way way;
	bool needs_directory, has_directory;
	bool is_first;			 /* no labels of ours are noted anywhere yet */
	struct label_set set, discovery; /* besides, when labels are applied to the Node */
	struct buf plain;
	size_t count;
	int64_t expiry_s;
	struct err err;
};

struct door_labels {
	struct door_labels_options options;
	bool is_stopping;
	struct held held;
	struct loop_timer *look;     /* owned */
	struct door_labels_run *run; /* owned; NULL: none is under way */
	bool run_again;
	uint64_t generation; /* of the node, when it was last looked at */
	int64_t start_s;
	uint64_t reloaded_ns;
	struct feature_keep file;  /* the storage thread's during a run */
	char path[FILE_PATH_MAX];  /* of the file that is kept; "": none is */
	struct storage_job ending; /* removes it: */
	char ended[FILE_PATH_MAX];
	Sluice__Kube__V1__Way arrived; /* in which sluice-kube has brought them; NONE: not yet */
	Sluice__Kube__V1__Way last;    /* in which labels got to the node, or still do */
	struct door_labels_note *note; /* owned; NULL: none is under way */
	bool publishes, is_written, has_warned, note_fails;
	size_t count;
	char problem[ERR_TEXT_MAX]; /* of sluice-kube */

	char held_off[LABEL_WARNING_SIZE]; /* why there are no labels, beside the configuration */

	/* Of the last run. */
	bool is_on;
	int code;
	char text[ERR_TEXT_MAX];
	uint64_t warnings; /* hash of those that were logged */
};

/* What is written down, or removed, when one way has taken over from another. */
struct door_labels_note {
	struct door_labels *door; /* borrowed */
	struct storage_job job;
	char last[FILE_PATH_MAX], text[DOOR_LABELS_LAST_MAX];
	char removed[FILE_PATH_MAX]; /* "": nothing is */
};

static void door_labels_look(struct door_labels *door);

/* --- what is to be --------------------------------------------------------------------------- */

static const struct config *door_labels_config(const struct door_labels *door)
{
	return node_config(door->options.node);
}

static void door_labels_stamp(struct door_labels *door)
{
	door->start_s = clock_unix_ns() / (int64_t)CLOCK_NS_PER_S;
	door->reloaded_ns = loop_now_ns(door->options.loop);
}

static struct door_labels_run *door_labels_run_free(struct door_labels_run *run)
{
	if (!run)
		return NULL;

	inventory_done(&run->inventory);
	label_set_done(&run->set);
	label_set_done(&run->discovery);
	buf_done(&run->plain);
	free(run);

	return NULL;
}

/* Paths that nobody has named are those of the machine, which may be a simulated one. */
static int door_labels_path(const struct door_labels *door, enum schema_id id, const char *path,
			    char out[FILE_PATH_MAX], struct err *err)
{
	bool is_named = door_labels_config(door)->source[id] != CONFIG_DEFAULT;
	return path[0] == '\0'
		   ? file_path(out, err, "%s", "")
		   : file_path(out, err, "%s%s", is_named ? "" : door->options.root, path);
}

/* `*out_asked`: somebody has named the way, and it is tried whatever is there. */
static Sluice__Kube__V1__Way door_labels_way(const struct door_labels *door, bool *out_asked)
{
	const struct config *config = door_labels_config(door);
	bool says_api = config->source[SCHEMA_USE_NODE_FEATURE_API] != CONFIG_DEFAULT;

	*out_asked = config->labels.mode != CONFIG_LABELS_AUTO || says_api;

	switch ((enum config_labels_mode)config->labels.mode) {
	case CONFIG_LABELS_FILE:
		return BY_FILE;
	case CONFIG_LABELS_NODEFEATURE:
		return FEATURE;
	case CONFIG_LABELS_DIRECT:
		return DIRECT;
	case CONFIG_LABELS_AUTO:
		break;
	}

	if (says_api)
		return config->use_node_feature_api ? FEATURE : BY_FILE;

	return cluster_can_publish(door->options.cluster) ? AUTO : BY_FILE;
}

static int door_labels_fill(struct door_labels *door, struct door_labels_run *run)
{
	const struct config *config = door_labels_config(door);
	uint64_t expiry_ns = config->labels.expiry_ns;

	if (inventory_copy(&door->held.inventory, &run->inventory) < 0)
		return err_set(&run->err, -ENOMEM, "out of memory");

	int rc = door_labels_path(door, SCHEMA_GFD_MACHINE_TYPE, config->gfd_machine_type,
				  run->machine_file, &run->err);
	if (rc == 0)
		rc = door_labels_path(door, SCHEMA_GFD_OUTPUT, config->gfd_output, run->path,
				      &run->err);

	const char *slash = strrchr(run->path, '/');

	if (rc == 0)
		rc = file_path(run->directory, &run->err, "%.*s",
			       slash ? (int)(slash - run->path) : 0, run->path);

	bool is_asked;
	run->way = door_labels_way(door, &is_asked);
	run->needs_directory = !is_asked && run->way == BY_FILE;
	run->facts.start_s = config->gfd_no_timestamp ? 0 : door->start_s;

	if (expiry_ns > 0 && expiry_ns != SCHEMA_FOREVER)
		run->expiry_s = (int64_t)(expiry_ns / CLOCK_NS_PER_S);

	return rc;
}

/* --- what is said ---------------------------------------------------------------------------- */

static void door_labels_tell_warnings(struct door_labels *door, const struct label_set *set)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (uint32_t i = 0; i < set->warning_count && i < LABEL_WARNINGS_MAX; i++)
		for (const char *at = set->warning[i]; *at != '\0'; at++)
			hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);

	if (hash == door->warnings)
		return;

	door->warnings = hash;
	for (uint32_t i = 0; i < set->warning_count && i < LABEL_WARNINGS_MAX; i++)
		log_write(door->options.log, LOG_LEVEL_WARNING, NULL, "labels: %s",
			  set->warning[i]);
}

/* What goes on failing is said once. `text` NULL: nothing is new. */
static void door_labels_tell(struct door_labels *door, int code, const char *text)
{
	if (!text)
		return;

	bool is_new = strcmp(text, door->text) != 0;
	if (code < 0 && is_new)
		log_write(door->options.log, LOG_LEVEL_ERROR, NULL, "labels: %s", text);
	else if (code == 0 && (door->code < 0 || (is_new && *text)))
		log_write(door->options.log, door->code < 0 ? LOG_LEVEL_NOTICE : LOG_LEVEL_INFO,
			  NULL, "labels: %s", text);

	door->code = code;
	(void)snprintf(door->text, sizeof(door->text), "%s", text);
}

/* When to look again though nothing happens. */
static void door_labels_wait(struct door_labels *door)
{
	if (door->is_stopping) /* and the node is gone */
		return;

	const struct config *config = door_labels_config(door);
	uint64_t wait_ns = config->gfd_sleep_ns, now_ns = loop_now_ns(door->options.loop);
	uint64_t due_ns = held_due_ns(&door->held);
	uint64_t expiry_ns = config->labels.expiry_ns;

	if (door->code < 0 && wait_ns > DOOR_LABELS_RETRY_NS)
		wait_ns = DOOR_LABELS_RETRY_NS;
	if (door->path[0] != '\0' && expiry_ns > 0 &&
	    expiry_ns / FEATURE_FILE_EXPIRY_PARTS < wait_ns)
		wait_ns = expiry_ns / FEATURE_FILE_EXPIRY_PARTS + 1;
	if (due_ns != UINT64_MAX && due_ns <= clock_after_ns(now_ns, wait_ns))
		wait_ns = due_ns > now_ns ? due_ns - now_ns : 1;
	if (wait_ns == SCHEMA_FOREVER)
		loop_timer_stop(door->look);
	else
		loop_timer_start(door->look, wait_ns);
}

/* A run has ended, well or not. */
static void door_labels_end(struct door_labels *door, int code, const char *text)
{
	door->run = door_labels_run_free(door->run);
	door_labels_tell(door, code, text);
	if (door->run_again)
		door_labels_look(door);
	else
		door_labels_wait(door);
}

/* --- a run: read, make, write ---------------------------------------------------------------- */

/* Before the first file: one that is there without a note would be nobody's, and never be taken
 * away. */
static void door_labels_note_first(const struct door_labels_run *run)
{
	char path[FILE_PATH_MAX], text[FILE_PATH_MAX + sizeof("file \n")];
	(void)snprintf(text, sizeof(text), "file %s\n", run->path);
	if (file_path(path, NULL, "%s/" DOOR_LABELS_LAST, run->door->options.paths->state_dir) == 0)
		(void)file_write_atomic(path, text, strlen(text), 0600, NULL); /* told by settle */
}

static int door_labels_write(void *context)
{
	struct door_labels_run *run = context;
	if (run->is_first)
		door_labels_note_first(run);

	int rc = feature_keep_put(&run->door->file, run->path, &run->plain, run->expiry_s,
				  clock_unix_ns() / (int64_t)CLOCK_NS_PER_S, &run->err);
	/* Two files would be two sources, and the old one wins some day. */
	if (rc >= 0 && run->before[0] != '\0' && strcmp(run->before, run->path) != 0)
		rc = feature_file_remove(run->before, &run->err);

	return rc;
}

/* --- from one way to another ------------------------------------------------------------------ */

static int door_labels_write_note(void *context)
{
	struct door_labels_note *note = context;
	int rc = note->removed[0] != '\0' ? feature_file_remove(note->removed, NULL) : 0;
	if (rc == 0)
		rc = file_write_atomic(note->last, note->text, strlen(note->text), 0600, NULL);
	return rc;
}

static void door_labels_on_note(void *context, int code)
{
	struct door_labels_note *note = context;
	struct door_labels *door = note->door;

	if (code < 0 && !door->note_fails)
		log_write(door->options.log, LOG_LEVEL_ERROR, NULL,
			  "labels: '%s' or '%s' cannot be written: %s", note->removed, note->last,
			  err_describe(code));

	door->note_fails = code < 0;
	if (code < 0) { /* again with the next look: the file that stays is a second source */
		door->last = NONE;
		if (door->path[0] == '\0')
			memcpy(door->path, note->removed, sizeof(door->path));
	}

	free(note);
	door->note = NULL;
}

/* Labels are on the node in this way now, and in no other; NONE: not yet. */
static void door_labels_settle(struct door_labels *door, Sluice__Kube__V1__Way way)
{
	bool is_file = way == BY_FILE;
	if (way == NONE || (door->last == way && (is_file || door->path[0] == '\0')))
		return;

	struct door_labels_note *note = door->note ? NULL : calloc(1, sizeof(*note));
	if (!note)
		return; /* with the next look */

	note->door = door;
	note->job = (struct storage_job){
	    .work = door_labels_write_note, .done = door_labels_on_note, .context = note};
	(void)snprintf(note->text, sizeof(note->text), "%s%s%s\n",
		       is_file		? "file"
		       : way == FEATURE ? "nodefeature"
					: "direct",
		       is_file ? " " : "", is_file ? door->path : "");

	if (!is_file)
		memcpy(note->removed, door->path, sizeof(note->removed));

	if (file_path(note->last, NULL, "%s/" DOOR_LABELS_LAST, door->options.paths->state_dir) <
		0 ||
	    storage_submit(door->options.storage, &note->job, NULL) < 0) {
		free(note);
		return;
	}

	door->note = note;
	door->last = way;
	if (!is_file)
		door->path[0] = '\0';
}

/* Blocks: for the start. What cannot be read was never. */
static void door_labels_read_last(struct door_labels *door)
{
	static const char file[] = "file ";
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, DOOR_LABELS_LAST_MAX);
	if (file_path(path, NULL, "%s/" DOOR_LABELS_LAST, door->options.paths->state_dir) < 0 ||
	    file_read(path, &text, NULL) < 0 || text.length == 0)
		return;

	text.data[strcspn(text.data, "\n")] = '\0';
	if (strcmp(text.data, "nodefeature") == 0)
		door->last = FEATURE;
	else if (strcmp(text.data, "direct") == 0)
		door->last = DIRECT;
	else if (strncmp(text.data, "file /", sizeof(file)) == 0 &&
		 file_path(door->path, NULL, "%s", text.data + sizeof(file) - 1) == 0)
		door->last = BY_FILE;
}

/* --- through the cluster's API -----------------------------------------------------------------
 */

/* Pointers into the set. Owned; NULL: no memory. */
static Sluice__Kube__V1__Pair **door_labels_pairs(const struct label_set *set,
						  Sluice__Kube__V1__Pair **out_pairs)
{
	Sluice__Kube__V1__Pair **list = calloc(set->count + 1, sizeof(*list));

	*out_pairs = calloc(set->count + 1, sizeof(**out_pairs));
	for (size_t i = 0; list && *out_pairs && i < set->count; i++) {
		sluice__kube__v1__pair__init(&(*out_pairs)[i]);
		(*out_pairs)[i].key = set->items[i].key;
		(*out_pairs)[i].value = set->items[i].value;
		list[i] = &(*out_pairs)[i];
	}

	return list;
}

static int door_labels_publish(struct door_labels *door, Sluice__Kube__V1__Way way,
			       const struct label_set *set, const struct label_set *discovery,
			       struct err *err)
{
	Sluice__Kube__V1__Publish wish = SLUICE__KUBE__V1__PUBLISH__INIT;
	_cleanup_free_ Sluice__Kube__V1__Pair *pairs = NULL, *more = NULL;
	_cleanup_free_ Sluice__Kube__V1__Pair **labels = door_labels_pairs(set, &pairs);
	_cleanup_free_ Sluice__Kube__V1__Pair **direct = door_labels_pairs(discovery, &more);
	const struct door_labels_options *options = &door->options;

	if (!labels || !direct || !pairs || !more)
		return err_set(err, -ENOMEM, "out of memory for labels");

	wish.way = way;
	wish.previous = door->last == way ? NONE : door->last;
	wish.namespace_ = (char *)(options->namespace_ ? options->namespace_ : "");
	wish.pod = (char *)(options->pod ? options->pod : "");
	wish.n_labels = set->count;
	wish.labels = labels;
	wish.n_direct = discovery->count;
	wish.direct = direct;
	wish.until_end = door_labels_config(door)->labels.on_exit == CONFIG_EXIT_REMOVE;

	return cluster_publish(options->cluster, &wish, err);
}

static void door_labels_tell_published(struct door_labels *door)
{
	char text[ERR_TEXT_MAX];

	if (door->problem[0] != '\0')
		(void)snprintf(text, sizeof(text), "%s", door->problem);
	else if (door->is_written)
		(void)snprintf(text, sizeof(text), "%zu %s", door->count,
			       door->last == DIRECT ? "applied to the node" : "in a NodeFeature");
	else
		text[0] = '\0';

	door_labels_tell(door, door->problem[0] != '\0' ? -EREMOTEIO : 0, text);
}

/* Why what was published is not withdrawn, though a file has taken over. Said once. */
static void door_labels_tell_stays(struct door_labels *door, const char *why)
{
	if (*why && !door->has_warned)
		log_write(door->options.log, LOG_LEVEL_WARNING, NULL,
			  "labels: what was published through the cluster's API stays: %s", why);
	door->has_warned = *why != '\0';
}

void door_labels_published(struct door_labels *door, const Sluice__Kube__V1__Published *state)
{
	bool is_api = state->way == FEATURE || state->way == DIRECT;

	if (!door || door->is_stopping)
		return;

	if (!door->publishes && !is_api) {
		/* Withdrawn: a file has taken over. */
		if (state->previous_ends && door->path[0] != '\0')
			door_labels_settle(door, BY_FILE);
		door_labels_tell_stays(door, state->problem);
		return;
	}

	if (!door->publishes)
		return; /* of before */

	door->is_written = state->is_written && is_api;
	(void)snprintf(door->problem, sizeof(door->problem), "%s", state->problem);
	door->arrived =
	    door->is_written && state->is_on_node && state->previous_ends ? state->way : NONE;

	bool is_new = door->arrived != NONE && door->arrived != door->last;

	door_labels_settle(door, door->arrived);
	if (is_new) /* so that the next sluice-kube hears of it, too */
		door_labels_look(door);
	door_labels_tell_published(door);
}

/* Returns 1 when the labels are on their way, and 0 when they go into the file. */
static int door_labels_send(struct door_labels *door, struct door_labels_run *run,
			    const struct label_set *set)
{
	bool is_api = run->way != BY_FILE;
	if (!is_api) {
		door->publishes = false;
		door->arrived = NONE;
		return 0;
	}

	door->publishes = true;
	door->count = set->count;
	door_labels_settle(door, door->arrived);

	int rc = door_labels_publish(door, run->way, set, &run->discovery, &run->err);
	return rc < 0 ? rc : 1;
}

/* The file is there: what was published through the API goes when it has arrived. */
static void door_labels_withdraw(struct door_labels *door, const struct label_set *set)
{
	const struct label_set none = {.count = 0};
	struct err err = {0};

	if (door->last != FEATURE && door->last != DIRECT) {
		door_labels_settle(door, BY_FILE);
		return;
	}

	if (door_labels_publish(door, BY_FILE, set, &none, &err) < 0)
		door_labels_tell_stays(door, err.text);
}

static void door_labels_on_written(void *context, int code)
{
	struct door_labels_run *run = context;
	struct door_labels *door = run->door;
	char text[ERR_TEXT_MAX];

	if (code < 0)
		(void)snprintf(text, sizeof(text), "%s", run->err.text);
	else
		(void)snprintf(text, sizeof(text), "%zu in '%.400s'", run->count, run->path);

	if (code >= 0) {
		bool is_other = strcmp(door->path, run->path) != 0;
		memcpy(door->path, run->path, sizeof(door->path));
		if (is_other && door->last == BY_FILE)
			door->last = NONE; /* at another place: that is written down */
		door_labels_withdraw(door, &run->set);
	}

	door_labels_end(door, code < 0 ? code : 0, text);
}

static void policy_cleanup(struct policy **policy)
{
	*policy = policy_free(*policy);
}

/* A fraction of a millisecond. */
static int door_labels_make(struct door_labels *door, struct door_labels_run *run,
			    struct label_set *out)
{
	_cleanup_(policy_cleanup) struct policy *policy = NULL;
	const struct config *config = door_labels_config(door);
	const struct policy_surroundings surroundings = {
	    .has_kubelet = true, .visible_devices = getenv("NVIDIA_VISIBLE_DEVICES")};
	int rc = policy_make(&run->inventory, config, &surroundings, &policy, &run->err);
	if (rc == 0 && door->held_off[0] == '\0')
		rc = labels_make(&run->inventory, config, &surroundings, policy, &run->facts, out,
				 &run->err);

	if (rc == 0)
		rc = feature_file_text(out, 0, &run->plain, &run->err);
	run->count = out->count;
	return rc;
}

static void door_labels_on_read(void *context, int code)
{
	struct door_labels_run *run = context;
	struct door_labels *door = run->door;
	struct label_set *set = &run->set;

	door->is_on = !run->needs_directory || run->has_directory;
	/* Facts of another configuration than that of now are read again. */
	if (door->is_stopping || door->run_again || !door->is_on) {
		door_labels_end(door, door->is_on ? door->code : 0, door->is_on ? NULL : "");
		return;
	}

	if (door->held_off[0] != '\0')
		label_set_done(&run->discovery);
	code = door_labels_make(door, run, set);
	if (code == 0) {
		door_labels_tell_warnings(door, set);
		code = door_labels_send(door, run, set);
	}

	if (code > 0) {
		door_labels_end(door, 0, NULL);
		door_labels_tell_published(door);
		return;
	}

	if (code == 0) {
		memcpy(run->before, door->path, sizeof(run->before));
		run->is_first = door->last == SLUICE__KUBE__V1__WAY__NONE;
		run->job.work = door_labels_write;
		run->job.done = door_labels_on_written;
		code = storage_submit(door->options.storage, &run->job, &run->err);
	}

	if (code < 0) {
		struct err err = run->err;
		door_labels_end(door, code, err.text);
	}
}

static int door_labels_read(void *context)
{
	struct door_labels_run *run = context;
	bool may = run->door->options.paths->is_system || run->door->options.root[0] != '\0';

	run->has_directory = may && file_exists(run->directory);
	if (run->has_directory || !run->needs_directory)
		facts_read(run->door->options.root, run->machine_file, &run->inventory,
			   &run->facts);
	if (run->way == DIRECT || run->way == AUTO)
		facts_read_discovery(run->door->options.root, &run->discovery);

	return 0;
}

static void door_labels_look(struct door_labels *door)
{
	const struct node *node = door->options.node;
	struct err err = {0};

	door->run_again = door->run != NULL && !door->is_stopping;
	if (door->run || door->is_stopping || !node_is_known(node))
		return;

	const struct config *config = door_labels_config(door);

	door->generation = node_generation(node);
	int rc = held_look(&door->held, node_inventory(node), config->labels.keep_on_error_ns,
			   config->gfd_sleep_ns, loop_now_ns(door->options.loop), &err);
	if (rc < 0 || !door->held.has) {
		door_labels_end(door, rc, rc < 0 ? err.text : "");
		return;
	}

	struct door_labels_run *run = calloc(1, sizeof(*run));
	if (!run) {
		door_labels_end(door, -ENOMEM, "out of memory for labels");
		return;
	}

	run->door = door;
	run->job = (struct storage_job){
	    .work = door_labels_read, .done = door_labels_on_read, .context = run};
	inventory_init(&run->inventory);
	label_set_init(&run->set);
	label_set_init(&run->discovery);
	buf_init(&run->plain, FEATURE_FILE_MAX);
	door->run = run;

	rc = door_labels_fill(door, run);
	if (rc == 0)
		rc = storage_submit(door->options.storage, &run->job, &run->err);
	if (rc < 0) {
		err = run->err;
		door_labels_end(door, rc, err.text);
	}
}

static void door_labels_on_look(void *context)
{
	door_labels_look(context);
}

void door_labels_update(void *context)
{
	struct door_labels *door = context;
	if (door && node_is_known(door->options.node) &&
	    door->generation != node_generation(door->options.node))
		door_labels_look(door);
}

void door_labels_hold(struct door_labels *door, const char *why)
{
	if (!door || strcmp(door->held_off, why) == 0)
		return;
	(void)snprintf(door->held_off, sizeof(door->held_off), "%s", why);
	log_write(door->options.log, LOG_LEVEL_NOTICE, NULL, "labels: %s",
		  *why ? why : "they are published again");
	door_labels_look(door);
}

void door_labels_reload(void *context)
{
	struct door_labels *door = context;
	if (!door)
		return;
	if (loop_now_ns(door->options.loop) - door->reloaded_ns > DOOR_LABELS_RELOADED_NS)
		door_labels_stamp(door);
	door_labels_look(door);
}

/* --- its life -------------------------------------------------------------------------------- */

int door_labels_new(const struct door_labels_options *options, struct door_labels **out,
		    struct err *err)
{
	struct door_labels *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for labels");

	door->options = *options;
	held_init(&door->held, loop_now_ns(options->loop));
	feature_keep_init(&door->file);
	door->look = loop_timer_new(options->loop, door_labels_on_look, door, err);
	if (!door->look) {
		(void)door_labels_free(door);
		return -ENOMEM;
	}

	door_labels_read_last(door);
	door_labels_stamp(door);
	door_labels_look(door);
	*out = door;

	return 0;
}

static int door_labels_remove(void *context)
{
	struct door_labels *door = context;
	return feature_file_remove(door->ended, NULL);
}

static void door_labels_on_removed(void *context, int code)
{
	struct door_labels *door = context;
	log_write(door->options.log, code < 0 ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, NULL,
		  "labels: '%s' is %sremoved", door->ended, code < 0 ? "not " : "");
}

int door_labels_open(struct doors *doors, void **out, struct err *err)
{
	const struct doors_parts *parts = doors_parts(doors);
	const struct door_labels_options options = {
	    DOORS_OPTIONS(parts),
	    .cluster = parts->cluster,
	    .namespace_ = parts->namespace_,
	    .pod = parts->pod,
	};
	struct door_labels *door = NULL;

	int rc = door_labels_new(&options, &door, err);
	*out = door;

	return rc;
}

void door_labels_stop(void *context)
{
	struct door_labels *door = context;
	if (!door || door->is_stopping)
		return;

	door->is_stopping = true;
	loop_timer_stop(door->look);
	door->ending = (struct storage_job){
	    .work = door_labels_remove, .done = door_labels_on_removed, .context = door};

	/* One that is being written now is there when its turn comes. */
	bool writes = door->run && door->run->job.work == door_labels_write;
	memcpy(door->ended, writes ? door->run->path : door->path, sizeof(door->ended));

	if (door->ended[0] != '\0' &&
	    door_labels_config(door)->labels.on_exit == CONFIG_EXIT_REMOVE)
		(void)storage_submit(door->options.storage, &door->ending, NULL);
}

void *door_labels_free(void *context)
{
	struct door_labels *door = context;
	if (!door)
		return NULL;

	(void)loop_timer_free(door->look);
	(void)door_labels_run_free(door->run);
	free(door->note);
	held_done(&door->held);
	feature_keep_done(&door->file);
	free(door);

	return NULL;
}

const char *door_labels_state(const struct door_labels *door)
{
	if (door && door->held_off[0] != '\0')
		return "off";
	if (door && door->code < 0)
		return "failed";
	if (door && (!door->held.has || (door->publishes && !door->is_written)))
		return "waiting";
	return door && door->is_on ? "kept" : "off";
}

const char *door_labels_text(const struct door_labels *door)
{
	return !door ? "" : door->held_off[0] != '\0' ? door->held_off : door->text;
}

void door_labels_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out)
{
	out->labels = answer_text(arena, door_labels_state(door));
	out->labels_reason = answer_text(arena, door_labels_text(door));
}

/* The agent has noted by which way its labels went (door_labels.c). */
int door_labels_cleanup(const struct uninstall_options *options, struct err *err)
{
	static const char file[] = "file ";
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, FILE_PATH_MAX + sizeof(file));
	if (file_path(path, NULL, "%s/labels", options->paths->state_dir) < 0 ||
	    file_read(path, &text, NULL) < 0 || text.length == 0)
		return 0;

	text.data[strcspn(text.data, "\n")] = '\0';
	const char *named = text.data + sizeof(file) - 1;

	if (strcmp(text.data, "direct") == 0 && options->withdraws)
		return 0;

	if (strncmp(text.data, "file /", sizeof(file)) != 0) {
		uninstall_tell(options,
			       "not removed: labels that were published through the cluster's API "
			       "(%s): see LEAVING in sluice-agent(1)",
			       text.data);
		return 0; /* the note stays with them: another agent may take them away */
	}

	if (file_exists(named)) {
		int rc = feature_file_remove(named, err);
		if (rc < 0)
			return rc;

		uninstall_tell(options, "removed: '%s'", named);
	}

	(void)unlink(path);
	return 0;
}

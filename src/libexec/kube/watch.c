/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lines.h"
#include "libexec/kube/answer.h"
#include "libexec/kube/backoff.h"
#include "libexec/kube/object.h"

enum watch_state {
	WATCH_WAITS_TO_LIST,
	WATCH_LISTS,
	WATCH_WAITS_TO_WATCH,
	WATCH_WATCHES,
};

struct kube_watch {
	struct watch_options options;
	enum watch_state state;
	uint64_t due_ns;   /* of the next request, while none runs */
	uint64_t began_ns; /* of the one that runs */
	struct backoff backoff;
	struct lines lines;
	struct buf list;
	char version[OBJECT_VERSION_MAX]; /* from where to go on; "": from what is newest */
	bool heard;			  /* this watch has told something, or stands long enough */
	bool gone;			  /* the server has forgotten `version` */
	bool missing;			  /* there is no such node */
	bool known, has_label;		  /* what was last told */
	char label[OBJECT_LABEL_MAX];
	bool knows_followed;
	char followed[OBJECT_FOLLOWED][OBJECT_VALUE_MAX];
	char failure[ANSWER_PROBLEM_MAX]; /* of the last request; "" */
	char told[ANSWER_PROBLEM_MAX];
	bool has_told;	/* also that all is well: the agent may think of the one before us */
	struct err err; /* why data was refused; code 0: it was not */
};

static const char watch_what[] = "for our node";
static const char watch_rule[] = "get, list and watch of nodes";

bool watch_name_is_valid(const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < length; i++) {
		bool is_letter =
		    (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9');
		bool is_inner = (name[i] == '-' || name[i] == '.') && i > 0 && i + 1 < length;
		if (!is_letter && !is_inner)
			return false;
	}

	return length > 0 && length < WATCH_NAME_MAX;
}

struct kube_watch *watch_new(const struct watch_options *options, struct err *err)
{
	struct kube_watch *watch = calloc(1, sizeof(*watch));
	if (!watch) {
		(void)err_set(err, -ENOMEM, "out of memory for watching the node");
		return NULL;
	}

	watch->options = *options;
	if (watch->options.slack_ns == 0)
		watch->options.slack_ns = WATCH_SLACK_NS;
	if (watch->options.seconds == 0)
		watch->options.seconds = WATCH_SECONDS;
	backoff_init(&watch->backoff, options->first_ns, options->seed);
	lines_init(&watch->lines, WATCH_LINE_MAX);
	buf_init(&watch->list, WATCH_LIST_MAX);

	/* From the server's memory at first: it need not ask its database for each node that
	 * starts. */
	(void)snprintf(watch->version, sizeof(watch->version), "0");
	return watch;
}

struct kube_watch *watch_free(struct kube_watch *watch)
{
	if (!watch)
		return NULL;
	lines_done(&watch->lines);
	buf_done(&watch->list);
	free(watch);
	return NULL;
}

/* --- what is told ----------------------------------------------------------------------------- */

static void watch_tell_problem(struct kube_watch *watch)
{
	char text[ANSWER_PROBLEM_MAX];

	if (*watch->failure)
		(void)snprintf(text, sizeof(text), "%s", watch->failure);
	else if (watch->missing)
		(void)snprintf(
		    text, sizeof(text),
		    "the cluster has no node '%.200s': is --node-name or $NODE_NAME what "
		    "'kubectl get nodes' prints?",
		    watch->options.node);
	else
		text[0] = '\0';

	if (watch->has_told && strcmp(text, watch->told) == 0)
		return;

	watch->has_told = true;
	memcpy(watch->told, text, sizeof(text));
	watch->options.problem(text, watch->options.context);
}

static void watch_tell_followed(struct kube_watch *watch, const struct object_node *node)
{
	const char *values[OBJECT_FOLLOWED];
	bool is_new = !watch->knows_followed;
	for (size_t i = 0; i < OBJECT_FOLLOWED; i++) {
		is_new |= strcmp(watch->followed[i], node->value[i]) != 0;
		(void)snprintf(watch->followed[i], OBJECT_VALUE_MAX, "%s", node->value[i]);
		values[i] = watch->followed[i];
	}

	watch->knows_followed = true;
	if (is_new && watch->options.labels_are)
		watch->options.labels_are(values, watch->options.context);
}

static void watch_tell_label(struct kube_watch *watch, const struct object_node *node)
{
	watch_tell_followed(watch, node);
	if (watch->known && watch->has_label == node->has_label &&
	    strcmp(watch->label, node->label) == 0)
		return;

	watch->known = true;
	watch->has_label = node->has_label;
	memcpy(watch->label, node->label, sizeof(watch->label));
	watch->options.label_is(node->has_label, node->label, watch->options.context);
}

static void watch_set_version(struct kube_watch *watch, const char version[OBJECT_VERSION_MAX])
{
	memcpy(watch->version, version, OBJECT_VERSION_MAX);
}

static void watch_is_well(struct kube_watch *watch)
{
	watch->heard = true;
	watch->failure[0] = '\0';
	backoff_succeed(&watch->backoff);
	watch_tell_problem(watch);
}

/* --- what is asked ---------------------------------------------------------------------------- */

static bool watch_runs(const struct kube_watch *watch)
{
	return watch->state == WATCH_LISTS || watch->state == WATCH_WATCHES;
}

uint64_t watch_due_ns(const struct kube_watch *watch)
{
	if (!watch_runs(watch))
		return watch->due_ns;
	if (watch->state == WATCH_WATCHES && !watch->heard)
		return clock_after_ns(watch->began_ns, WATCH_SETTLED_NS);
	return UINT64_MAX;
}

bool watch_begin(struct kube_watch *watch, uint64_t now_ns, struct watch_request *out)
{
	const struct watch_options *options = &watch->options;

	if (watch_runs(watch) || now_ns < watch->due_ns)
		return false;

	watch->began_ns = now_ns;
	watch->heard = watch->gone = false;
	watch->err = (struct err){.code = 0};
	lines_clear(&watch->lines);

	if (watch->state == WATCH_WAITS_TO_LIST) {
		watch->state = WATCH_LISTS;
		(void)snprintf(out->path, sizeof(out->path),
			       "/api/v1/nodes?fieldSelector=metadata.name%%3D%s%s%s", options->node,
			       *watch->version ? "&resourceVersion=" : "", watch->version);
		out->timeout_ns = options->slack_ns;

		return true;
	}

	/* Not all nodes of a cluster at once. */
	uint32_t seconds = options->seconds +
			   (uint32_t)(backoff_chance(&watch->backoff) % (options->seconds / 2 + 1));

	watch->state = WATCH_WATCHES;
	(void)snprintf(out->path, sizeof(out->path),
		       "/api/v1/nodes?fieldSelector=metadata.name%%3D%s&watch=1&resourceVersion=%s"
		       "&allowWatchBookmarks=true&timeoutSeconds=%" PRIu32,
		       options->node, watch->version, seconds);
	out->timeout_ns = seconds * CLOCK_NS_PER_S + options->slack_ns;

	return true;
}

/* --- what is heard ---------------------------------------------------------------------------- */

static void watch_refuse_status(struct kube_watch *watch, const struct object_status *status)
{
	watch->gone = status->code == ANSWER_GONE;
	if (status->code == ANSWER_GONE)
		(void)err_set(&watch->err, -ESTALE, "the API server has forgotten version %s",
			      watch->version);
	else
		(void)err_set(&watch->err, -EREMOTEIO,
			      "the API server ends the watch of our node: %" PRIu32 " %s",
			      status->code, status->message);
}

static int watch_on_line(struct kube_watch *watch, const char *text, size_t length)
{
	struct object_event event;
	int rc = object_event_parse(text, length, watch->options.label, &event, &watch->err);
	if (rc < 0)
		return err_wrap(&watch->err, "the API server sends what is no event of a watch");

	if (event.type == OBJECT_ERROR) {
		watch_refuse_status(watch, &event.status);
		return watch->err.code;
	}

	if (event.type == OBJECT_OTHER)
		return 0;

	watch_set_version(watch, event.node.version);
	/* Who deletes a node does not say that its GPUs shall be shared in another way: what was
	 * known stays, and counts until the node is back. */
	if (event.type == OBJECT_DELETED)
		watch->missing = true;
	if (event.type == OBJECT_ADDED || event.type == OBJECT_MODIFIED) {
		watch->missing = false;
		watch_tell_label(watch, &event.node);
	}

	watch_is_well(watch);
	return 0;
}

/* At most LINES_PIECE_MAX bytes of a watch. */
static int watch_feed(struct kube_watch *watch, const char *data, size_t length)
{
	char *line;
	size_t size;
	int rc = lines_feed(&watch->lines, data, length);

	while (rc == 0 && (rc = lines_next(&watch->lines, false, &line, &size)) > 0)
		rc = size > 0 ? watch_on_line(watch, line, size) : 0;

	if (rc < 0 && watch->err.code == 0)
		(void)err_set(&watch->err, rc, "the API server sends a line of more than %d bytes",
			      WATCH_LINE_MAX);

	return rc;
}

int watch_data(struct kube_watch *watch, const char *data, size_t length, uint64_t now_ns)
{
	int rc = 0;

	if (watch->err.code < 0)
		return watch->err.code;

	if (watch->state == WATCH_LISTS) {
		rc = buf_add(&watch->list, data, length);
		if (rc < 0)
			(void)err_set(&watch->err, rc,
				      "the API server's list of one node is larger than %d bytes",
				      WATCH_LIST_MAX);

		return rc;
	}

	for (size_t at = 0; rc == 0 && at < length; at += LINES_PIECE_MAX)
		rc = watch_feed(watch, data + at,
				length - at < LINES_PIECE_MAX ? length - at : LINES_PIECE_MAX);

	return rc;
}

void watch_look(struct kube_watch *watch, uint32_t status, uint64_t now_ns)
{
	if (watch->state != WATCH_WATCHES || watch->heard ||
	    now_ns < clock_after_ns(watch->began_ns, WATCH_SETTLED_NS))
		return;
	if (status == ANSWER_OK)
		watch_is_well(watch);
	else
		watch->heard = true; /* not asked again: its end says what it is */
}

/* --- how it ends ------------------------------------------------------------------------------ */

static void watch_wait(struct kube_watch *watch, enum watch_state state, uint64_t wait_ns,
		       uint64_t now_ns)
{
	watch->state = state;
	watch->due_ns = clock_after_ns(now_ns, wait_ns);
}

static void watch_fail(struct kube_watch *watch, const struct kube_answer *answer,
		       enum watch_state next, uint64_t now_ns)
{
	uint64_t wait_ns = backoff_fail(&watch->backoff);
	uint64_t wish_ns = answer->retry_after_ns < WATCH_RETRY_MAX_NS ? answer->retry_after_ns
								       : WATCH_RETRY_MAX_NS;

	if (answer->status == ANSWER_UNAUTHORIZED && answer->token_changed &&
	    watch->backoff.failures == 1)
		wait_ns = 0; /* it was replaced meanwhile */

	watch_wait(watch, next, wish_ns > wait_ns ? wish_ns : wait_ns, now_ns);
	if (watch->err.code < 0)
		(void)snprintf(watch->failure, sizeof(watch->failure), "%s", watch->err.text);
	else
		(void)answer_describe(answer, watch_what, watch_rule, watch->failure);

	watch_tell_problem(watch);
}

static void watch_end_list(struct kube_watch *watch, const struct kube_answer *answer,
			   uint64_t now_ns)
{
	struct object_list list;
	bool is_good = answer_is_good(answer) && watch->err.code == 0;
	if (is_good &&
	    object_list_parse(buf_text(&watch->list), watch->list.length, watch->options.node,
			      watch->options.label, &list, &watch->err) < 0) {
		(void)err_wrap(&watch->err, "the API server sends what is no list of nodes");
		is_good = false;
	}

	buf_done(&watch->list);
	if (!is_good) {
		/* A version that this server has not, or not yet, is not insisted on. */
		if (answer->code == 0 && answer->status != ANSWER_TOO_MANY)
			watch->version[0] = '\0';
		watch_fail(watch, answer, WATCH_WAITS_TO_LIST, now_ns);
		return;
	}

	watch_set_version(watch, list.version);
	watch->missing = !list.found;
	if (list.found)
		watch_tell_label(watch, &list.node);

	/* Whether all is well the watch will tell: nothing is taken back until then. */
	if (watch->missing && !*watch->failure)
		watch_tell_problem(watch);
	watch_wait(watch, WATCH_WAITS_TO_WATCH, 0, now_ns);
}

static void watch_end_watch(struct kube_watch *watch, const struct kube_answer *answer,
			    uint64_t now_ns)
{
	bool has_lasted = now_ns - watch->began_ns >= CLOCK_NS_PER_S;
	bool is_refused = watch->err.code < 0;

	lines_clear(&watch->lines);
	if (watch->gone || (answer->code == 0 && answer->status == ANSWER_GONE)) {
		/* The first time at once: that is the ordinary course of things. */
		watch->version[0] = '\0';
		bool again = watch->backoff.failures > 0;
		uint64_t wait_ns = backoff_fail(&watch->backoff);

		watch_wait(watch, WATCH_WAITS_TO_LIST, again ? wait_ns : 0, now_ns);
	} else if (is_refused) {
		watch_fail(watch, answer, WATCH_WAITS_TO_LIST, now_ns);
	} else if (answer_is_good(answer) && (has_lasted || watch->heard)) {
		watch_wait(watch, WATCH_WAITS_TO_WATCH, has_lasted ? 0 : watch->backoff.first_ns,
			   now_ns);
		watch_is_well(watch);
	} else if (answer_is_good(answer)) {
		/* A server that ends does so once; one that always does would be asked for ever. */
		uint64_t wait_ns = backoff_fail(&watch->backoff);
		watch_wait(watch, WATCH_WAITS_TO_WATCH, wait_ns, now_ns);

		if (watch->backoff.failures > 1) {
			(void)snprintf(watch->failure, sizeof(watch->failure),
				       "the API server ends the watch of our node as soon as it "
				       "begins: is something between it and this node?");
			watch_tell_problem(watch);
		}
	} else if (answer->code < 0) {
		watch_fail(watch, answer, WATCH_WAITS_TO_WATCH, now_ns);
	} else {
		watch_fail(watch, answer, WATCH_WAITS_TO_LIST, now_ns);
	}
}

void watch_end(struct kube_watch *watch, const struct kube_answer *answer, uint64_t now_ns)
{
	if (watch->state == WATCH_LISTS)
		watch_end_list(watch, answer, now_ns);
	else if (watch->state == WATCH_WATCHES)
		watch_end_watch(watch, answer, now_ns);
}

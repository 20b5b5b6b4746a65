/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/events.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "libexec/kube/answer.h"
#include "libexec/kube/backoff.h"

enum {
	EVENTS_NAME_MAX = 254,
	EVENTS_CHARACTER_MAX = 4, /* bytes */
	EVENTS_STEM_MAX = 236,	  /* of a name: what is left for the node's beside a number */
	EVENTS_TIME_MAX = 32,
};
#define EVENTS_WHERE	    "/api/v1/namespaces/default/events" /* of what has no namespace */
#define EVENTS_RETRY_MAX_NS UINT64_C(300000000000)

struct events_entry {
	bool warning;
	char *reason, *message; /* owned; reason NULL: the place is free */
	char name[EVENTS_NAME_MAX];
	uint32_t count, told; /* told of those; 0: the Event is not there yet */
	uint64_t number;      /* in the order in which they came last */
	uint64_t last_ns;
	int64_t first_unix_ns, last_unix_ns;
};

struct events {
	struct events_options options;
	struct events_entry entries[EVENTS_MAX];
	struct events_entry *sent; /* the one of the request that runs; NULL: none does */
	uint32_t sent_count;
	uint64_t next_number, due_ns;
	struct backoff backoff;
	char told[ANSWER_PROBLEM_MAX];
};

struct events *events_new(const struct events_options *options, struct err *err)
{
	struct events *events = calloc(1, sizeof(*events));
	if (!events) {
		(void)err_set(err, -ENOMEM, "out of memory for Events");
		return NULL;
	}

	events->options = *options;
	backoff_init(&events->backoff, options->first_ns, options->seed);
	return events;
}

static void events_forget(struct events *events, struct events_entry *entry)
{
	free(entry->reason);
	free(entry->message);
	*entry = (struct events_entry){.reason = NULL};
	if (events->sent == entry)
		events->sent = NULL;
}

struct events *events_free(struct events *events)
{
	if (!events)
		return NULL;
	for (size_t i = 0; i < EVENTS_MAX; i++)
		events_forget(events, &events->entries[i]);
	free(events);
	return NULL;
}

static void events_problem(struct events *events, const char *text)
{
	if (strcmp(text, events->told) == 0)
		return;
	(void)snprintf(events->told, sizeof(events->told), "%s", text);
	events->options.problem(events->told, events->options.context);
}

/* --- what is to be told ----------------------------------------------------------------------- */

static bool events_waits(const struct events_entry *entry)
{
	return entry->reason && entry->count != entry->told;
}

/* A place: a free one, else the oldest that is told, else the oldest. Never the one that is on its
 * way. */
static struct events_entry *events_place(struct events *events)
{
	struct events_entry *best = NULL;

	for (size_t i = 0; i < EVENTS_MAX; i++) {
		struct events_entry *entry = &events->entries[i];
		if (!entry->reason)
			return entry;
		if (entry == events->sent)
			continue;

		bool better =
		    !best || events_waits(best) > events_waits(entry) ||
		    (events_waits(best) == events_waits(entry) && entry->number < best->number);
		if (better)
			best = entry;
	}

	events_forget(events, best);
	return best;
}

/* As client-go names them: the object, and when. */
static void events_name(const struct events *events, struct events_entry *entry, int64_t unix_ns)
{
	size_t length = strnlen(events->options.node, EVENTS_STEM_MAX);
	while (length > 0 &&
	       (events->options.node[length - 1] == '.' || events->options.node[length - 1] == '-'))
		length--; /* where a long name was cut */
	(void)snprintf(entry->name, sizeof(entry->name), "%.*s.%" PRIx64, (int)length,
		       events->options.node, (uint64_t)unix_ns + entry->number);
}

/* A copy without half a character at its end. */
static char *events_copy(const char *text, size_t max)
{
	size_t length = strnlen(text, max - 1), at = 0, size = 0;
	while (at < length && (text_decode(text + at, length - at, &size) != TEXT_INVALID ||
			       length - at >= EVENTS_CHARACTER_MAX))
		at += size;
	return strndup(text, at);
}

void events_add(struct events *events, bool warning, const char *reason, const char *message,
		uint64_t now_ns, int64_t unix_ns)
{
	_cleanup_free_ char *its_reason = events_copy(reason, EVENTS_REASON_MAX);
	_cleanup_free_ char *its_message = events_copy(message, EVENTS_MESSAGE_MAX);
	if (!its_reason || !its_message)
		return;

	for (size_t i = 0; i < EVENTS_MAX; i++) {
		struct events_entry *entry = &events->entries[i];
		if (!entry->reason || entry->warning != warning ||
		    now_ns - entry->last_ns > EVENTS_SAME_NS ||
		    strcmp(entry->reason, its_reason) != 0 ||
		    strcmp(entry->message, its_message) != 0)
			continue;

		entry->count += entry->count < UINT32_MAX;
		entry->number = events->next_number++;
		entry->last_ns = now_ns;
		entry->last_unix_ns = unix_ns;

		return;
	}

	struct events_entry *entry = events_place(events);
	*entry = (struct events_entry){.warning = warning,
				       .reason = take_ptr(its_reason),
				       .message = take_ptr(its_message),
				       .count = 1,
				       .number = events->next_number++,
				       .last_ns = now_ns,
				       .first_unix_ns = unix_ns,
				       .last_unix_ns = unix_ns};
	events_name(events, entry, unix_ns);
}

static struct events_entry *events_first(const struct events *events)
{
	const struct events_entry *first = NULL;
	for (size_t i = 0; i < EVENTS_MAX; i++) {
		const struct events_entry *entry = &events->entries[i];
		if (events_waits(entry) && (!first || entry->number < first->number))
			first = entry;
	}
	return (struct events_entry *)first;
}

uint64_t events_due_ns(const struct events *events)
{
	return events->sent || !events_first(events) ? UINT64_MAX : events->due_ns;
}

/* --- how it is told --------------------------------------------------------------------------- */

static const char *events_time(int64_t unix_ns, char out[EVENTS_TIME_MAX])
{
	time_t seconds = (time_t)(unix_ns / (int64_t)CLOCK_NS_PER_S);
	struct tm utc;
	out[0] = '\0';
	if (gmtime_r(&seconds, &utc))
		(void)strftime(out, EVENTS_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &utc);
	return out;
}

static json_t *events_json(const struct events *events, const struct events_entry *entry)
{
	char first[EVENTS_TIME_MAX], last[EVENTS_TIME_MAX];
	const char *node = events->options.node;

	(void)events_time(entry->first_unix_ns, first);
	(void)events_time(entry->last_unix_ns, last);

	if (entry->told > 0)
		return json_pack("{s:I, s:s}", "count", (json_int_t)entry->count, "lastTimestamp",
				 last);

	/* The kubelet's Events have the node's name as its uid, and kubectl looks for that. */
	return json_pack(
	    "{s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:s, s:s}, s:s, s:s, s:s, s:{s:s, s:s}, s:s, "
	    "s:s, s:s, s:s, s:I}",
	    "apiVersion", "v1", "kind", "Event", "metadata", "name", entry->name, "namespace",
	    "default", "involvedObject", "apiVersion", "v1", "kind", "Node", "name", node, "uid",
	    node, "type", entry->warning ? "Warning" : "Normal", "reason", entry->reason, "message",
	    entry->message, "source", "component", "sluice", "host", node, "reportingComponent",
	    "sluice", "reportingInstance", node, "firstTimestamp", first, "lastTimestamp", last,
	    "count", (json_int_t)entry->count);
}

bool events_begin(struct events *events, uint64_t now_ns, struct events_request *out)
{
	if (now_ns < events_due_ns(events))
		return false;

	struct events_entry *entry = events_first(events);
	json_t *json = events_json(events, entry);
	char *body = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (!body) {
		/* No memory, or bytes that are no text: nobody can be told. */
		events_forget(events, entry);
		return false;
	}

	bool is_new = entry->told == 0;
	*out = (struct events_request){
	    .method = is_new ? "POST" : "PATCH",
	    .content_type = is_new ? "application/json" : "application/merge-patch+json",
	    .body = body,
	};
	(void)snprintf(out->path, sizeof(out->path), "%s%s%s", EVENTS_WHERE, is_new ? "" : "/",
		       is_new ? "" : entry->name);
	events->sent = entry;
	events->sent_count = entry->count;

	return true;
}

static void events_later(struct events *events, const struct kube_answer *answer, uint64_t now_ns)
{
	uint64_t wait_ns = backoff_fail(&events->backoff);
	uint64_t wish_ns = answer->retry_after_ns < EVENTS_RETRY_MAX_NS ? answer->retry_after_ns
									: EVENTS_RETRY_MAX_NS;
	if (answer->status == ANSWER_UNAUTHORIZED && answer->token_changed &&
	    events->backoff.failures == 1)
		wait_ns = 0;
	events->due_ns = clock_after_ns(now_ns, wish_ns > wait_ns ? wish_ns : wait_ns);
}

void events_end(struct events *events, const struct kube_answer *answer, uint64_t now_ns)
{
	struct events_entry *entry = events->sent;
	char problem[ANSWER_PROBLEM_MAX];

	events->sent = NULL;
	if (!entry)
		return;

	if (answer_is_good(answer)) {
		entry->told = events->sent_count;
		backoff_succeed(&events->backoff);
		events->due_ns = now_ns;
		events_problem(events, "");
		return;
	}

	/* What the watch hears as well is said there. */
	bool is_answered = answer->code == 0 && answer->status != 0;
	if (!is_answered || answer->status == ANSWER_TOO_MANY ||
	    answer->status == ANSWER_UNAUTHORIZED || answer->status >= 500) {
		events_later(events, answer, now_ns);
		return;
	}

	if (answer->status == ANSWER_NOT_FOUND && entry->told > 0) {
		entry->told = 0; /* the server has let it go, after an hour usually: a new one */
		events_name(events, entry, entry->last_unix_ns);
		return;
	}

	(void)answer_describe(answer, "to post Events", "create and patch of events", problem);
	events_problem(events, problem);

	if (answer->status == ANSWER_FORBIDDEN)
		events->due_ns = clock_after_ns(now_ns, EVENTS_FORBIDDEN_NS);
	else
		events_forget(events, entry); /* it would be refused again */

	if (answer->status == ANSWER_CONFLICT)
		events->due_ns = now_ns;
}

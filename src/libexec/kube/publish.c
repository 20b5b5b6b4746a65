/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/publish.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "libexec/kube/answer.h"
#include "libexec/kube/backoff.h"
#include "libexec/kube/feature.h"
#include "libexec/kube/object.h"
#include "libexec/kube/watch.h"

#define NONE	SLUICE__KUBE__V1__WAY__NONE
#define FEATURE SLUICE__KUBE__V1__WAY__NODE_FEATURE
#define DIRECT	SLUICE__KUBE__V1__WAY__DIRECT
#define AUTO	SLUICE__KUBE__V1__WAY__AUTO

enum publish_intervals { /* in minutes */
			 PUBLISH_ARRIVE = 2,
			 PUBLISH_DRIFT = 10,
			 PUBLISH_FIGHT =
			     5, /* who changes our labels twice within this is not fought */
			 PUBLISH_FIRST_LOOK = 60, /* parts of a minute */
			 PUBLISH_HURRY = 6, /* the same, between looks after a change of ways, and
					       before the first */
};
#define PUBLISH_RETRY_MAX_NS UINT64_C(300000000000) /* of a server's Retry-After */

enum publish_step {
	STEP_NONE,
	STEP_SERVED, /* is there a CRD? */
	STEP_POD,    /* who owns what we make? */
	STEP_READ,   /* the NodeFeature */
	STEP_CREATE,
	STEP_UPDATE,
	STEP_APPLY,   /* to the Node */
	STEP_LOOK,    /* at the Node */
	STEP_FORGET,  /* NFD shall */
	STEP_REMOVE,  /* the NodeFeature */
	STEP_PRUNE,   /* what NFD does not put there */
	STEP_RELEASE, /* the rest */
};

struct publish {
	struct publish_options options;
	Sluice__Kube__V1__Way wish, chosen, old;
	bool hands_over; /* NONE: by a file, which has to arrive first */
	bool until_end;
	char *namespace_, *pod;	 /* owned */
	json_t *labels, *direct; /* owned; for either way, and for DIRECT in all */
	json_t *owners;		 /* owned; NULL: not known */
	bool asked_owners, is_drift_look;
	uint64_t number, sent_number; /* of the set; and of the one that is on its way */
	enum publish_step step;	      /* that runs */
	enum publish_step next;	      /* that follows on what was just read */
	bool is_written, is_on_node, is_pruned, has_forgotten;
	struct buf answer;
	json_t *there; /* owned; what a PUT, FORGET or RELEASE is made of */
	uint64_t due_ns, write_ns, since_ns, look_ns, look_wait_ns, hurry_ns, repair_ns;
	uint64_t way_ns; /* when this way began */
	bool has_repaired, gives_up;
	struct backoff backoff;
	char problem[ANSWER_PROBLEM_MAX];
	struct publish_state told;
	char told_problem[ANSWER_PROBLEM_MAX];
};

struct publish *publish_new(const struct publish_options *options, struct err *err)
{
	struct publish *publish = calloc(1, sizeof(*publish));
	if (!publish) {
		(void)err_set(err, -ENOMEM, "out of memory for labels");
		return NULL;
	}

	publish->options = *options;
	if (publish->options.minute_ns == 0)
		publish->options.minute_ns = PUBLISH_MINUTE_NS;
	backoff_init(&publish->backoff, options->first_ns, options->seed);
	publish->backoff.last_ns = PUBLISH_MINUTE_NS;
	buf_init(&publish->answer, PUBLISH_ANSWER_MAX);
	publish->told.problem = publish->told_problem;

	return publish;
}

struct publish *publish_free(struct publish *publish)
{
	if (!publish)
		return NULL;

	free(publish->namespace_);
	free(publish->pod);
	json_decref(publish->labels);
	json_decref(publish->direct);
	json_decref(publish->owners);
	json_decref(publish->there);
	buf_done(&publish->answer);
	free(publish);

	return NULL;
}

static uint64_t publish_minutes(const struct publish *publish, uint64_t minutes)
{
	return publish->options.minute_ns * minutes;
}

static const json_t *publish_set_of(const struct publish *publish)
{
	return publish->chosen == DIRECT ? publish->direct : publish->labels;
}

static void publish_tell(struct publish *publish)
{
	const struct publish_state now = {
	    .way = publish->chosen,
	    .is_written = publish->is_written,
	    .is_on_node = publish->is_on_node,
	    .previous_ends = publish->old == NONE,
	    .problem = publish->problem,
	};
	const struct publish_state *told = &publish->told;

	if (told->way == now.way && told->is_written == now.is_written &&
	    told->is_on_node == now.is_on_node && told->previous_ends == now.previous_ends &&
	    strcmp(publish->told_problem, publish->problem) == 0)
		return;

	publish->told = now;
	memcpy(publish->told_problem, publish->problem, sizeof(publish->told_problem));
	publish->told.problem = publish->told_problem;
	publish->options.state(&now, publish->options.context);
}

/* --- what is to be ---------------------------------------------------------------------------- */

static json_t *publish_pairs(Sluice__Kube__V1__Pair *const *pairs, size_t count)
{
	json_t *set = json_object();
	for (size_t i = 0; i < count; i++) {
		if (json_object_set_new(set, pairs[i]->key, json_string(pairs[i]->value)) < 0) {
			json_decref(set);
			return NULL;
		}
	}

	return set;
}

static void publish_take(json_t **place, json_t **given)
{
	json_decref(*place);
	*place = take_ptr(*given);
}

static void json_cleanup(json_t **json)
{
	json_decref(*json);
}

/* Another way, or another place: it begins anew. */
static void publish_begin_way(struct publish *publish, const Sluice__Kube__V1__Publish *wish,
			      uint64_t now_ns)
{
	Sluice__Kube__V1__Way old = publish->chosen != NONE ? publish->chosen : wish->previous;
	bool is_other = wish->way != AUTO && old != wish->way;

	publish->old = is_other || wish->way == AUTO ? old : NONE;
	publish->wish = wish->way;
	publish->chosen = wish->way == FEATURE || wish->way == DIRECT ? wish->way : NONE;
	publish->hands_over = wish->way == SLUICE__KUBE__V1__WAY__FILE;
	publish->asked_owners = publish->is_pruned = publish->has_forgotten = false;
	publish->gives_up = publish->has_repaired = false;
	publish->write_ns = 0;
	publish->since_ns = publish->due_ns = publish->look_ns = publish->way_ns = now_ns;
	publish->look_wait_ns = publish->options.minute_ns / PUBLISH_FIRST_LOOK;
	publish->next = STEP_NONE;
	publish->problem[0] = '\0';
}

/* Other labels than before: an answer to a look for those says nothing about another writer, and
 * who was given up is met anew. */
static void publish_renew(struct publish *publish)
{
	publish->number++;
	publish->is_written = publish->is_on_node = false;
	publish->is_drift_look = publish->has_repaired = false;
	if (publish->gives_up)
		publish->problem[0] = '\0';
	publish->gives_up = false;
}

int publish_set(struct publish *publish, const Sluice__Kube__V1__Publish *wish, uint64_t now_ns,
		struct err *err)
{
	const char *where = *wish->namespace_ ? wish->namespace_ : publish->options.namespace_;
	if (!watch_name_is_valid(where))
		return err_set(err, -EINVAL, "no namespace has a name like '%.64s'", where);
	if (*wish->pod && !watch_name_is_valid(wish->pod))
		return err_set(err, -EINVAL, "no pod has a name like '%.64s'", wish->pod);
	if (wish->n_labels + wish->n_direct > PUBLISH_PAIRS_MAX)
		return err_set(err, -EINVAL, "more than %d labels", PUBLISH_PAIRS_MAX);

	_cleanup_(json_cleanup) json_t *labels = publish_pairs(wish->labels, wish->n_labels);
	_cleanup_(json_cleanup) json_t *direct = publish_pairs(wish->direct, wish->n_direct);
	_cleanup_free_ char *namespace_ = strdup(where);
	_cleanup_free_ char *pod = strdup(wish->pod);
	if (!labels || !direct || !namespace_ || !pod || json_object_update(direct, labels) < 0)
		return err_set(err, -ENOMEM, "out of memory for labels");

	bool is_new = !publish->labels || wish->way != publish->wish ||
		      strcmp(where, publish->namespace_) != 0 || strcmp(pod, publish->pod) != 0;

	publish->until_end = wish->until_end;
	if (is_new)
		publish_begin_way(publish, wish, now_ns);
	if (is_new || !json_equal(direct, publish->direct))
		publish_renew(publish);
	publish_take(&publish->labels, &labels);
	publish_take(&publish->direct, &direct);
	free(publish->namespace_);
	free(publish->pod);
	publish->namespace_ = take_ptr(namespace_);
	publish->pod = take_ptr(pod);
	publish_tell(publish);

	return 0;
}

bool publish_finish(struct publish *publish, uint64_t now_ns)
{
	if (!publish->until_end || publish->chosen == NONE)
		return false;

	publish->old = publish->chosen;
	publish->wish = publish->chosen = NONE;
	publish->hands_over = publish->is_pruned = publish->has_forgotten = false;
	publish->due_ns = publish->look_ns = now_ns;
	publish->gives_up = false;
	publish->next = STEP_NONE;

	return true;
}

bool publish_is_finished(const struct publish *publish)
{
	return publish->old == NONE && publish->step == STEP_NONE;
}

/* --- what is asked ---------------------------------------------------------------------------- */

/* Somebody who ends as we begin takes the labels away that we have just written: NFD those of a
 * feature discovery that is uninstalled, which are still its own. So the first looks follow soon,
 * and then less and less. */
static bool publish_is_early(const struct publish *publish, uint64_t now_ns)
{
	return publish->chosen == DIRECT &&
	       now_ns < clock_after_ns(publish->way_ns, publish_minutes(publish, PUBLISH_ARRIVE));
}

static uint64_t publish_early_ns(const struct publish *publish, uint64_t now_ns)
{
	uint64_t least_ns = publish->options.minute_ns / PUBLISH_HURRY;
	uint64_t age_ns = now_ns - publish->way_ns;

	return age_ns > least_ns ? age_ns : least_ns;
}

/* Until the next look when all is well: not all nodes of a cluster at once. */
static void publish_rest(struct publish *publish, uint64_t now_ns)
{
	uint64_t drift_ns = publish_minutes(publish, PUBLISH_DRIFT);
	uint64_t wait_ns =
	    drift_ns - drift_ns / 5 + backoff_chance(&publish->backoff) % (drift_ns / 5 * 2 + 1);

	if (now_ns < publish->hurry_ns)
		wait_ns = publish->options.minute_ns / PUBLISH_HURRY;
	else if (publish->has_repaired &&
		 now_ns <
		     clock_after_ns(publish->repair_ns, publish_minutes(publish, PUBLISH_FIGHT)))
		wait_ns = publish->options.minute_ns;
	else if (publish_is_early(publish, now_ns))
		wait_ns = publish_early_ns(publish, now_ns);

	publish->look_ns = clock_after_ns(now_ns, wait_ns);
}

static void publish_ended_old(struct publish *publish, uint64_t now_ns)
{
	publish->old = NONE;
	publish->hurry_ns = clock_after_ns(now_ns, publish_minutes(publish, PUBLISH_ARRIVE));
	publish_rest(publish, now_ns);
}

/* What follows when the labels are where they belong: the end of the way that was before. */
static enum publish_step publish_next_old(struct publish *publish, uint64_t now_ns)
{
	if (publish->old == publish->chosen)
		publish->old = NONE;
	if (publish->old == NONE)
		return STEP_NONE;
	if (publish->chosen == NONE && !publish->hands_over)
		return publish->old == DIRECT ? STEP_PRUNE : STEP_REMOVE;

	/* Nobody says when NFD has read a file. */
	if (publish->chosen == NONE && publish->old == FEATURE) {
		publish->look_ns =
		    clock_after_ns(publish->since_ns, publish_minutes(publish, PUBLISH_ARRIVE));
		return now_ns >= publish->look_ns ? STEP_REMOVE : STEP_NONE;
	}

	if (publish->old == DIRECT || (publish->chosen == DIRECT && !publish->has_forgotten))
		return STEP_LOOK;
	if (publish->old == FEATURE)
		return STEP_REMOVE;

	publish_ended_old(publish, now_ns); /* the agent removes its file */
	return STEP_NONE;
}

static enum publish_step publish_next(struct publish *publish, uint64_t now_ns)
{
	bool is_feature = publish->chosen == FEATURE;

	if (publish->gives_up || now_ns < publish->due_ns)
		return STEP_NONE;
	if (publish->next != STEP_NONE)
		return publish->next;
	if (publish->wish == AUTO && publish->chosen == NONE)
		return STEP_SERVED;
	if (is_feature && *publish->pod && !publish->asked_owners)
		return STEP_POD;

	if (publish->chosen != NONE && !publish->is_written) {
		if (publish->write_ns != 0 &&
		    now_ns < clock_after_ns(publish->write_ns, publish->options.minute_ns))
			return STEP_NONE;
		return is_feature ? STEP_READ : STEP_APPLY;
	}

	if (now_ns < publish->look_ns)
		return STEP_NONE;
	if (publish->chosen != NONE && !publish->is_on_node)
		return STEP_LOOK;

	enum publish_step step = publish_next_old(publish, now_ns);
	if (step != STEP_NONE || publish->chosen == NONE || now_ns < publish->look_ns)
		return step;

	publish->is_drift_look = true;
	return is_feature ? STEP_READ : STEP_LOOK;
}

uint64_t publish_due_ns(const struct publish *publish)
{
	uint64_t due_ns = publish->due_ns;

	if (publish->step != STEP_NONE || publish->gives_up || !publish->labels ||
	    (publish->wish != AUTO && publish->chosen == NONE && publish->old == NONE))
		return UINT64_MAX;
	if (publish->next != STEP_NONE || (publish->wish == AUTO && publish->chosen == NONE))
		return due_ns;
	if (publish->chosen == FEATURE && *publish->pod && !publish->asked_owners)
		return due_ns;

	uint64_t next_ns = publish->look_ns;

	if (publish->chosen != NONE && !publish->is_written)
		next_ns = publish->write_ns
			      ? clock_after_ns(publish->write_ns, publish->options.minute_ns)
			      : 0;

	return next_ns > due_ns ? next_ns : due_ns;
}

static void publish_path(const struct publish *publish, enum publish_step step,
			 char out[PUBLISH_PATH_MAX])
{
	const char *node = publish->options.node;

	switch (step) {
	case STEP_SERVED:
		(void)snprintf(out, PUBLISH_PATH_MAX, FEATURE_GROUP);
		break;
	case STEP_POD:
		(void)snprintf(out, PUBLISH_PATH_MAX, "/api/v1/namespaces/%s/pods/%s",
			       publish->namespace_, publish->pod);
		break;
	case STEP_CREATE:
		(void)snprintf(out, PUBLISH_PATH_MAX, FEATURE_GROUP "/namespaces/%s/nodefeatures",
			       publish->namespace_);
		break;
	case STEP_READ:
	case STEP_UPDATE:
	case STEP_REMOVE:
		(void)snprintf(out, PUBLISH_PATH_MAX,
			       FEATURE_GROUP "/namespaces/%s/nodefeatures/nvidia-features-for-%s",
			       publish->namespace_, node);
		break;
	case STEP_APPLY:
	case STEP_PRUNE:
		(void)snprintf(out, PUBLISH_PATH_MAX,
			       "/api/v1/nodes/%s?fieldManager=" FEATURE_MANAGER "&force=true",
			       node);
		break;
	default:
		(void)snprintf(out, PUBLISH_PATH_MAX, "/api/v1/nodes/%s", node);
	}
}

/* What of our labels stays when they are not applied any more: what NFD has put there as well. */
static char *publish_prune_body(const struct publish *publish)
{
	_cleanup_(json_cleanup) json_t *rest =
	    publish->hands_over || publish->chosen != NONE
		? feature_of_discovery(publish->there, publish->direct)
		: json_object();
	return rest ? feature_apply_body(publish->options.node, rest) : NULL;
}

static char *publish_body(const struct publish *publish, enum publish_step step)
{
	const struct feature_object wish = {
	    .node = publish->options.node,
	    .namespace_ = publish->namespace_,
	    .labels = publish->labels,
	    .owners = publish->owners,
	};

	switch (step) {
	case STEP_CREATE:
		return feature_body(NULL, &wish);
	case STEP_UPDATE:
		return feature_body(publish->there, &wish);
	case STEP_APPLY:
		return feature_apply_body(publish->options.node, publish->direct);
	case STEP_FORGET:
		return feature_forget_body(publish->there, publish->direct);
	case STEP_PRUNE:
		return publish_prune_body(publish);
	case STEP_RELEASE:
		return feature_release_body(publish->there);
	default:
		return NULL;
	}
}

/* How each is asked. */
static const struct publish_how {
	const char *method, *content_type; /* NULL: without a body */
	const char *what, *rule;	   /* for people */
} publish_hows[] = {
    [STEP_SERVED] = {"GET", NULL, "whether it serves NodeFeatures", "discovery"},
    [STEP_POD] = {"GET", NULL, "for our pod", "get of pods"},
    [STEP_READ] = {"GET", NULL, "for our NodeFeature", "get of nodefeatures"},
    [STEP_CREATE] = {"POST", "application/json", "to create our NodeFeature",
		     "create of nodefeatures"},
    [STEP_UPDATE] = {"PUT", "application/json", "to update our NodeFeature",
		     "update of nodefeatures"},
    [STEP_APPLY] = {"PATCH", "application/apply-patch+yaml", "to label our node", "patch of nodes"},
    [STEP_LOOK] = {"GET", NULL, "for our node's labels", "get of nodes"},
    [STEP_FORGET] = {"PATCH", "application/merge-patch+json", "to take over our labels",
		     "patch of nodes"},
    [STEP_REMOVE] = {"DELETE", NULL, "to delete our NodeFeature", "delete of nodefeatures"},
    [STEP_PRUNE] = {"PATCH", "application/apply-patch+yaml", "to take back labels",
		    "patch of nodes"},
    [STEP_RELEASE] = {"PATCH", "application/json-patch+json", "to hand over our labels",
		      "patch of nodes"},
};

static bool publish_ask(struct publish *publish, enum publish_step step, uint64_t now_ns,
			struct publish_request *out)
{
	const struct publish_how *how = &publish_hows[step];
	*out = (struct publish_request){.method = how->method, .accept = "application/json"};

	/* Without its managedFields there is nothing to release. */
	if (step == STEP_LOOK || step == STEP_POD)
		out->accept =
		    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

	publish_path(publish, step, out->path);
	if (how->content_type) {
		out->content_type = how->content_type;
		out->body = publish_body(publish, step);
		if (!out->body) { /* no memory: again later */
			publish->due_ns = clock_after_ns(now_ns, backoff_fail(&publish->backoff));
			return false;
		}
	}

	buf_clear(&publish->answer);
	publish->step = step;
	publish->next = STEP_NONE;
	publish->sent_number = publish->number;

	return true;
}

bool publish_begin(struct publish *publish, uint64_t now_ns, struct publish_request *out)
{
	if (publish->step != STEP_NONE || !publish->labels)
		return false;
	enum publish_step step = publish_next(publish, now_ns);
	publish_tell(publish);
	return step != STEP_NONE && publish_ask(publish, step, now_ns, out);
}

int publish_data(struct publish *publish, const char *data, size_t length)
{
	return buf_add(&publish->answer, data, length);
}

/* --- what is heard ---------------------------------------------------------------------------- */

static void publish_problem(struct publish *publish, const char *text)
{
	(void)snprintf(publish->problem, sizeof(publish->problem), "%s", text);
}

/* It is written: in a moment it should be on the node. */
static void publish_wrote(struct publish *publish, uint64_t now_ns)
{
	publish->is_written = publish->sent_number == publish->number;
	publish->write_ns = publish->since_ns = now_ns;
	publish->look_wait_ns = publish->options.minute_ns / PUBLISH_FIRST_LOOK;
	publish->look_ns = clock_after_ns(now_ns, publish->look_wait_ns);
	publish->problem[0] = '\0';
	if (publish->chosen == DIRECT && publish->is_written) {
		publish->is_on_node = true;
		if (publish->old == NONE)
			publish_rest(publish, now_ns);
		else
			publish->look_ns = now_ns;
	}
}

/* Somebody has changed what is ours. False: he does so again and again. */
static bool publish_may_repair(struct publish *publish, uint64_t now_ns)
{
	bool is_again = publish->has_repaired &&
			now_ns - publish->repair_ns < publish_minutes(publish, PUBLISH_FIGHT);

	if (now_ns < publish->hurry_ns)
		return true; /* what is left of another way */

	publish->has_repaired = true;
	publish->repair_ns = now_ns;
	if (!is_again)
		return true;

	publish->gives_up = true;
	publish_problem(publish,
			"another label source changes what sluice writes; it stays as it is until "
			"the configuration changes or the agent starts again: is "
			"gpu-feature-discovery still running?");
	return false;
}

static void publish_read_feature(struct publish *publish, uint64_t now_ns)
{
	const struct feature_object wish = {
	    .node = publish->options.node,
	    .namespace_ = publish->namespace_,
	    .labels = publish->labels,
	    .owners = publish->owners,
	};
	bool is_drift = publish->is_drift_look;

	publish->is_drift_look = false;
	if (publish->there && feature_is(publish->there, &wish)) {
		if (is_drift)
			publish_rest(publish, now_ns);
		else
			publish_wrote(publish, now_ns);
		return;
	}

	if (is_drift)
		publish->is_written = !publish_may_repair(publish, now_ns);
	else
		publish->next = publish->there ? STEP_UPDATE : STEP_CREATE;
}

/* The labels have not arrived in time. */
static void publish_late(struct publish *publish, uint64_t now_ns)
{
	if (publish->wish == AUTO && publish->chosen == FEATURE) {
		publish->chosen = DIRECT;
		publish->old = FEATURE;
		publish->is_written = false;
		publish->has_forgotten = false;
		publish->write_ns = 0;

		return;
	}

	publish_problem(publish,
			publish->old == DIRECT
			    ? "node feature discovery does not put the labels on the node"
			    : "the NodeFeature is written, and its labels are not on the "
			      "node after 2 minutes: does nfd-master run, and does it take "
			      "labels of others (its 'restrictions', 'denyLabelNs')?");
	publish_rest(publish, now_ns);
}

static void publish_look_again(struct publish *publish, uint64_t now_ns)
{
	uint64_t end_ns =
	    clock_after_ns(publish->since_ns, publish_minutes(publish, PUBLISH_ARRIVE));
	uint64_t most_ns = publish->options.minute_ns / 2;

	if (now_ns >= end_ns) {
		publish_late(publish, now_ns);
		return;
	}

	publish->look_wait_ns =
	    publish->look_wait_ns * 2 < most_ns ? publish->look_wait_ns * 2 + 1 : most_ns;
	publish->look_ns = clock_after_ns(now_ns, publish->look_wait_ns);
	if (publish->look_ns > end_ns)
		publish->look_ns = end_ns;
}

/* NFD has put all of them on the node, too. */
static bool publish_is_taken(const struct publish *publish)
{
	_cleanup_(json_cleanup) json_t *taken =
	    feature_of_discovery(publish->there, publish->labels);
	return taken && json_object_size(taken) == json_object_size(publish->labels);
}

/* Labels that were applied, on their way to NFD. */
static void publish_look_over(struct publish *publish, uint64_t now_ns)
{
	_cleanup_free_ char *body = feature_release_body(publish->there);
	if (!publish_is_taken(publish))
		publish_look_again(publish, now_ns);
	else if (!body) /* they are not ours any more */
		publish_ended_old(publish, now_ns);
	else
		publish->next = publish->is_pruned ? STEP_RELEASE : STEP_PRUNE;
}

static void publish_looked(struct publish *publish, uint64_t now_ns)
{
	bool is_drift = publish->is_drift_look;
	bool is_there =
	    publish->chosen == NONE || feature_on_node(publish->there, publish_set_of(publish));

	publish->is_drift_look = false;
	/* Labels that we have applied ourselves are no sign of NFD's. */
	if (publish->chosen == FEATURE && publish->old == DIRECT)
		is_there = publish_is_taken(publish);

	if (!is_there && publish->chosen == DIRECT) {
		publish->is_written = is_drift && !publish_may_repair(publish, now_ns);
		publish->write_ns = 0;

		/* Something takes them off as they are applied: not as fast as it can. */
		if (!is_drift)
			publish->due_ns =
			    clock_after_ns(now_ns, publish->options.minute_ns / PUBLISH_HURRY);

		return;
	}

	if (!is_there) {
		publish_look_again(publish, now_ns);
		return;
	}

	if (publish->chosen != NONE && !publish->is_on_node) {
		publish->is_on_node = true;
		publish->problem[0] = '\0';
	}

	if (publish->old == DIRECT && publish->chosen != DIRECT)
		publish_look_over(publish, now_ns);
	else if (publish->old != NONE && publish->chosen == DIRECT && !publish->has_forgotten)
		publish->next = STEP_FORGET;
	else if (publish->old != NONE)
		publish->look_ns = now_ns;
	else
		publish_rest(publish, now_ns);
}

/* A step is done. */
static void publish_done(struct publish *publish, enum publish_step step, uint64_t now_ns)
{
	switch (step) {
	case STEP_SERVED:
		publish->chosen = FEATURE;
		break;
	case STEP_POD:
		publish->asked_owners = true;
		json_decref(publish->owners);
		publish->owners = publish->there ? feature_owners(publish->there) : NULL;
		break;
	case STEP_READ:
		publish_read_feature(publish, now_ns);
		break;
	case STEP_CREATE:
	case STEP_UPDATE:
	case STEP_APPLY:
		publish_wrote(publish, now_ns);
		break;
	case STEP_LOOK:
		publish_looked(publish, now_ns);
		break;
	case STEP_FORGET:
		publish->has_forgotten = true;
		publish->look_ns = now_ns;
		break;
	case STEP_PRUNE:
		publish->is_pruned = true;
		publish->look_ns = now_ns;
		if (publish->chosen == NONE && !publish->hands_over)
			publish_ended_old(publish, now_ns);
		break;
	case STEP_REMOVE:
	case STEP_RELEASE:
		publish_ended_old(publish, now_ns);
		break;
	case STEP_NONE:
		break;
	}
}

/* 0: done as if it had been answered well; -1: it was not. */
static int publish_excuse(struct publish *publish, enum publish_step step,
			  const struct kube_answer *answer)
{
	/* 1: it goes on in another way. */
	bool is_absent = answer->status == ANSWER_NOT_FOUND;
	bool is_refused = is_absent || answer->status == ANSWER_FORBIDDEN;

	if (answer->code != 0)
		return -1;
	if ((step == STEP_READ || step == STEP_REMOVE) && is_absent)
		return 0; /* there is none yet, or none any more */
	if (step == STEP_POD && is_refused)
		return 0; /* without owners */

	/* An admission policy that permits labels alone: what goes wrong is mended soon. */
	if ((step == STEP_FORGET || step == STEP_RELEASE) &&
	    (is_refused || answer->status == ANSWER_INVALID))
		return 0;

	/* No NFD, or no rights for it. */
	if (publish->wish == AUTO && is_refused &&
	    (step == STEP_SERVED || step == STEP_READ || step == STEP_CREATE ||
	     step == STEP_UPDATE)) {
		publish->chosen = DIRECT;
		publish->is_written = false;
		publish->write_ns = 0;
		return 1;
	}

	return -1;
}

static void publish_failed(struct publish *publish, enum publish_step step,
			   const struct kube_answer *answer, uint64_t now_ns)
{
	uint64_t wait_ns = backoff_fail(&publish->backoff);
	uint64_t wish_ns = answer->retry_after_ns < PUBLISH_RETRY_MAX_NS ? answer->retry_after_ns
									 : PUBLISH_RETRY_MAX_NS;

	if (answer->status == ANSWER_UNAUTHORIZED && answer->token_changed &&
	    publish->backoff.failures == 1)
		wait_ns = 0;

	publish->due_ns = clock_after_ns(now_ns, wish_ns > wait_ns ? wish_ns : wait_ns);
	/* Rights that were taken away with the way that needed them. */
	if (step == STEP_REMOVE && answer->status == ANSWER_FORBIDDEN)
		publish->due_ns = clock_after_ns(now_ns, publish_minutes(publish, PUBLISH_DRIFT));

	/* Somebody was faster: it is read again, and that is no trouble. */
	if (answer->code == 0 && answer->status == ANSWER_CONFLICT &&
	    publish->backoff.failures <= 3) {
		return;
	}

	if (step == STEP_CREATE && answer->code == 0 && answer->status == ANSWER_NOT_FOUND) {
		(void)snprintf(
		    publish->problem, sizeof(publish->problem),
		    "the API server knows no NodeFeatures, or no namespace '%.64s' (404): "
		    "is node feature discovery installed? sluice.labels.mode: direct does "
		    "without it",
		    publish->namespace_);
		return;
	}

	if (answer_is_good(answer))
		(void)snprintf(publish->problem, sizeof(publish->problem),
			       "the API server sends what is no object when asked %s",
			       publish_hows[step].what);
	else
		(void)answer_describe(answer, publish_hows[step].what, publish_hows[step].rule,
				      publish->problem);
}

void publish_end(struct publish *publish, const struct kube_answer *answer, uint64_t now_ns)
{
	enum publish_step step = publish->step;
	struct err err = {0};
	int excuse = 0;

	publish->step = STEP_NONE;
	bool is_good = answer_is_good(answer);
	bool reads = step == STEP_READ || step == STEP_LOOK || step == STEP_POD;

	json_decref(publish->there);
	publish->there = NULL;

	if (is_good && reads) {
		publish->there =
		    object_load(buf_text(&publish->answer), publish->answer.length, &err);
		is_good = publish->there != NULL;
	}

	buf_done(&publish->answer);
	if (!is_good)
		excuse = publish_excuse(publish, step, answer);

	if (is_good || excuse == 0) {
		backoff_succeed(&publish->backoff);
		publish->due_ns = now_ns;
		publish_done(publish, step, now_ns);
	} else if (excuse < 0) {
		publish_failed(publish, step, answer, now_ns);
	}

	publish_tell(publish);
}

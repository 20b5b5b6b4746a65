/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-cluster [--kubeconfig FILE] [--namespace NAME]: what the API server of a cluster says of
 * what concerns sluice, as one JSON object of facts on standard output. Only reads, but for one
 * question about rights, which changes nothing. Started by 'sluice doctor --cluster', which knows
 * nothing of HTTP and tokens. What may not be read is listed in "problems".
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/longopt.h"
#include "libexec/cluster/digest.h"
#include "libexec/kube/access.h"
#include "libexec/kube/answer.h"
#include "libexec/kube/client.h"
#include "libexec/kube/sandbox.h"

enum {
	MAIN_EXIT_FAILED = 1,
	MAIN_EXIT_USAGE = 64,
	MAIN_BODY_MAX = 32 << 20, /* of one answer */
	MAIN_PARTS_MAX = 200,	  /* of a list */
	MAIN_PATH_MAX = 4096,
};
#define MAIN_TIMEOUT_NS UINT64_C(20000000000) /* for one answer */
#define MAIN_NAMESPACE	"sluice"

struct cluster_reader {
	const char *namespace_;
	struct access_options access;
	struct client *client; /* owned, as are the next two */
	json_t *facts;
	struct buf body;
	struct kube_answer answer;
	bool is_done;
};

/* --- one request ------------------------------------------------------------------------------ */

static int main_on_data(const char *data, size_t length, void *context)
{
	struct cluster_reader *cluster = context;
	return buf_add(&cluster->body, data, length);
}

static void main_on_end(const struct kube_answer *answer, void *context)
{
	struct cluster_reader *cluster = context;
	cluster->answer = *answer;
	cluster->is_done = true;
}

/* The clock of the server against ours, once. */
static void main_note_clock(struct cluster_reader *cluster)
{
	int64_t ours_s = clock_unix_ns() / (int64_t)CLOCK_NS_PER_S;
	if (cluster->answer.date_s > 0 && !json_object_get(cluster->facts, "skew_s"))
		(void)json_object_set_new(cluster->facts, "skew_s",
					  json_integer(ours_s - cluster->answer.date_s));
}

/* Asks, and waits. `body` is given, NULL: a GET. 0: an answer of 200 or 201 is in cluster->body. */
static int main_ask(struct cluster_reader *cluster, const char *path, char *body, struct err *err)
{
	const struct client_request request = {
	    .method = body ? "POST" : "GET",
	    .path = path,
	    .accept = "application/json",
	    .content_type = body ? "application/json" : NULL,
	    .body = body,
	    .timeout_ns = MAIN_TIMEOUT_NS,
	    .data = main_on_data,
	    .end = main_on_end,
	    .context = cluster,
	};
	int rc = 0;

	buf_clear(&cluster->body);
	cluster->is_done = false;
	if (!client_start(cluster->client, &request))
		return err_set(err, -EBUSY, "too many requests at once");

	while (!cluster->is_done && rc == 0) {
		short ready;
		rc = client_run(cluster->client, -1, 0, MAIN_TIMEOUT_NS, &ready, err);
	}

	if (rc == 0)
		main_note_clock(cluster);

	return rc;
}

/* "what": as in "to list nodes". Adds the problem; the others are asked all the same. */
static void main_note_problem(struct cluster_reader *cluster, const char *what, const char *rule,
			      const char *why)
{
	json_t *problems = json_object_get(cluster->facts, "problems");
	json_t *text = json_string(why ? why : "text that is no UTF-8");
	(void)json_array_append_new(
	    problems, json_pack("{s:s, s:s, s:o}", "what", what, "rule", rule, "why", text));
}

/* True: cluster->body is to be read. */
static bool main_get(struct cluster_reader *cluster, const char *path, char *body, const char *what,
		     const char *rule)
{
	struct err err = {0};
	char why[ANSWER_PROBLEM_MAX];

	if (main_ask(cluster, path, body, &err) < 0) {
		main_note_problem(cluster, what, rule, err.text);
		return false;
	}

	if (answer_is_good(&cluster->answer))
		return true;

	main_note_problem(cluster, what, rule, answer_describe(&cluster->answer, what, rule, why));
	return false;
}

static void main_note_digest(struct cluster_reader *cluster, const char *what, int rc,
			     const struct err *err)
{
	if (rc < 0)
		main_note_problem(cluster, what, "", err->text);
}

/* A list in parts. `digest` as digest_nodes(). */
static void main_list(struct cluster_reader *cluster, const char *path, const char *what,
		      const char *rule,
		      int (*digest)(const char *text, size_t length, json_t *facts,
				    char out_continue[DIGEST_CONTINUE_MAX], struct err *err))
{
	char more[DIGEST_CONTINUE_MAX] = "", part[MAIN_PATH_MAX];

	for (int i = 0; i < MAIN_PARTS_MAX; i++) {
		struct err err = {0};

		/* What a server gives to go on with is of URL-safe letters. */
		if (strspn(more, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
				 "=%") != strlen(more))
			break;

		(void)snprintf(part, sizeof(part), "%s?limit=100%s%s", path,
			       *more ? "&continue=" : "", more);
		if (!main_get(cluster, part, NULL, what, rule))
			return;

		int rc = digest(buf_text(&cluster->body), cluster->body.length, cluster->facts,
				more, &err);
		main_note_digest(cluster, what, rc, &err);
		if (rc < 0 || !*more)
			return;
	}

	(void)snprintf(part, sizeof(part),
		       "%s: a list that does not end, or goes on in no known way", what);
	main_note_problem(cluster, what, "", part);
}

/* --- what is asked ---------------------------------------------------------------------------- */

static bool main_is_name(const char *name)
{
	return *name && strlen(name) < DIGEST_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(name);
}

/* Our own DaemonSet among the facts. NULL: there is none. Borrowed. */
static json_t *main_own(const struct cluster_reader *cluster)
{
	json_t *set;
	size_t i;
	json_array_foreach(json_object_get(cluster->facts, "daemonsets"), i, set)

	{
		const char *component = json_string_value(json_object_get(set, "component"));
		if (component && strcmp(component, "sluice") == 0)
			return set;
	}

	return NULL;
}

static const char *main_text(const json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));
	return text ? text : "";
}

static void main_ask_namespace(struct cluster_reader *cluster, const char *name)
{
	char path[MAIN_PATH_MAX];
	struct err err = {0};

	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s", name);
	if (main_get(cluster, path, NULL, "to read our namespace", "get of namespaces"))
		main_note_digest(cluster, "to read our namespace",
				 digest_namespace(buf_text(&cluster->body), cluster->body.length,
						  cluster->facts, &err),
				 &err);
}

static void main_ask_events(struct cluster_reader *cluster, json_t *set)
{
	char path[MAIN_PATH_MAX];
	struct err err = {0};
	json_int_t desired = json_integer_value(json_object_get(set, "desired"));
	json_int_t ready = json_integer_value(json_object_get(set, "ready"));
	if (ready >= desired && desired > 0)
		return;

	(void)snprintf(path, sizeof(path),
		       "/api/v1/namespaces/%s/events?limit=100&fieldSelector=involvedObject.kind%%"
		       "3DDaemonSet,involvedObject.name%%3D%s",
		       main_text(set, "namespace"), main_text(set, "name"));
	if (main_get(cluster, path, NULL, "to list Events", "list of events"))
		main_note_digest(
		    cluster, "to list Events",
		    digest_events(buf_text(&cluster->body), cluster->body.length, set, &err), &err);
}

/* May the agent's account use the privileged security context constraint? */
static void main_ask_scc(struct cluster_reader *cluster, const char *namespace_,
			 const char *account)
{
	static const char what[] = "to review rights";
	struct err err = {0};
	char user[2 * DIGEST_NAME_MAX + 32];

	(void)snprintf(user, sizeof(user), "system:serviceaccount:%s:%s", namespace_, account);
	json_t *review = json_pack(
	    "{s:s, s:s, s:{s:s, s:{s:s, s:s, s:s, s:s, s:s}}}", "apiVersion",
	    "authorization.k8s.io/v1", "kind", "SubjectAccessReview", "spec", "user", user,
	    "resourceAttributes", "namespace", namespace_, "group", "security.openshift.io",
	    "resource", "securitycontextconstraints", "name", "privileged", "verb", "use");
	char *body = review ? json_dumps(review, JSON_COMPACT) : NULL;

	json_decref(review);
	if (!body)
		main_note_problem(cluster, what, "", "out of memory");
	else if (main_get(cluster, "/apis/authorization.k8s.io/v1/subjectaccessreviews", body, what,
			  "create of subjectaccessreviews"))
		main_note_digest(cluster, what,
				 digest_review(buf_text(&cluster->body), cluster->body.length,
					       cluster->facts, &err),
				 &err);
}

static void main_ask_policies(struct cluster_reader *cluster, const char *path, const char *kind)
{
	static const char what[] = "to list policies of NVIDIA's operators";
	struct err err = {0};
	char why[ANSWER_PROBLEM_MAX];

	if (main_ask(cluster, path, NULL, &err) < 0)
		main_note_problem(cluster, what, "", err.text);
	else if (answer_is_good(&cluster->answer))
		main_note_digest(cluster, what,
				 digest_policies(buf_text(&cluster->body), cluster->body.length,
						 kind, cluster->facts, &err),
				 &err);
	else if (cluster->answer.status != ANSWER_NOT_FOUND) /* another operator's group */
		main_note_problem(
		    cluster, what, "",
		    answer_describe(&cluster->answer, what, "list of clusterpolicies", why));
}

static void main_ask_tags(struct cluster_reader *cluster)
{
	static const char what[] = "to read the image stream driver-toolkit";
	struct err err = {0};

	if (main_get(cluster,
		     "/apis/image.openshift.io/v1/namespaces/openshift/imagestreams/driver-toolkit",
		     NULL, what, "get of imagestreams"))
		main_note_digest(cluster, what,
				 digest_tags(buf_text(&cluster->body), cluster->body.length,
					     cluster->facts, &err),
				 &err);
}

/* -errno: nothing can be asked at all. */
static int main_run(struct cluster_reader *cluster, struct err *err)
{
	struct digest_groups groups;
	int rc = main_ask(cluster, "/apis", NULL, err);
	char why[ANSWER_PROBLEM_MAX];

	if (rc < 0)
		return rc;
	if (!answer_is_good(&cluster->answer))
		return err_set(err, -EIO, "%s",
			       answer_describe(&cluster->answer, "which APIs it has",
					       "get of /apis (system:discovery)", why));

	rc = digest_groups(buf_text(&cluster->body), cluster->body.length, &groups, err);
	if (rc < 0)
		return err_wrap(err, "which APIs the server has");

	(void)json_object_set_new(cluster->facts, "openshift", json_boolean(groups.openshift));
	main_list(cluster, "/apis/apps/v1/daemonsets", "to list DaemonSets", "list of daemonsets",
		  digest_daemonsets);
	main_list(cluster, "/api/v1/nodes", "to list nodes", "list of nodes", digest_nodes);

	json_t *own = main_own(cluster);
	const char *namespace_ = own ? main_text(own, "namespace") : cluster->namespace_;
	const char *account = own ? main_text(own, "account") : "sluice";

	if (!main_is_name(namespace_))
		return err_set(err, -EINVAL, "no namespace has such a name: '%.100s'", namespace_);

	main_ask_namespace(cluster, namespace_);
	if (own && main_is_name(main_text(own, "name")))
		main_ask_events(cluster, own);
	if (groups.openshift)
		main_ask_scc(cluster, namespace_, *account ? account : "default");
	if (groups.images)
		main_ask_tags(cluster);

	if (groups.gpu_operator)
		main_ask_policies(cluster, "/apis/nvidia.com/v1/clusterpolicies", "ClusterPolicy");
	if (groups.network_operator)
		main_ask_policies(cluster, "/apis/mellanox.com/v1alpha1/nicclusterpolicies",
				  "NicClusterPolicy");

	return 0;
}

/* --- beginning and end ------------------------------------------------------------------------ */

static int main_usage(void)
{
	fprintf(stderr, "usage: sluice-cluster [--kubeconfig FILE] [--namespace NAME]\n"
			"It is started by 'sluice doctor --cluster'.\n");
	return MAIN_EXIT_USAGE;
}

static int main_parse(int argc, char **argv, struct cluster_reader *cluster)
{
	enum { KUBECONFIG = 1, NAMESPACE, DIRECTORY };
	static const struct option table[] = {
	    {"kubeconfig", required_argument, NULL, KUBECONFIG},
	    {"namespace", required_argument, NULL, NAMESPACE},
	    {"service-account", required_argument, NULL, DIRECTORY},
	    {NULL, 0, NULL, 0},
	};
	int choice, index = 0;

	cluster->namespace_ = MAIN_NAMESPACE;
	cluster->access.directory = ACCESS_SERVICE_ACCOUNT;
	while ((choice = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (choice != '?' && !longopt_is_whole(argv, table[index].name))
			return main_usage();
		if (choice == KUBECONFIG)
			cluster->access.kubeconfig = optarg;
		else if (choice == NAMESPACE)
			cluster->namespace_ = optarg;
		else if (choice == DIRECTORY)
			cluster->access.directory = optarg;
		else
			return main_usage();
	}

	return optind < argc || !main_is_name(cluster->namespace_) ? main_usage() : 0;
}

static int main_print(const struct cluster_reader *cluster, struct err *err)
{
	if (json_dumpf(cluster->facts, stdout, JSON_COMPACT | JSON_SORT_KEYS) < 0 ||
	    putchar('\n') == EOF || fflush(stdout) != 0)
		return err_set(err, -EIO, "writing what was found: %s", err_describe(-errno));
	return 0;
}

int main(int argc, char **argv)
{
	struct cluster_reader cluster = {.client = NULL};
	struct err err = {0};
	int code = main_parse(argc, argv, &cluster);
	if (code != 0)
		return code;

	(void)signal(SIGPIPE, SIG_IGN);
	buf_init(&cluster.body, MAIN_BODY_MAX);
	cluster.access.host = getenv("KUBERNETES_SERVICE_HOST");
	cluster.access.port = getenv("KUBERNETES_SERVICE_PORT");
	cluster.facts = json_pack("{s:[]}", "problems");

	int rc = cluster.facts ? sandbox_drop(&err) : err_set(&err, -ENOMEM, "out of memory");
	if (rc == 0) {
		cluster.client = client_new(&cluster.access, &err);
		rc = cluster.client ? main_run(&cluster, &err) : err.code;
	}

	if (rc == 0)
		rc = main_print(&cluster, &err);
	cluster.client = client_free(cluster.client);
	buf_done(&cluster.body);
	json_decref(cluster.facts);

	if (rc < 0)
		fprintf(stderr, "sluice-cluster: %s\n", err.text);

	return rc < 0 ? MAIN_EXIT_FAILED : 0;
}

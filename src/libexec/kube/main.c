/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-kube --node NAME --label LABEL [--kubeconfig FILE]: the one process of a node with a TLS
 * client and a token. Watches the own Node for the agent, posts the agent's Events and publishes
 * its labels, over descriptor 3 (proto/kube.proto), and ends when that does. One thread; only
 * libcurl may use another while it looks up a name.
 *
 * sluice-kube --withdraw --node NAME [--kubeconfig FILE]: takes away the labels that were applied
 * to the Node, and ends. For an uninstallation, when there is no agent any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/longopt.h"
#include "base/file.h"
#include "base/parse.h"
#include "libexec/kube/access.h"
#include "libexec/kube/answer.h"
#include "libexec/kube/client.h"
#include "libexec/kube/events.h"
#include "libexec/kube/link.h"
#include "libexec/kube/publish.h"
#include "libexec/kube/sandbox.h"
#include "libexec/kube/watch.h"

enum {
	MAIN_FD = 3,
	MAIN_EXIT_USAGE = 64,
	MAIN_EXIT_FAILED = 1,
	/* A node with 50 images takes some 60 KB: larger pieces go back to the system at once. */
	MAIN_MMAP_THRESHOLD = 64 << 10,
};
#define MAIN_FINISH_NS	 UINT64_C(1500000000)  /* for what is to be withdrawn at the end */
#define MAIN_WITHDRAW_NS UINT64_C(20000000000) /* the same, when nothing else is to be done */
#define MAIN_TRIM_NS	 UINT64_C(5000000000)  /* after an answer: what it took is given back */

/* Only metadata is wanted: images and conditions of a Node are most of it. A server that cannot do
 * that sends it whole. https://kubernetes.io/docs/reference/using-api/api-concepts/ */
static const char main_accept[] =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
static const char main_accept_watch[] =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

struct main_options {
	const char *node, *label, *kubeconfig, *directory;
	uint64_t watch_s, slack_s, first_ms, minute_ms; /* for tests; 0: the usual ones */
	bool withdraws;
};

struct kube_process {
	struct main_options options;
	struct access_options access;
	struct link link;
	struct client *client; /* owned, all of these */
	struct kube_watch *watch;
	struct events *events;
	struct publish *publish;
	char namespace_[WATCH_NAME_MAX]; /* the pod's own */
	struct client_call *watching;	 /* NULL: no request of the watch runs */
	bool is_ended;
	uint64_t trim_ns; /* when memory is given back; UINT64_MAX: there is nothing to */
	char watch_problem[ANSWER_PROBLEM_MAX], events_problem[ANSWER_PROBLEM_MAX];
	char publish_problem[ANSWER_PROBLEM_MAX]; /* of --withdraw */
};

/* --- between the parts ------------------------------------------------------------------------ */

static void main_tell_problem(struct kube_process *kube)
{
	link_problem(&kube->link,
		     *kube->watch_problem ? kube->watch_problem : kube->events_problem);
}

static void main_on_watch_problem(const char *text, void *context)
{
	struct kube_process *kube = context;
	(void)snprintf(kube->watch_problem, sizeof(kube->watch_problem), "%s", text);
	main_tell_problem(kube);
}

static void main_on_events_problem(const char *text, void *context)
{
	struct kube_process *kube = context;
	(void)snprintf(kube->events_problem, sizeof(kube->events_problem), "%s", text);
	main_tell_problem(kube);
}

static void main_on_label(bool is_set, const char *value, void *context)
{
	struct kube_process *kube = context;
	link_label(&kube->link, is_set, value);
}

static void main_on_labels(const char *const *values, void *context)
{
	struct kube_process *kube = context;
	link_labels(&kube->link, values);
}

static void main_on_event(bool warning, const char *reason, const char *message, void *context)
{
	struct kube_process *kube = context;
	events_add(kube->events, warning, reason, message, clock_real_ns(), clock_unix_ns());
}

static int main_on_watch_data(const char *data, size_t length, void *context)
{
	struct kube_process *kube = context;
	kube->trim_ns = clock_after_ns(clock_real_ns(), MAIN_TRIM_NS);
	return watch_data(kube->watch, data, length, clock_real_ns());
}

static void main_on_watch_end(const struct kube_answer *answer, void *context)
{
	struct kube_process *kube = context;
	kube->watching = NULL;
	kube->trim_ns = clock_after_ns(clock_real_ns(), MAIN_TRIM_NS);
	watch_end(kube->watch, answer, clock_real_ns());
}

static void main_on_events_end(const struct kube_answer *answer, void *context)
{
	struct kube_process *kube = context;
	kube->trim_ns = clock_after_ns(clock_real_ns(), MAIN_TRIM_NS);
	events_end(kube->events, answer, clock_real_ns());
}

static void main_on_publish(const Sluice__Kube__V1__Publish *wish, void *context)
{
	struct kube_process *kube = context;
	struct err err = {0};
	/* The agent tells its end by the socket, and may be impatient. */
	(void)signal(SIGTERM, wish->until_end ? SIG_IGN : SIG_DFL);
	if (publish_set(kube->publish, wish, clock_real_ns(), &err) < 0)
		link_published(&kube->link, &(struct publish_state){.problem = err.text});
}

static void main_on_published(const struct publish_state *state, void *context)
{
	struct kube_process *kube = context;
	if (kube->options.withdraws)
		(void)snprintf(kube->publish_problem, sizeof(kube->publish_problem), "%s",
			       state->problem);
	else
		link_published(&kube->link, state);
}

static int main_on_publish_data(const char *data, size_t length, void *context)
{
	struct kube_process *kube = context;
	return publish_data(kube->publish, data, length);
}

static void main_on_publish_end(const struct kube_answer *answer, void *context)
{
	struct kube_process *kube = context;
	kube->trim_ns = clock_after_ns(clock_real_ns(), MAIN_TRIM_NS);
	publish_end(kube->publish, answer, clock_real_ns());
}

/* --- the loop --------------------------------------------------------------------------------- */

static void main_ask_publish(struct kube_process *kube)
{
	struct publish_request publish;
	if (!publish_begin(kube->publish, clock_real_ns(), &publish))
		return;

	const struct client_request request = {
	    .method = publish.method,
	    .path = publish.path,
	    .accept = publish.accept,
	    .content_type = publish.content_type,
	    .body = publish.body,
	    .timeout_ns = PUBLISH_TIMEOUT_NS,
	    .data = main_on_publish_data,
	    .end = main_on_publish_end,
	    .context = kube,
	};
	(void)client_start(kube->client, &request);
}

static void main_ask(struct kube_process *kube)
{
	struct watch_request watch;
	struct events_request event;
	uint64_t now_ns = clock_real_ns();

	if (kube->watching)
		watch_look(kube->watch, client_status(kube->watching), now_ns);
	/* There is a place for each of the three. */
	main_ask_publish(kube);

	if (watch_begin(kube->watch, now_ns, &watch)) {
		const struct client_request request = {
		    .method = "GET",
		    .path = watch.path,
		    .accept = strstr(watch.path, "&watch=1") ? main_accept_watch : main_accept,
		    .timeout_ns = watch.timeout_ns,
		    .data = main_on_watch_data,
		    .end = main_on_watch_end,
		    .context = kube,
		};
		kube->watching = client_start(kube->client, &request);
	}

	if (events_begin(kube->events, now_ns, &event)) {
		const struct client_request request = {
		    .method = event.method,
		    .path = event.path,
		    .accept = "application/json",
		    .content_type = event.content_type,
		    .body = event.body,
		    .timeout_ns = EVENTS_TIMEOUT_NS,
		    .end = main_on_events_end,
		    .context = kube,
		};
		(void)client_start(kube->client, &request);
	}
}

static uint64_t main_wait_ns(const struct kube_process *kube)
{
	uint64_t due_ns = watch_due_ns(kube->watch), now_ns = clock_real_ns();
	uint64_t events_ns = events_due_ns(kube->events);
	if (events_ns < due_ns)
		due_ns = events_ns;
	if (publish_due_ns(kube->publish) < due_ns)
		due_ns = publish_due_ns(kube->publish);

	if (kube->trim_ns < due_ns)
		due_ns = kube->trim_ns;

	return due_ns > now_ns ? due_ns - now_ns : 0;
}

static int main_run(struct kube_process *kube, struct err *err)
{
	int rc = 1;

	while (rc > 0) {
		short ready = 0;

		main_ask(kube);
		rc = client_run(kube->client, MAIN_FD, link_wants(&kube->link), main_wait_ns(kube),
				&ready, err);
		if (rc == 0)
			rc = link_run(&kube->link, ready, err);
		if (clock_real_ns() >= kube->trim_ns) {
			(void)malloc_trim(0);
			kube->trim_ns = UINT64_MAX;
		}
	}

	return rc;
}

/* Until what is to be withdrawn is gone; whether it is. */
static bool main_wait_withdrawn(struct kube_process *kube, uint64_t wait_ns)
{
	uint64_t end_ns = clock_after_ns(clock_real_ns(), wait_ns);
	while (!publish_is_finished(kube->publish) && clock_real_ns() < end_ns) {
		short ready = 0;
		main_ask_publish(kube);
		if (client_run(kube->client, -1, 0, MAIN_FINISH_NS / 10, &ready, NULL) < 0)
			break;
	}

	return publish_is_finished(kube->publish);
}

/* The agent has ended; its labels may have to go as well. */
static void main_finish(struct kube_process *kube)
{
	if (publish_finish(kube->publish, clock_real_ns()))
		(void)main_wait_withdrawn(kube, MAIN_FINISH_NS);
}

/* There is no agent: whatever this writer has applied to the node goes. */
static int main_withdraw(struct kube_process *kube, struct err *err)
{
	Sluice__Kube__V1__Publish wish = SLUICE__KUBE__V1__PUBLISH__INIT;
	wish.previous = SLUICE__KUBE__V1__WAY__DIRECT;

	int rc = publish_set(kube->publish, &wish, clock_real_ns(), err);
	if (rc < 0)
		return rc;

	if (!main_wait_withdrawn(kube, MAIN_WITHDRAW_NS))
		return err_set(err, -ETIMEDOUT, "labels of node '%s' are not removed: %s",
			       kube->options.node,
			       *kube->publish_problem ? kube->publish_problem
						      : "the API server does not answer");

	return 0;
}

/* The namespace that the service account is of; without one the default. */
static void main_read_namespace(struct kube_process *kube)
{
	_cleanup_buf_ struct buf text;
	char path[FILE_PATH_MAX];

	buf_init(&text, sizeof(kube->namespace_) - 1);
	(void)snprintf(kube->namespace_, sizeof(kube->namespace_), "default");

	if (kube->options.kubeconfig ||
	    file_path(path, NULL, "%s/namespace", kube->options.directory) < 0 ||
	    file_read(path, &text, NULL) < 0)
		return;

	size_t length = strcspn(buf_text(&text), "\r\n \t");
	if (length > 0)
		(void)snprintf(kube->namespace_, sizeof(kube->namespace_), "%.*s", (int)length,
			       buf_text(&text));
}

/* --- beginning and end ------------------------------------------------------------------------ */

static int main_open(struct kube_process *kube, struct err *err)
{
	const struct main_options *options = &kube->options;
	uint64_t seed[3] = {clock_real_ns(), (uint64_t)getpid(), clock_real_ns() + 1};

	(void)getrandom(seed, sizeof(seed), GRND_NONBLOCK); /* early at boot: the time will do */
	const struct watch_options watch = {
	    .node = options->node,
	    .label = options->label,
	    .seed = seed[0],
	    .first_ns = options->first_ms * CLOCK_NS_PER_MS,
	    .slack_ns = options->slack_s * CLOCK_NS_PER_S,
	    .seconds = (uint32_t)options->watch_s,
	    .label_is = main_on_label,
	    .labels_are = main_on_labels,
	    .problem = main_on_watch_problem,
	    .context = kube,
	};
	const struct events_options events = {
	    .node = options->node,
	    .seed = seed[1],
	    .first_ns = options->first_ms * CLOCK_NS_PER_MS,
	    .problem = main_on_events_problem,
	    .context = kube,
	};
	const struct publish_options publish = {
	    .node = options->node,
	    .namespace_ = kube->namespace_,
	    .seed = seed[2],
	    .first_ns = options->first_ms * CLOCK_NS_PER_MS,
	    .minute_ns = options->minute_ms * CLOCK_NS_PER_MS,
	    .state = main_on_published,
	    .context = kube,
	};

	main_read_namespace(kube);
	kube->access = (struct access_options){
	    .kubeconfig = options->kubeconfig,
	    .directory = options->directory,
	    .host = getenv("KUBERNETES_SERVICE_HOST"),
	    .port = getenv("KUBERNETES_SERVICE_PORT"),
	};
	kube->trim_ns = clock_after_ns(clock_real_ns(), MAIN_TRIM_NS);
	link_init(&kube->link, MAIN_FD, main_on_event, kube);
	kube->link.publish = main_on_publish;
	kube->client = client_new(&kube->access, err);
	kube->watch = kube->client ? watch_new(&watch, err) : NULL;
	kube->events = kube->watch ? events_new(&events, err) : NULL;
	kube->publish = kube->events ? publish_new(&publish, err) : NULL;

	return kube->publish ? 0 : err->code;
}

static void main_close(struct kube_process *kube)
{
	kube->client = client_free(kube->client);
	kube->watch = watch_free(kube->watch);
	kube->events = events_free(kube->events);
	kube->publish = publish_free(kube->publish);
}

static int main_usage(const char *text, const char *detail)
{
	fprintf(stderr,
		"sluice-kube: %s%s\n"
		"usage: sluice-kube --node NAME --label LABEL [--kubeconfig FILE]\n"
		"       sluice-kube --node NAME --withdraw [--kubeconfig FILE]\n"
		"It is started by 'sluice agent', and speaks with it over descriptor 3.\n",
		text, detail);
	return MAIN_EXIT_USAGE;
}

/* 0, or what to exit with. */
static int main_parse(int argc, char **argv, struct main_options *options)
{
	enum { NODE = 1, LABEL, KUBECONFIG, DIRECTORY, WITHDRAW, WATCH, SLACK, FIRST, MINUTE };
	static const struct option table[] = {
	    {"node", required_argument, NULL, NODE},
	    {"label", required_argument, NULL, LABEL},
	    {"kubeconfig", required_argument, NULL, KUBECONFIG},
	    {"service-account", required_argument, NULL, DIRECTORY},
	    {"withdraw", no_argument, NULL, WITHDRAW},
	    {"watch-seconds", required_argument, NULL, WATCH},
	    {"slack-seconds", required_argument, NULL, SLACK},
	    {"back-off-ms", required_argument, NULL, FIRST},
	    {"minute-ms", required_argument, NULL, MINUTE},
	    {NULL, 0, NULL, 0},
	};
	int choice, index = 0, rc = 0;

	while (rc == 0 && (choice = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (choice != '?' && !longopt_is_whole(argv, table[index].name))
			return main_usage("options are written whole: --", table[index].name);

		switch (choice) {
		case NODE:
			options->node = optarg;
			break;
		case LABEL:
			options->label = optarg;
			break;
		case KUBECONFIG:
			options->kubeconfig = optarg;
			break;
		case DIRECTORY:
			options->directory = optarg;
			break;
		case WITHDRAW:
			options->withdraws = true;
			options->label = "";
			break;
		case WATCH:
			rc = parse_u64(optarg, 1, 3600, &options->watch_s);
			break;
		case SLACK:
			rc = parse_u64(optarg, 1, 3600, &options->slack_s);
			break;
		case FIRST:
			rc = parse_u64(optarg, 1, 60000, &options->first_ms);
			break;
		case MINUTE:
			rc = parse_u64(optarg, 1, 60000, &options->minute_ms);
			break;
		default:
			return main_usage("this is not understood", "");
		}
	}

	if (rc < 0 || optind < argc)
		return main_usage("this is not understood: ", rc < 0 ? optarg : argv[optind]);
	if (!options->node || !options->label)
		return main_usage("--node and --label are needed", "");
	if (!watch_name_is_valid(options->node))
		return main_usage("no node has such a name: ", options->node);

	return 0;
}

static int main_serve(struct kube_process *kube, struct err *err)
{
	int rc = kube->options.withdraws ? main_withdraw(kube, err) : main_run(kube, err);
	if (rc == 0 && !kube->options.withdraws)
		main_finish(kube);
	return rc;
}

int main(int argc, char **argv)
{
	struct kube_process kube = {.options = {.directory = ACCESS_SERVICE_ACCOUNT}};
	struct err err = {0};
	int code = main_parse(argc, argv, &kube.options);
	if (code != 0)
		return code;

	(void)mallopt(M_MMAP_THRESHOLD, MAIN_MMAP_THRESHOLD); /* cannot fail with this value */
	(void)signal(SIGPIPE, SIG_IGN);

	int rc = kube.options.withdraws ? 0 : sandbox_close(MAIN_FD, &err);
	if (rc == 0)
		rc = sandbox_drop(&err);
	if (rc == 0)
		rc = main_open(&kube, &err);
	if (rc == 0)
		rc = main_serve(&kube, &err);
	main_close(&kube);

	if (rc < 0)
		fprintf(stderr, "sluice-kube: %s\n", err.text);

	return rc < 0 ? MAIN_EXIT_FAILED : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue without the rest of an agent, to be killed: a machine with so many GPUs of so many
 * slots, and a socket on which a packet of text is a request. Built from the queue's own sources
 * with their crash points (base/crash.h).
 *
 *   usage: sluice-torture STATE_DIRECTORY SUPERVISOR GPUS SLOTS
 *
 *   submit KEY GPUS SHARE COMMAND ARG...   ->  ok ID | error CODE TEXT     (SHARE: 1, one slot
 * each) cancel ID                              ->  ok | error CODE TEXT state ID ->  STATE REASON
 * EXIT ATTEMPT | error CODE TEXT left                                   ->  number of jobs that are
 * not final
 *
 *   wanting WANTS KEY GPUS ...              ->  as submit; WANTS as wants.h has them, "+" for a
 * newline hold ID | release ID | again ID | set ID PRIORITY | drain 0 | drain 1   ->  ok | error
 * CODE TEXT
 *
 * SLUICE_TORTURE_NO_LOCK=1 leaves out the check of a job's lock: the negative control of the storm.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/child.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/storage.h"
#include "job/jobdir.h"
#include "doors/queue/queue.h"
#include "doors/queue/store/store_before.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/snapshot.h"
#include "policy/policy.h"

enum { REQUEST_MAX = 4096, WORDS_MAX = 32, GPUS_MAX = 16 };

struct torture {
	struct loop *loop;
	struct storage *storage;
	struct child_set *children;
	struct log *log;
	struct queue *queue;
	struct inventory inventory;
	struct gpu gpus[GPUS_MAX];
	struct snapshot snapshot;
	struct policy *policy;
	int listener;
};

struct client {
	struct torture *torture;
	int fd;
	struct loop_fd *watch;
	bool busy; /* waits for the answer to its request */
};

int __real_jobdir_lock(int job_fd, struct err *err);
int __wrap_jobdir_lock(int job_fd, struct err *err);

int __wrap_jobdir_lock(int job_fd, struct err *err)
{
	if (!getenv("SLUICE_TORTURE_NO_LOCK"))
		return __real_jobdir_lock(job_fd, err);
	return openat(job_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void answer(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void answer(struct client *client, const char *format, ...)
{
	char text[REQUEST_MAX];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	client->busy = false;
	(void)send(client->fd, text, (size_t)length, MSG_NOSIGNAL); /* it may be gone */
}

static void on_submitted(int result, uint64_t id, bool known, const char *reason,
			 const struct err *err, void *context)
{
	if (result == 0)
		answer(context, "ok %" PRIu64, id);
	else
		answer(context, "error %d %s", -result, err->text);
}

static void do_submit(struct client *client, char *wants, char **words, size_t count)
{
	struct spec spec;
	uint64_t gpus = 0;
	spec_init(&spec);
	for (char *at = wants; (at = strchr(at, '+')); at++)
		*at = '\n';
	struct err err = {.code = 0};
	if (store_before_wants(wants, strlen(wants), &spec.wants, &err) < 0) {
		answer(client, "error %d %s", EINVAL, err.text);
		return;
	}
	(void)snprintf(spec.name, sizeof(spec.name), "storm");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");
	spec.uid = geteuid();
	spec.gid = getegid();
	spec.grace_ns = 300000000;
	(void)parse_u64(words[2], 0, GPUS_MAX, &gpus);
	spec.gpus = (uint32_t)gpus;
	if (strcmp(words[3], "1") == 0)
		spec.share_numerator = 1, spec.share_denominator = 1000; /* one slot */
	for (size_t i = 4; i < count; i++)
		(void)spec_add_argument(&spec, words[i], NULL);
	(void)spec_add_variable(&spec, "PATH=/usr/bin:/bin", NULL);
	const struct queue_submit submit = {
	    .key = words[1], .spec = &spec, .done = on_submitted, .context = client};
	queue_submit(client->torture->queue, &submit);
	spec_done(&spec);
}

static void on_cancelled(int result, enum job_state state, bool was_final, const struct err *err,
			 void *context)
{
	if (result == 0)
		answer(context, "ok");
	else
		answer(context, "error %d %s", -result, err->text);
}

static void on_job(const struct job *job, const struct queue_attempt *attempt, void *context)
{
	answer(context, "%s %s %d %u", job_state_to_string(job->state),
	       job->reason ? job_reason_to_string(job->reason) : "-",
	       job->has_exit ? job->exit_code : -1, job->attempt);
}

static void on_asked(int result, const struct err *err, void *context)
{
	if (result < 0)
		answer(context, "error %d %s", -result, err->text);
}

static void on_changed(int result, size_t changed, const struct err *err, void *context)
{
	on_cancelled(result, JOB_PENDING, false, err, context);
}

static void on_drained(int result, const struct err *err, void *context)
{
	on_cancelled(result, JOB_PENDING, false, err, context);
}

/* Whether it was one of the requests that change what waits. */
static bool do_change(struct client *client, const char *what, uint64_t id, const char *priority)
{
	struct queue *queue = client->torture->queue;
	struct queue_edit edit = {.hold = QUEUE_EDIT_NONE};
	if (strcmp(what, "drain") == 0)
		queue_drain(queue, id != 0, on_drained, client);
	else if (strcmp(what, "again") == 0)
		queue_retry(queue, getuid(), id, false, on_changed, client);
	else if (strcmp(what, "hold") == 0)
		edit.hold = QUEUE_EDIT_HOLD;
	else if (strcmp(what, "release") == 0)
		edit.hold = QUEUE_EDIT_RELEASE;
	else if (strcmp(what, "set") == 0 && priority) {
		uint64_t value = 0; /* those below zero are no other case */
		edit.has_priority = parse_u64(priority, 0, WANTS_PRIORITY_MAX, &value) == 0;
		edit.priority = (int32_t)value;
	} else
		return false;
	if (edit.hold != QUEUE_EDIT_NONE || edit.has_priority)
		queue_edit(queue, getuid(), id, false, &edit, "storm", on_changed, client);
	return true;
}

static void do_request(struct client *client, char *text)
{
	struct torture *torture = client->torture;
	char *words[WORDS_MAX];
	size_t count = 0;
	for (char *at = text; at && count < WORDS_MAX;) {
		words[count++] = at;
		at = strchr(at, ' ');
		if (at)
			*at++ = '\0';
	}
	uint64_t id = 0;
	if (count > 1)
		(void)parse_u64(words[1], 0, UINT64_MAX, &id);
	client->busy = true;
	if (strcmp(words[0], "submit") == 0 && count > 4)
		do_submit(client, (char[]){""}, words, count);
	else if (strcmp(words[0], "wanting") == 0 && count > 5)
		do_submit(client, words[1], words + 1, count - 1);
	else if (do_change(client, words[0], id, count > 2 ? words[2] : NULL))
		return;
	else if (strcmp(words[0], "cancel") == 0 && id > 0)
		queue_cancel(torture->queue, id, 0, false, 0, "storm", on_cancelled, client);
	else if (strcmp(words[0], "state") == 0 && id > 0)
		queue_query(torture->queue,
			    &(const struct queue_query){
				.id = id, .each = on_job, .done = on_asked, .context = client});
	else if (strcmp(words[0], "left") == 0) {
		size_t left = 0;
		for (const struct job *job = queue_first(torture->queue); job;
		     job = queue_next(torture->queue, job))
			left++;
		answer(client, "%zu", left);
	} else
		answer(client, "error %d what is '%s'?", EINVAL, words[0]);
}

static void on_request(int fd, unsigned events, void *context)
{
	struct client *client = context;
	struct queue *queue = client->torture->queue;
	char text[REQUEST_MAX];
	ssize_t length = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
	if (length < 0 && errno == EAGAIN)
		return;
	if (length > 0 && !client->busy) {
		text[length] = '\0';
		do_request(client, text);
		return;
	}
	queue_submit_forget(queue, client);
	queue_query_forget(queue, client);
	queue_cancel_forget(queue, client);
	queue_change_forget(queue, client);
	client->watch = loop_fd_free(client->watch);
	(void)close(client->fd);
	free(client);
}

static void on_client(int fd, unsigned events, void *context)
{
	struct torture *torture = context;
	struct client *client = calloc(1, sizeof(*client));
	if (!client)
		return;
	client->torture = torture;
	client->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	client->watch = client->fd < 0 ? NULL
				       : loop_fd_new(torture->loop, client->fd, LOOP_READ,
						     on_request, client, NULL);
	if (!client->watch)
		free(client);
}

static int make_machine(struct torture *torture, uint32_t gpus, uint32_t slots, struct err *err)
{
	torture->inventory.gpu_count = gpus;
	torture->inventory.gpus = torture->gpus;
	torture->inventory.simulated = true;
	torture->snapshot.gpu_count = gpus;
	torture->snapshot.simulated = torture->snapshot.driver_ok = 1;
	for (uint32_t i = 0; i < gpus; i++) {
		torture->gpus[i].index = i;
		torture->gpus[i].mig_current = GPU_MIG_DISABLED;
		(void)snprintf(torture->gpus[i].uuid, GPU_UUID_MAX, "GPU-51ce51ce-%08x", i);
		(void)snprintf(torture->snapshot.gpu[i].uuid, SNAPSHOT_TEXT_MAX, "%s",
			       torture->gpus[i].uuid);
	}
	char text[256];
	(void)snprintf(text, sizeof(text),
		       "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, "
		       "replicas: %u}]}}\n",
		       slots);
	struct config *config = NULL;
	const struct policy_surroundings surroundings = {.has_kubelet = false};
	int rc = config_parse(slots > 1 ? text : "version: v1\n",
			      strlen(slots > 1 ? text : "version: v1\n"), "torture", NULL, false,
			      &config, err);
	if (rc == 0)
		rc = policy_make(&torture->inventory, config, &surroundings, &torture->policy, err);
	(void)config_free(config);
	return rc;
}

static int listen_at(const char *state, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/torture.sock", state);
	(void)unlink(address.sun_path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, 128) < 0)
		return err_set(err, -errno, "'%s': %s", address.sun_path, err_describe(errno));
	return fd;
}

static int run(struct torture *torture, char **argv, struct err *err)
{
	uint64_t gpus, slots;
	char sim[4096];
	if (parse_u64(argv[3], 0, GPUS_MAX, &gpus) < 0 || parse_u64(argv[4], 1, 64, &slots) < 0)
		return err_set(err, -EINVAL, "GPUS and SLOTS are numbers");
	(void)snprintf(sim, sizeof(sim), "%s/machine", argv[1]);
	torture->log = log_new(
	    &(struct log_options){.format = LOG_FORMAT_TEXT, .fd = 2, .program = "sluice-torture"},
	    err);
	torture->loop = loop_new(LOOP_REAL, err);
	torture->storage = torture->loop ? storage_new(torture->loop, 256, err) : NULL;
	torture->children =
	    torture->loop ? child_set_new(torture->loop, CHILD_WATCH_AUTO, err) : NULL;
	if (!torture->log || !torture->storage || !torture->children)
		return err->code;
	const struct queue_options options = {
	    .loop = torture->loop,
	    .storage = torture->storage,
	    .children = torture->children,
	    .log = torture->log,
	    .state_dir = argv[1],
	    .runtime_dir = argv[1],
	    .sim_state = sim,
	    .supervisor = argv[2],
	};
	int rc = make_machine(torture, (uint32_t)gpus, (uint32_t)slots, err);
	if (rc == 0)
		rc = queue_open(&options, &torture->queue, err);
	if (rc == 0)
		rc = torture->listener = listen_at(argv[1], err);
	if (rc < 0 ||
	    !loop_fd_new(torture->loop, torture->listener, LOOP_READ, on_client, torture, err))
		return rc;
	queue_set_machine(torture->queue, &torture->inventory, &torture->snapshot, torture->policy,
			  NULL);
	return loop_run(torture->loop, err);
}

/* It has no end of its own: it is there to be killed. */
int main(int argc, char **argv)
{
	static struct torture torture; /* large */
	struct err err = {.code = 0};
	if (argc != 5)
		return 64;
	if (run(&torture, argv, &err) < 0)
		(void)fprintf(stderr, "sluice-torture: %s\n", err.text);
	return 1;
}

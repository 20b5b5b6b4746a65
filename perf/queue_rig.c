/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/queue_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "perf/gate.h"
#include "wire/client.h"

enum {
	RIG_TRIES = 60000, /* of half a millisecond */
	RIG_TRY_US = 500,
	RIG_RUNNING_MAX = 16,
};

#define RIG_DEADLINE_NS UINT64_C(30000000000)

static struct rig *rig_current; /* to be taken away at exit */

static const struct wire_method rig_method_cancel = {
    .path = "/sluice.v1.Queue/Cancel",
    .request = &sluice__v1__cancel_request__descriptor,
    .reply = &sluice__v1__cancel_reply__descriptor,
};
static const struct wire_method rig_method_get = {
    .path = "/sluice.v1.Queue/Get",
    .request = &sluice__v1__job_request__descriptor,
    .reply = &sluice__v1__job__descriptor,
};
static const struct wire_method rig_method_list = {
    .path = "/sluice.v1.Queue/List",
    .request = &sluice__v1__list_request__descriptor,
    .reply = &sluice__v1__list_reply__descriptor,
    .server_streams = true,
};
static const struct wire_method rig_method_status = {
    .path = "/sluice.v1.Node/Status",
    .request = &sluice__v1__status_request__descriptor,
    .reply = &sluice__v1__status_reply__descriptor,
};
const struct wire_method rig_method_submit = {
    .path = "/sluice.v1.Queue/Submit",
    .request = &sluice__v1__submit_request__descriptor,
    .reply = &sluice__v1__submit_reply__descriptor,
};

void rig_fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)fprintf(stderr, "%s: ", program_invocation_short_name);
	(void)vfprintf(stderr, format, arguments);
	(void)fputc('\n', stderr);
	va_end(arguments);
	exit(1);
}

/* --- processes -------------------------------------------------------------------------------- */

/* Runs `sluice` with these arguments, which end in NULL; its output goes to `out_fd`, or nowhere.
 */
static pid_t rig_spawn(const char *const *arguments, int out_fd)
{
	const char *argv[RIG_ARGUMENTS_MAX] = {"sluice"};
	for (size_t i = 0; arguments[i]; i++)
		argv[i + 1] = arguments[i];

	pid_t pid = fork();
	rig_must(pid >= 0, "cannot fork: %s", strerror(errno));
	if (pid > 0)
		return pid;

	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out_fd >= 0 ? out_fd : null, 1) < 0)
		_exit(127);
	if (strcmp(arguments[0], "agent") == 0 && dup2(1, 2) < 0)
		_exit(127);
	(void)execv(BENCH_SLUICE, (char *const *)argv);
	_exit(127);
}

static int rig_wait_for(pid_t pid)
{
	int status = 0;
	while (waitpid(pid, &status, 0) < 0)
		rig_must(errno == EINTR, "cannot wait: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- the machine ------------------------------------------------------------------------------ */

static void rig_remove(const char *directory)
{
	pid_t pid = fork();
	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", "--", directory, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		(void)rig_wait_for(pid);
}

static void rig_take_away(void)
{
	struct rig *rig = rig_current;
	if (!rig)
		return;

	rig_current = NULL;
	if (rig->agent > 0) {
		(void)kill(rig->agent, SIGTERM);
		(void)rig_wait_for(rig->agent);
	}

	if (rig->has_machine) {
		char state[RIG_PATH_MAX + 8];
		(void)snprintf(state, sizeof(state), "%s/machine", rig->directory);
		const char *const arguments[] = {"sim", "stop", "--state", state, NULL};
		(void)rig_wait_for(rig_spawn(arguments, -1));
	}

	rig_remove(rig->directory);
}

static void rig_on_signal(int signo)
{
	(void)signo;
	exit(130); /* takes the machine away; nothing better can be done in a benchmark */
}

/* Takes the variables of `sluice sim env` over: lines "export NAME='VALUE' # simulated". */
static void rig_take_variables(const char *state)
{
	int ends[2];
	rig_must(pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe");
	const char *const arguments[] = {"sim", "env", "--state", state, NULL};

	pid_t pid = rig_spawn(arguments, ends[1]);

	(void)close(ends[1]);
	FILE *lines = fdopen(ends[0], "r");
	rig_must(lines, "out of memory");

	char line[2 * RIG_PATH_MAX];

	while (fgets(line, sizeof(line), lines)) {
		char *equals = strchr(line, '='), *end = strrchr(line, '\'');
		if (strncmp(line, "export ", 7) != 0 || !equals || !end || end <= equals + 1)
			continue;
		*equals = *end = '\0';
		rig_must(setenv(line + 7, equals + 2, 1) == 0, "out of memory");
	}

	(void)fclose(lines);
	rig_must(rig_wait_for(pid) == 0, "'sluice sim env' failed");
}

void rig_open_machine(struct rig *rig, const char *profile, const char *mig)
{
	*rig = (struct rig){.agent = 0};
	const char *base = getenv("TMPDIR");
	(void)snprintf(rig->directory, sizeof(rig->directory), "%s/sluice-bench-XXXXXX",
		       base ? base : "/tmp");
	rig_must(mkdtemp(rig->directory), "cannot make a directory in %s", base ? base : "/tmp");
	rig_current = rig;

	static bool is_known;
	rig_must(is_known || atexit(rig_take_away) == 0, "out of memory");
	is_known = true;
	(void)signal(SIGINT, rig_on_signal);
	(void)signal(SIGTERM, rig_on_signal);
	(void)signal(SIGPIPE, SIG_IGN);

	char root[RIG_PATH_MAX + 8], state[RIG_PATH_MAX + 8];
	(void)snprintf(root, sizeof(root), "%s/root", rig->directory);
	(void)snprintf(state, sizeof(state), "%s/machine", rig->directory);
	rig_must(setenv("SLUICE_PROFILES", BENCH_PROFILES, 0) == 0 &&
		     setenv("SLUICE_SIM_LIBDIR", BENCH_LIBDIR, 0) == 0 &&
		     setenv("SLUICE_WEB_ADDRESS", "off", 0) == 0, /* others run beside us */
		 "out of memory");
	const char *const arguments[] = {
	    "sim", "start",   "--alongside", "--profile",	   profile, "--root",
	    root,  "--state", state,	     mig ? "--mig" : NULL, mig,	    NULL};
	rig_must(rig_wait_for(rig_spawn(arguments, -1)) == 0, "'sluice sim start' failed");
	rig->has_machine = true;
	rig_take_variables(state);

	const char *runtime = getenv("SLUICE_RUNTIME_DIR");
	rig_must(runtime, "'sluice sim env' did not say where sockets lie");
	(void)snprintf(rig->socket, sizeof(rig->socket), "%s/agent.sock", runtime);

	struct err err;
	rig->loop = loop_new(LOOP_REAL, &err);
	rig_must(rig->loop, "%s", err.text);
}

void rig_open(struct rig *rig)
{
	rig_open_machine(rig, "dgx-a100", NULL);
}

void rig_close(struct rig *rig)
{
	rig->client = wire_client_free(rig->client);
	rig_take_away();
	rig->loop = loop_free(rig->loop);
}

void rig_configure(struct rig *rig, const char *text)
{
	char path[RIG_PATH_MAX + 16];
	struct err err = {.code = 0};
	(void)snprintf(path, sizeof(path), "%s/config.yaml", rig->directory);
	rig_must(file_write_atomic(path, text, strlen(text), 0600, &err) == 0, "%s", err.text);
	rig_must(setenv("SLUICE_CONFIG", path, 1) == 0, "out of memory");
}

void rig_use_state(struct rig *rig, const char *name)
{
	(void)snprintf(rig->state, sizeof(rig->state), "%.400s/%.64s", rig->directory, name);
	rig_must(mkdir(rig->state, 0700) == 0 || errno == EEXIST, "cannot make %s", rig->state);
	rig_must(setenv("SLUICE_STATE_DIR", rig->state, 1) == 0, "out of memory");
}

/* --- asking the agent ------------------------------------------------------------------------- */

/* The reply is owned: protobuf_c_message_free_unpacked(). */
static int rig_ask(struct rig *rig, const struct wire_method *method,
		   const ProtobufCMessage *request, ProtobufCMessage **out_reply, struct err *err)
{
	struct wire_result result;
	return wire_client_ask(rig->client, rig->loop, method, request, RIG_DEADLINE_NS, out_reply,
			       &result, err);
}

static ProtobufCMessage *rig_must_ask(struct rig *rig, const struct wire_method *method,
				      const ProtobufCMessage *request)
{
	ProtobufCMessage *reply = NULL;
	struct err err = {.code = 0};
	rig_must(rig_ask(rig, method, request, &reply, &err) == 0, "%s: %s", method->path,
		 err.text);
	return reply;
}

static Sluice__V1__StatusReply *rig_status(struct rig *rig)
{
	Sluice__V1__StatusRequest request = SLUICE__V1__STATUS_REQUEST__INIT;
	return (Sluice__V1__StatusReply *)rig_must_ask(rig, &rig_method_status, &request.base);
}

uint64_t rig_pending(struct rig *rig)
{
	Sluice__V1__StatusReply *status = rig_status(rig);
	uint64_t count = status->pending;
	protobuf_c_message_free_unpacked(&status->base, NULL);
	return count;
}

uint64_t rig_running(struct rig *rig)
{
	Sluice__V1__StatusReply *status = rig_status(rig);
	uint64_t count = status->running;
	protobuf_c_message_free_unpacked(&status->base, NULL);
	return count;
}

uint64_t rig_submit(struct rig *rig, const struct rig_request *request)
{
	Sluice__V1__SubmitReply *reply =
	    (Sluice__V1__SubmitReply *)rig_must_ask(rig, &rig_method_submit, &request->submit.base);
	uint64_t id = reply->id;
	protobuf_c_message_free_unpacked(&reply->base, NULL);
	return id;
}

void rig_cancel(struct rig *rig, uint64_t id, uint64_t grace_ns)
{
	Sluice__V1__CancelRequest request = SLUICE__V1__CANCEL_REQUEST__INIT;
	request.id = id;
	request.has_grace = true;
	request.grace_ns = grace_ns;
	protobuf_c_message_free_unpacked(rig_must_ask(rig, &rig_method_cancel, &request.base),
					 NULL);
}

void rig_wait(struct rig *rig, uint64_t id, Sluice__V1__JobState state)
{
	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
	request.id = id;
	for (int i = 0; i < RIG_TRIES; i++) {
		Sluice__V1__Job *job =
		    (Sluice__V1__Job *)rig_must_ask(rig, &rig_method_get, &request.base);
		Sluice__V1__JobState found = job->state;

		protobuf_c_message_free_unpacked(&job->base, NULL);
		if (found == state)
			return;

		(void)usleep(RIG_TRY_US);
	}

	rig_fail("job %" PRIu64 " did not come into state %d", id, (int)state);
}

/* --- the agent -------------------------------------------------------------------------------- */

uint64_t rig_launch_agent(struct rig *rig)
{
	char log[RIG_PATH_MAX + 16];
	(void)snprintf(log, sizeof(log), "%s/agent.log", rig->directory);

	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	rig_must(fd >= 0, "cannot write %s", log);
	const char *const arguments[] = {"agent", NULL};

	uint64_t began = gate_now_ns();

	rig->agent = rig_spawn(arguments, fd);
	(void)close(fd);
	return began;
}

uint64_t rig_start_agent(struct rig *rig)
{
	uint64_t began = rig_launch_agent(rig);
	struct err err = {.code = 0};

	for (int i = 0; i < RIG_TRIES; i++) {
		rig->client = wire_client_new(rig->loop, rig->socket, NULL, &err);
		Sluice__V1__StatusRequest request = SLUICE__V1__STATUS_REQUEST__INIT;
		ProtobufCMessage *reply = NULL;

		if (rig->client &&
		    rig_ask(rig, &rig_method_status, &request.base, &reply, &err) == 0) {
			uint64_t took = gate_now_ns() - began;
			protobuf_c_message_free_unpacked(reply, NULL);
			return took;
		}

		rig->client = wire_client_free(rig->client);
		int status;
		if (waitpid(rig->agent, &status, WNOHANG) == rig->agent) {
			rig->agent = 0;
			rig_fail("the agent has ended with %d", WEXITSTATUS(status));
		}

		(void)usleep(RIG_TRY_US);
	}

	rig_fail("the agent does not answer at %s: %s", rig->socket, err.text);
}

static void rig_end_agent(struct rig *rig, int signo)
{
	rig->client = wire_client_free(rig->client);
	if (rig->agent > 0) {
		(void)kill(rig->agent, signo);
		(void)rig_wait_for(rig->agent);
	}
	rig->agent = 0;
}

void rig_kill_agent(struct rig *rig)
{
	rig_end_agent(rig, SIGKILL);
}

void rig_terminate_agent(struct rig *rig)
{
	rig_end_agent(rig, SIGTERM);
}

/* Jobs that run, as the agent knows them. */
struct rig_running {
	uint64_t ids[RIG_RUNNING_MAX];
	size_t count;
	bool ended;
};

static void rig_on_page(const ProtobufCMessage *reply, void *context)
{
	struct rig_running *running = context;
	const Sluice__V1__ListReply *page = (const Sluice__V1__ListReply *)reply;
	for (size_t i = 0; i < page->n_jobs; i++)
		if (page->jobs[i]->state == SLUICE__V1__JOB_STATE__RUNNING &&
		    running->count < RIG_RUNNING_MAX)
			running->ids[running->count++] = page->jobs[i]->id;
}

static void rig_on_end(const struct wire_result *result, void *context)
{
	struct rig_running *running = context;
	rig_must(result->status == WIRE_OK, "listing jobs: %s", result->message);
	running->ended = true;
}

/* Pids of its command and of its supervisor. */
static void rig_pids(struct rig *rig, uint64_t id, pid_t out[2])
{
	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
	request.id = id;
	request.details = true;

	Sluice__V1__Job *job = (Sluice__V1__Job *)rig_must_ask(rig, &rig_method_get, &request.base);
	rig_must(job->attempt && job->attempt->pid > 0 && job->attempt->supervisor_pid > 0,
		 "the agent does not know the processes of job %" PRIu64, id);
	out[0] = (pid_t)job->attempt->pid;
	out[1] = (pid_t)job->attempt->supervisor_pid;
	protobuf_c_message_free_unpacked(&job->base, NULL);
}

void rig_stop_agent(struct rig *rig)
{
	struct rig_running running = {.count = 0};
	const struct wire_client_callbacks callbacks = {
	    .message = rig_on_page, .end = rig_on_end, .context = &running};
	Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
	struct err err = {.code = 0};

	rig_must(wire_client_call(rig->client, &rig_method_list, &request.base, RIG_DEADLINE_NS,
				  &callbacks, &err),
		 "%s", err.text);

	while (!running.ended)
		rig_must(loop_pass(rig->loop, RIG_DEADLINE_NS, &err) == 0, "%s", err.text);

	pid_t pids[RIG_RUNNING_MAX][2];
	for (size_t i = 0; i < running.count; i++)
		rig_pids(rig, running.ids[i], pids[i]);

	rig_end_agent(rig, SIGTERM); /* before the jobs: thousands wait for what they have */

	for (size_t i = 0; i < running.count; i++)
		(void)kill(pids[i][0], SIGKILL);

	for (size_t i = 0; i < running.count; i++)
		for (int tries = 0; tries < RIG_TRIES && kill(pids[i][1], 0) == 0; tries++)
			(void)usleep(RIG_TRY_US);
}

/* --- requests --------------------------------------------------------------------------------- */

void rig_request_again(struct rig_request *request)
{
	static uint64_t number; /* of this run; others have other directories */
	(void)snprintf(request->key, sizeof(request->key), "%08x-0000-4000-8000-%012" PRIx64,
		       (unsigned)getpid(), ++number);
}

static ProtobufCBinaryData rig_bytes(const char *text)
{
	return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

void rig_request(struct rig_request *out, const char *const *argv, uint32_t gpus)
{
	*out = (struct rig_request){.submit = SLUICE__V1__SUBMIT_REQUEST__INIT,
				    .spec = SLUICE__V1__JOB_SPEC__INIT};
	rig_request_again(out);
	out->submit.key = out->key;
	out->submit.spec = &out->spec;
	out->spec.name = (char *)(uintptr_t) "bench";
	out->spec.argv = out->argv;

	for (; argv[out->spec.n_argv]; out->spec.n_argv++)
		out->argv[out->spec.n_argv] = rig_bytes(argv[out->spec.n_argv]);

	out->spec.environment = out->environment;
	out->spec.n_environment = RIG_ENVIRONMENT;
	for (size_t i = 0; i < RIG_ENVIRONMENT; i++) {
		(void)snprintf(out->variables[i], RIG_ENVIRONMENT_TEXT,
			       "VARIABLE_%02zu=a value of the length that values of variables have",
			       i);
		out->environment[i] = rig_bytes(out->variables[i]);
	}

	out->spec.directory = rig_bytes("/");
	out->spec.umask = 022;
	out->spec.gpus = gpus;
	out->spec.grace_ns = UINT64_C(1000000000);
}

int rig_stamp(const char *path)
{
	uint64_t now = gate_now_ns();
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, &now, sizeof(now)) == sizeof(now) ? 0 : 1;
}

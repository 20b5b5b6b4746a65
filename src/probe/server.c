/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/server.h"

#include <errno.h>
#include <poll.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/resident.h"
#include "hardware/callmark.h"
#include "hardware/pci.h"
#include "probe/message.h"
#include "probe/sample.h"
#include "probe/watch.h"

enum probe_server_limits {
	EVENT_WAIT_MS = 1000,
	SEND_TIMEOUT_S = 10, /* a client that does not read for so long has gone */
	EVENT_BACKOFF_MS = 100,
};
#define MEDIUM_NS UINT64_C(10000000000)
#define SLOW_NS	  UINT64_C(60000000000)
#define START_NS  UINT64_C(2000000000) /* then what only the start has needed is given back */

struct probe_server {
	const struct server_options *options;
	struct call_marks *marks;
	struct nvml *nvml;
	struct resident resident;

	/* the sampler's */
	struct inventory inventory;
	nvml_device handles[GPU_MAX];
	struct snapshot *snapshot;
	struct sampler sampler;
	struct sample_memory memory[GPU_MAX];
	uint64_t rounds;
	uint64_t medium_due_ns, slow_due_ns;
	struct buf last_inventory; /* as it was sent: only a different one is sent again */
	struct pci_address bound[GPU_MAX];
	uint32_t bound_count;

	pthread_mutex_t send_lock;

	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t wake;
	bool rescan;
	nvml_event_set event_set;
	uint64_t event_generation; /* the sampler made a new set */
	uint64_t event_made_ns;	   /* when it began to: events since then are in the old one too */
	struct {		   /* whom a handle belongs to */
		nvml_device handle;
		char uuid[GPU_UUID_MAX], bus[PCI_TEXT_MAX];
		struct pci_address pci;
	} known[GPU_MAX];
	uint32_t known_count;
	struct kmsg_recent recent;
};

static void finish(int status) __attribute__((noreturn));

static void finish(int status)
{
	/* Not exit(): handlers of the driver's library may wait for a thread that hangs in it. */
	_exit(status);
}

/* ---- sending ---- */

static void send_bytes(struct probe_server *server, const void *bytes, size_t length)
{
	const char *at = bytes;

	pthread_mutex_lock(&server->send_lock);

	while (length > 0) {
		ssize_t sent = send(server->options->fd, at, length, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			finish(0); /* the client has gone */
		at += sent;
		length -= (size_t)sent;
	}

	pthread_mutex_unlock(&server->send_lock);
}

static void send_message(struct probe_server *server, enum message_kind kind, const void *body,
			 size_t length)
{
	_cleanup_buf_ struct buf frame;
	buf_init(&frame, MESSAGE_BODY_MAX + sizeof(struct message_head));
	if (message_add(&frame, kind, body, length) < 0)
		finish(1);
	send_bytes(server, frame.data, frame.length);
}

static void send_notice(struct probe_server *server, enum message_kind kind, int code,
			const char *text)
{
	struct message_notice notice = {.code = code};
	(void)snprintf(notice.text, sizeof(notice.text), "%s", text);
	send_message(server, kind, &notice, sizeof(notice));
}

static void ask_rescan(struct probe_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->rescan = true;
	pthread_cond_signal(&server->wake);
	pthread_mutex_unlock(&server->lock);
}

/* ---- the sampler ---- */

/* Tells the event thread about the handles and, once, makes the event set. */
static void publish_handles(struct probe_server *server, struct nvml_caller *caller)
{
	nvml_event_set set = NULL;
	uint64_t made_ns = clock_real_ns();

	if (!server->options->once && NVML_CALL(caller, event_set_create, &set) != NVML_OK)
		set = NULL;

	for (uint32_t i = 0; set && i < server->inventory.gpu_count; i++) {
		const struct gpu *gpu = &server->inventory.gpus[i];
		uint64_t types;
		char bus[PCI_TEXT_MAX] = "";

		if (!server->handles[i] || gpu->state != GPU_STATE_OK)
			continue;
		if (gpu->has_pci)
			pci_address_to_string(&gpu->pci, bus);
		nvml_caller_target(caller, gpu->index, bus);

		if (NVML_CALL(caller, event_types, server->handles[i], &types) == NVML_OK)
			(void)NVML_CALL(caller, event_register, server->handles[i],
					types & NVML_EVENT_WANTED, set);
	}

	nvml_caller_target(caller, CALL_MARK_NO_GPU, "");

	pthread_mutex_lock(&server->lock);
	server->known_count = 0;
	for (uint32_t i = 0; i < server->inventory.gpu_count; i++) {
		const struct gpu *gpu = &server->inventory.gpus[i];
		uint32_t k = server->known_count++;

		server->known[k].handle = server->handles[i];
		server->known[k].pci = gpu->pci;
		memcpy(server->known[k].uuid, gpu->uuid, sizeof(gpu->uuid));
		server->known[k].bus[0] = '\0';

		if (gpu->has_pci)
			pci_address_to_string(&gpu->pci, server->known[k].bus);
	}

	/* The event thread frees the set it has when it takes over the new one. */
	server->event_set = set;
	server->event_made_ns = made_ns;
	server->event_generation++;
	pthread_mutex_unlock(&server->lock);
}

/* Where the library must be initialised anew, the process is: the client starts another. */
static void restart(struct probe_server *server, const char *why)
{
	send_notice(server, MESSAGE_RESTART, 0, why);
	finish(0);
}

static void check_bound(struct probe_server *server)
{
	struct pci_address now[GPU_MAX];
	uint32_t count = pci_list_nvidia(server->options->root, now, GPU_MAX);
	bool same = count == server->bound_count;

	for (uint32_t i = 0; same && i < count; i++)
		same = pci_address_compare(&now[i], &server->bound[i]) == 0;

	if (!same)
		restart(server, "GPUs came or went");

	char module[GPU_VERSION_MAX];
	if (pci_read_nvidia_version(server->options->root, module) == 0 &&
	    server->nvml->driver_version[0] && strcmp(module, server->nvml->driver_version) != 0)
		restart(server, "the driver was changed");
}

/* True when the inventory is another one than before. */
static bool read_inventory(struct probe_server *server, struct nvml_caller *caller)
{
	struct inventory_request request = {.root = server->options->root,
					    .skip = server->options->skip,
					    .skip_count = server->options->skip_count};
	struct err err = {.code = 0};
	int rc = inventory_read(caller, &request, &server->inventory, server->handles, &err);
	if (rc < 0) {
		send_notice(server, MESSAGE_DRIVER_DOWN, rc, err.text);
		finish(0);
	}

	struct buf frame;
	buf_init(&frame, MESSAGE_BODY_MAX + sizeof(struct message_head));
	if (message_add_inventory(&frame, &server->inventory) < 0)
		finish(1);

	if (frame.length == server->last_inventory.length &&
	    memcmp(frame.data, server->last_inventory.data, frame.length) == 0) {
		buf_done(&frame);
		return false;
	}

	send_bytes(server, frame.data, frame.length);
	buf_done(&server->last_inventory);
	server->last_inventory = frame;

	return true;
}

/* Puts the snapshot's GPUs in the inventory's order; readings of a GPU that stays are kept. */
static int align_snapshot(struct probe_server *server, struct nvml_caller *caller)
{
	struct snapshot *fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;

	memcpy(fresh, server->snapshot, snapshot_length(0));
	fresh->gpu_count = server->inventory.gpu_count;

	struct sample_memory *memory = calloc(GPU_MAX, sizeof(*memory));
	if (!memory) {
		free(fresh);
		return -ENOMEM;
	}

	for (uint32_t i = 0; i < fresh->gpu_count; i++) {
		const struct snapshot_gpu *old =
		    snapshot_find(server->snapshot, server->inventory.gpus[i].uuid);
		if (old) {
			ptrdiff_t place = old - server->snapshot->gpu;
			fresh->gpu[i] = *old;
			memory[i] = server->memory[place];
			memory[i].mig_count = 0; /* instances may be others now */
			server->memory[place] = (struct sample_memory){.uses = 0};
		}

		sample_identify(&server->inventory, i, &fresh->gpu[i]);
	}

	for (uint32_t i = 0; i < GPU_MAX; i++)
		sample_forget(caller, &server->memory[i]);

	memcpy(server->memory, memory, sizeof(server->memory));
	free(memory);
	free(server->snapshot);
	server->snapshot = fresh;

	return 0;
}

/* What this round reads. */
static void begin_round(struct probe_server *server, struct nvml_caller *caller, uint64_t now_ns,
			int64_t unix_ns)
{
	struct sampler *sampler = &server->sampler;
	struct snapshot *snapshot = server->snapshot;

	sampler->caller = caller;
	sampler->snapshot = snapshot;
	sampler->now_ns = now_ns;
	sampler->unix_ns = unix_ns;
	sampler->due[SNAPSHOT_FAST] = true;
	sampler->due[SNAPSHOT_MEDIUM] = now_ns >= server->medium_due_ns;
	sampler->due[SNAPSHOT_SLOW] = now_ns >= server->slow_due_ns;
	if (sampler->due[SNAPSHOT_MEDIUM])
		server->medium_due_ns = now_ns + MEDIUM_NS;

	if (sampler->due[SNAPSHOT_SLOW])
		server->slow_due_ns = now_ns + SLOW_NS;

	for (uint32_t i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
		if (sampler->due[i])
			snapshot->round_ns[i] = 0;
	}

	sampler->pcie_turn = SNAPSHOT_U32_ABSENT;
	if (!server->options->once && snapshot->gpu_count > 0)
		sampler->pcie_turn = (uint32_t)(server->rounds++ % snapshot->gpu_count);
}

static void take_snapshot(struct probe_server *server, struct nvml_caller *caller, uint64_t now_ns)
{
	int64_t unix_ns = clock_unix_ns();
	struct snapshot *snapshot = server->snapshot;
	bool changed = false;

	begin_round(server, caller, now_ns, unix_ns);

	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		struct snapshot_gpu *gpu = &snapshot->gpu[i];
		if (!server->handles[i] || gpu->state != GPU_STATE_OK) {
			snapshot_drop_all(gpu);
			continue;
		}

		sample_read(&server->sampler, i, server->handles[i], &server->memory[i]);
		changed |= gpu->state != GPU_STATE_OK;
	}

	nvml_caller_target(caller, CALL_MARK_NO_GPU, "");

	snapshot->sequence++;
	snapshot->taken_ns = now_ns;
	snapshot->taken_unix_ns = unix_ns;
	send_message(server, MESSAGE_SNAPSHOT, snapshot, snapshot_length(snapshot->gpu_count));

	if (changed)
		ask_rescan(server);
}

static void head_snapshot(struct probe_server *server)
{
	struct snapshot *snapshot = server->snapshot;
	snapshot->magic = SNAPSHOT_MAGIC;
	snapshot->version = SNAPSHOT_VERSION;
	snapshot->size = sizeof(*snapshot);
	snapshot->sequence = server->options->snapshot_sequence;
	snapshot->driver_ok = 1;
	snapshot->cuda_version = server->inventory.cuda_version;
	snapshot->simulated = server->inventory.simulated;
	(void)snprintf(snapshot->driver_version, sizeof(snapshot->driver_version), "%s",
		       server->inventory.driver_version);
	(void)snprintf(snapshot->nvml_version, sizeof(snapshot->nvml_version), "%s",
		       server->inventory.nvml_version);
}

/* Sleeps until the next sample is due or somebody asks for a new inventory; true if so. */
static bool sleep_until(struct probe_server *server, uint64_t due_ns)
{
	struct timespec due = {.tv_sec = (time_t)(due_ns / UINT64_C(1000000000)),
			       .tv_nsec = (long)(due_ns % UINT64_C(1000000000))};

	pthread_mutex_lock(&server->lock);
	int rc = 0;
	while (!server->rescan && rc == 0)
		rc = pthread_cond_timedwait(&server->wake, &server->lock, &due);

	bool rescan = server->rescan;
	server->rescan = false;
	pthread_mutex_unlock(&server->lock);

	return rescan;
}

static void *sampler(void *argument)
{
	struct probe_server *server = argument;
	struct nvml_caller caller = {.mark = &server->marks->slot[0], .gpu = CALL_MARK_NO_GPU};
	struct err err = {.code = 0};
	struct nvml *nvml = NULL;

	/* Before the library counts them: what comes in between is then seen as a change. */
	server->bound_count = pci_list_nvidia(server->options->root, server->bound, GPU_MAX);
	int rc = nvml_open(server->options->root, caller.mark, &nvml, &err);
	if (rc < 0) {
		send_notice(server, MESSAGE_DRIVER_DOWN, rc, err.text);
		finish(0);
	}

	pthread_mutex_lock(&server->lock); /* the event thread may be looking already */
	server->nvml = nvml;
	pthread_mutex_unlock(&server->lock);
	caller.nvml = nvml;
	(void)read_inventory(server, &caller); /* the first one is always new */
	head_snapshot(server);

	if (align_snapshot(server, &caller) < 0)
		finish(1);
	publish_handles(server, &caller);

	uint64_t due_ns = clock_real_ns();
	uint64_t inventory_due_ns = due_ns + MEDIUM_NS, started_ns = due_ns + START_NS;

	for (;;) {
		uint64_t now_ns = clock_real_ns();
		take_snapshot(server, &caller, now_ns);

		if (server->options->once) {
			send_message(server, MESSAGE_DONE, NULL, 0);
			finish(0);
		}

		due_ns += server->options->period_ns;
		if (due_ns < now_ns) /* a slow round: no bunching up afterwards */
			due_ns = now_ns + server->options->period_ns;

		bool rescan = sleep_until(server, due_ns);

		now_ns = clock_real_ns();
		if (now_ns >= started_ns) {
			resident_give_back(&server->resident);
			started_ns = UINT64_MAX;
		}

		if (!rescan && now_ns < inventory_due_ns)
			continue;

		inventory_due_ns = now_ns + MEDIUM_NS;
		check_bound(server);

		if (read_inventory(server, &caller)) {
			if (align_snapshot(server, &caller) < 0)
				finish(1);
			publish_handles(server, &caller);
		}

		resident_give_back(&server->resident);
	}

	return NULL;
}

/* ---- events ---- */

static bool is_twin(struct probe_server *server, const struct pci_address *pci, uint32_t xid,
		    enum probe_source source)
{
	pthread_mutex_lock(&server->lock);
	bool twin = kmsg_is_duplicate(&server->recent, pci, xid, source, clock_real_ns());
	pthread_mutex_unlock(&server->lock);
	return twin;
}

static void report_nvml_event(struct probe_server *server, const struct nvml_event_data *data)
{
	struct message_event message = {.kmsg_sequence = UINT64_MAX};
	struct probe_event *event = &message.event;
	struct pci_address pci = {.bus = 0};

	event->kind = data->type == NVML_EVENT_XID ? PROBE_EVENT_XID : PROBE_EVENT_NVML;
	event->source = PROBE_SOURCE_NVML;
	event->type = data->type;
	event->data = data->data;
	event->gi = data->gi;
	event->ci = data->ci;
	event->pid = event->recovery_action = SNAPSHOT_U32_ABSENT;
	event->time_ns = clock_real_ns();
	pthread_mutex_lock(&server->lock);

	for (uint32_t i = 0; i < server->known_count; i++) {
		if (server->known[i].handle != data->device)
			continue;
		memcpy(event->uuid, server->known[i].uuid, sizeof(event->uuid));
		memcpy(event->bus, server->known[i].bus, sizeof(event->bus));
		pci = server->known[i].pci;
	}

	pthread_mutex_unlock(&server->lock);
	if (event->kind == PROBE_EVENT_XID &&
	    is_twin(server, &pci, (uint32_t)data->data, PROBE_SOURCE_NVML))
		event->kind = PROBE_EVENT_XID_AGAIN;

	send_message(server, MESSAGE_EVENT, &message, sizeof(message));
	enum {
		CHANGES = NVML_EVENT_MIG_CHANGE | NVML_EVENT_UNAVAILABLE | NVML_EVENT_XID |
			  NVML_EVENT_RECOVERY_ACTION
	};
	if ((data->type & CHANGES) && event->kind != PROBE_EVENT_XID_AGAIN)
		ask_rescan(server);
}

enum { EVENT_TOLD_MAX = 32 };

/* What was reported lately: while two event sets are registered, an event is in both. */
struct event_told {
	struct nvml_event_data data[EVENT_TOLD_MAX];
	uint64_t at_ns[EVENT_TOLD_MAX]; /* 0: none */
	uint32_t next;
};

static void told_add(struct event_told *told, const struct nvml_event_data *data)
{
	uint32_t place = told->next++ % EVENT_TOLD_MAX;
	told->data[place] = *data;
	told->at_ns[place] = clock_real_ns();
}

/* Whether it was reported since then; each report explains one event. */
static bool told_take(struct event_told *told, const struct nvml_event_data *data,
		      uint64_t since_ns)
{
	for (uint32_t i = 0; i < EVENT_TOLD_MAX; i++) {
		const struct nvml_event_data *before = &told->data[i];
		if (told->at_ns[i] < since_ns || before->device != data->device ||
		    before->type != data->type || before->data != data->data ||
		    before->gi != data->gi || before->ci != data->ci)
			continue;

		told->at_ns[i] = 0;
		return true;
	}

	return false;
}

static void nap(uint32_t ms)
{
	struct timespec time = {.tv_nsec = (long)ms * 1000000};
	(void)nanosleep(&time, NULL); /* waking early does no harm */
}

/* Waits so long for an event of the set. */
static int32_t event_next(struct nvml_caller *caller, nvml_event_set set, uint32_t wait_ms,
			  struct nvml_event_data *out)
{
	*out = (struct nvml_event_data){.gi = SNAPSHOT_WHOLE_GPU, .ci = SNAPSHOT_WHOLE_GPU};
	caller->allowance_ms = wait_ms;
	int32_t rc = NVML_CALL(caller, event_wait, set, out, wait_ms);
	caller->allowance_ms = 0;
	return rc;
}

/* From one set to the next without an event lost or told twice. */
static void event_change(struct probe_server *server, struct nvml_caller *caller,
			 nvml_event_set from, nvml_event_set to, uint64_t made_ns,
			 struct event_told *told)
{
	struct nvml_event_data data;
	for (uint32_t i = 0; i < EVENT_TOLD_MAX && event_next(caller, from, 0, &data) == NVML_OK;
	     i++) {
		report_nvml_event(server, &data);
		told_add(told, &data);
	}

	(void)NVML_CALL(caller, event_set_free, from);

	for (uint32_t i = 0; to && i < EVENT_TOLD_MAX; i++) {
		if (event_next(caller, to, 0, &data) != NVML_OK)
			return;
		if (!told_take(told, &data, made_ns))
			report_nvml_event(server, &data);
	}
}

static void *event_thread(void *argument)
{
	struct probe_server *server = argument;
	struct nvml_caller caller = {.mark = &server->marks->slot[1], .gpu = CALL_MARK_NO_GPU};
	struct event_told told = {.next = 0};

	nvml_event_set set = NULL;
	uint64_t generation = 0;

	for (;;) {
		pthread_mutex_lock(&server->lock);
		bool fresh = server->event_generation != generation;

		nvml_event_set next = server->event_set;
		uint64_t made_ns = server->event_made_ns;

		generation = server->event_generation;
		caller.nvml = server->nvml;
		pthread_mutex_unlock(&server->lock);

		if (fresh && set)
			event_change(server, &caller, set, next, made_ns, &told);
		if (fresh)
			set = next;
		if (!set) {
			nap(EVENT_BACKOFF_MS);
			continue;
		}

		struct nvml_event_data data;
		int32_t rc = event_next(&caller, set, EVENT_WAIT_MS, &data);
		if (rc == NVML_OK) {
			report_nvml_event(server, &data);
			told_add(&told, &data);
		} else if (rc != NVML_TIMEOUT) {
			nap(EVENT_BACKOFF_MS); /* a lost GPU: the sampler finds out which */
		}
	}

	return NULL;
}

struct log_context {
	struct probe_server *server;
	const struct watch *watch;
	bool history;
};

static void report_log(const struct kmsg_xid *xid, void *context)
{
	const struct log_context *log = context;
	struct probe_server *server = log->server;
	struct message_event message = {.kmsg_sequence = xid->sequence};
	struct probe_event *event = &message.event;

	event->kind = PROBE_EVENT_XID;
	event->source = PROBE_SOURCE_KMSG;
	event->type = NVML_EVENT_XID;
	event->data = xid->xid;
	event->gi = xid->gi == KMSG_NONE ? SNAPSHOT_WHOLE_GPU : xid->gi;
	event->ci = SNAPSHOT_WHOLE_GPU;
	event->pid = xid->pid == KMSG_NONE ? SNAPSHOT_U32_ABSENT : xid->pid;
	event->history = log->history;
	event->severity = !xid->has_severity ? 0 : xid->fatal ? 2 : 1;
	event->recovery_action =
	    xid->recovery_action == KMSG_NONE ? SNAPSHOT_U32_ABSENT : xid->recovery_action;
	event->time_ns = watch_time_of(log->watch, xid);
	pci_address_to_string(&xid->pci, event->bus);
	(void)snprintf(event->text, sizeof(event->text), "%s", xid->text);
	pthread_mutex_lock(&server->lock);

	for (uint32_t i = 0; i < server->known_count; i++) {
		if (strcmp(server->known[i].bus, event->bus) == 0)
			memcpy(event->uuid, server->known[i].uuid, sizeof(event->uuid));
	}

	pthread_mutex_unlock(&server->lock);
	/* Sent all the same: it says how far the log was read, and perhaps more of the error. */
	if (!log->history && is_twin(server, &xid->pci, xid->xid, PROBE_SOURCE_KMSG))
		event->kind = PROBE_EVENT_XID_AGAIN;
	send_message(server, MESSAGE_EVENT, &message, sizeof(message));

	if (!log->history && event->kind == PROBE_EVENT_XID)
		ask_rescan(server);
}

/* ---- the first thread ---- */

static bool client_has_gone(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static void watch_forever(struct probe_server *server, struct watch *watch)
{
	struct log_context log = {.server = server, .watch = watch};

	for (;;) {
		struct pollfd fds[WATCH_FD_MAX + 1] = {
		    {.fd = server->options->fd, .events = POLLIN}};
		int watched[WATCH_FD_MAX];
		uint32_t count = watch_fds(watch, watched);

		for (uint32_t i = 0; i < count; i++)
			fds[i + 1] = (struct pollfd){.fd = watched[i], .events = POLLIN};

		if (poll(fds, count + 1, EVENT_WAIT_MS) < 0 && errno != EINTR)
			finish(1);
		if (fds[0].revents && client_has_gone(server->options->fd))
			finish(0);

		bool changed = watch_devices_changed(watch);

		watch_read_log(watch, report_log, &log);
		if (changed)
			ask_rescan(server);
	}
}

static void start_thread(void *(*run)(void *), struct probe_server *server)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, run, server) != 0) {
		send_notice(server, MESSAGE_DRIVER_DOWN, -ENOMEM,
			    "the probe cannot start a thread");
		finish(1);
	}
	(void)pthread_detach(thread); /* it is never joined: it may hang */
}

static void report_unreadable(struct probe_server *server, const struct err *err)
{
	struct message_event message = {.kmsg_sequence = UINT64_MAX};
	message.event.kind = PROBE_EVENT_NO_LOG;
	message.event.source = PROBE_SOURCE_PROBE;
	message.event.time_ns = clock_real_ns();
	(void)snprintf(message.event.text, sizeof(message.event.text), "%.*s",
		       PROBE_EVENT_TEXT_MAX - 1, err->text);
	send_message(server, MESSAGE_EVENT, &message, sizeof(message));
}

/* One heap for the few threads, which seldom allocate; and what is large, such as the lists of a
 * look at all GPUs, is the system's again when it is freed: without these the C library keeps it.
 */
static void tune_memory(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
	(void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

void server_run(const struct server_options *options)
{
	tune_memory();
	struct probe_server *server = calloc(1, sizeof(*server));
	struct watch watch;
	struct err err = {.code = 0};

	if (!server)
		finish(1);
	server->options = options;
	inventory_init(&server->inventory);
	resident_init(&server->resident);
	buf_init(&server->last_inventory, MESSAGE_BODY_MAX + sizeof(struct message_head));
	server->snapshot = calloc(1, sizeof(*server->snapshot));
	server->marks = mmap(NULL, sizeof(*server->marks), PROT_READ | PROT_WRITE, MAP_SHARED,
			     options->marks_fd, 0);

	pthread_condattr_t monotonic;
	if (!server->snapshot || server->marks == MAP_FAILED ||
	    pthread_mutex_init(&server->send_lock, NULL) != 0 ||
	    pthread_mutex_init(&server->lock, NULL) != 0 ||
	    pthread_condattr_init(&monotonic) != 0 ||
	    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
	    pthread_cond_init(&server->wake, &monotonic) != 0)
		finish(1);

	struct timeval patience = {.tv_sec = SEND_TIMEOUT_S};
	(void)setsockopt(options->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));

	if (watch_open(&watch, options->root, nvml_is_simulation_wanted(), options->kernel_log,
		       options->kmsg_after, &err) < 0)
		finish(1);
	if (options->kernel_log && watch.kmsg_fd < 0 && err.code != 0)
		report_unreadable(server, &err);

	struct log_context history = {
	    .server = server, .watch = &watch, .history = !options->log_is_live};
	watch_read_log(&watch, report_log, &history);
	if (!options->once)
		watch_follow_devices(&watch, options->root, nvml_is_simulation_wanted());
	start_thread(sampler, server);

	if (!options->once)
		start_thread(event_thread, server);
	watch_forever(server, &watch);
	abort(); /* watch_forever() ends the process */
}

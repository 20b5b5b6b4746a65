/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/names.h"
#include "base/text.h"
#include "hardware/callmark.h"
#include "hardware/change.h"
#include "hardware/inventory.h"
#include "hardware/pci.h"
#include "hardware/snapshot.h"
#include "probe/client_internal.h"
#include "probe/message.h"

#define SECOND UINT64_C(1000000000)

/* ---- the queue of events ---- */

static struct probe_event *push(struct probe_client *client, enum probe_event_kind kind,
				const char *uuid)
{
	struct probe_event *event = &client->queue[client->queue_end % CLIENT_QUEUE_MAX];

	if (client->queue_end - client->queue_begin == CLIENT_QUEUE_MAX)
		client->queue_begin++; /* the oldest gives way; inventory and snapshot are kept
					  anyway */

	client->queue_end++;
	*event = (struct probe_event){.kind = kind,
				      .source = PROBE_SOURCE_PROBE,
				      .gi = UINT32_MAX,
				      .ci = UINT32_MAX,
				      .pid = UINT32_MAX,
				      .recovery_action = UINT32_MAX,
				      .kmsg_sequence = UINT64_MAX,
				      .time_ns = clock_real_ns()};
	(void)snprintf(event->uuid, sizeof(event->uuid), "%s", uuid);

	return event;
}

static void set_text(struct probe_event *event, const char *text)
{
	(void)snprintf(event->text, sizeof(event->text), "%.*s", PROBE_EVENT_TEXT_MAX - 1, text);
}

/* ---- GPUs that hang ---- */

static struct client_skip *find_skip(struct probe_client *client, uint32_t index, const char *bus)
{
	for (uint32_t i = 0; i < client->skip_count; i++) {
		struct client_skip *skip = &client->skip[i];
		if (bus[0] && skip->where.bus[0] ? strcmp(skip->where.bus, bus) == 0
						 : skip->where.index == index)
			return skip;
	}
	return NULL;
}

static const struct gpu *find_gpu(const struct probe_client *client, uint32_t index,
				  const char *bus)
{
	for (uint32_t i = 0; client->has_inventory && i < client->inventory.gpu_count; i++) {
		const struct gpu *gpu = &client->inventory.gpus[i];
		char own[PCI_TEXT_MAX] = "";

		if (gpu->has_pci)
			pci_address_to_string(&gpu->pci, own);
		if (bus[0] && own[0] ? strcmp(own, bus) == 0 : gpu->index == index)
			return gpu;
	}

	return NULL;
}

static void mark_hung(struct probe_client *client, const struct client_skip *skip)
{
	for (uint32_t i = 0; client->has_inventory && i < client->inventory.gpu_count; i++) {
		struct gpu *gpu = &client->inventory.gpus[i];
		if (find_gpu(client, skip->where.index, skip->where.bus) != gpu)
			continue;

		gpu->state = GPU_STATE_HUNG;
		memcpy(gpu->reason, skip->reason, sizeof(gpu->reason));
		if (gpu->uuid[0] == '\0')
			memcpy(gpu->uuid, skip->uuid, sizeof(gpu->uuid));
	}

	for (uint32_t i = 0; client->snapshot && i < client->snapshot->gpu_count; i++) {
		struct snapshot_gpu *gpu = &client->snapshot->gpu[i];
		bool same = skip->where.bus[0] && gpu->bus[0]
				? strcmp(gpu->bus, skip->where.bus) == 0
				: gpu->index == skip->where.index;
		if (!same)
			continue;

		gpu->state = GPU_STATE_HUNG;
		(void)snprintf(gpu->reason, sizeof(gpu->reason), "%s", skip->reason);
		snapshot_drop_all(gpu);
	}
}

/* Whether a GPU answered for longer, since it was tried again, than it had been left alone before:
 * then it hangs for the first time, not once more. */
static bool has_worked_since(const struct probe_client *client, const struct client_skip *skip)
{
	return clock_real_ns() - skip->retry_at_ns > skip->retry_ns + 2 * client->call_timeout_ns;
}

static void blame(struct probe_client *client, const struct call_stuck *stuck)
{
	struct client_skip *skip = find_skip(client, stuck->gpu, stuck->bus);
	if (!skip) {
		if (client->skip_count == GPU_MAX)
			return;

		skip = &client->skip[client->skip_count++];
		*skip = (struct client_skip){.retry_ns = client->retry_first_ns};
		skip->where.index = stuck->gpu;
		(void)snprintf(skip->where.bus, sizeof(skip->where.bus), "%s", stuck->bus);
	} else if (has_worked_since(client, skip)) {
		skip->retry_ns = client->retry_first_ns;
	} else if (skip->retry_ns < CLIENT_RETRY_MAX_NS) {
		skip->retry_ns *= 2;
	}

	skip->hung = true;
	skip->retry_at_ns = clock_real_ns() + skip->retry_ns;
	(void)snprintf(skip->reason, sizeof(skip->reason),
		       "%s on this GPU did not come back within %.3g s", stuck->function,
		       (double)stuck->elapsed_ns / (double)SECOND);

	const struct gpu *gpu = find_gpu(client, stuck->gpu, stuck->bus);
	if (gpu && gpu->uuid[0]) {
		memcpy(skip->uuid, gpu->uuid, sizeof(skip->uuid));
		if (gpu->has_pci && skip->where.bus[0] == '\0')
			pci_address_to_string(&gpu->pci, skip->where.bus);
	}

	struct pci_address address;
	if (skip->uuid[0] == '\0' &&
	    pci_parse_address(skip->where.bus, strlen(skip->where.bus), &address) == 0) {
		struct pci_nvidia_information information;
		pci_read_nvidia_information(client->root, &address, &information);
		memcpy(skip->uuid, information.uuid, sizeof(skip->uuid));
	}

	mark_hung(client, skip);
	struct probe_event *event = push(client, PROBE_EVENT_HUNG, skip->uuid);
	(void)snprintf(event->bus, sizeof(event->bus), "%s", skip->where.bus);
	event->data = skip->where.index;
	set_text(event, skip->reason);
}

/* ---- the process ---- */

static void forget_process(struct probe_client *client)
{
	if (client->fd >= 0)
		(void)epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, client->fd, NULL);
	cleanup_close_fn(&client->fd);
	client->fd = -1;

	/* A new page for the next one: a probe that comes back must not write into it. */
	if (client->marks)
		(void)munmap(client->marks, sizeof(*client->marks));
	client->marks = NULL;
	buf_clear(&client->input);
	client->pid = -1;
}

static void reap_abandoned(struct probe_client *client)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < client->alive_count; i++) {
		if (waitpid(client->alive[i], NULL, WNOHANG) == 0)
			client->alive[kept++] = client->alive[i];
	}
	client->alive_count = kept;
}

/* Ends the present probe without waiting for it. */
static void drop_process(struct probe_client *client)
{
	if (client->pid <= 0)
		return;
	(void)client->kill_fn(client->pid, SIGKILL); /* one in uninterruptible sleep stays */
	/* One that can be killed is gone in a moment; it is reaped at one of the next ticks. */
	client->alive[client->alive_count++] = client->pid;
	forget_process(client);
	reap_abandoned(client);
}

static int watch_socket(struct probe_client *client, struct err *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data = {.fd = client->fd}};
	if (epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->fd, &event) < 0)
		return err_set(err, -errno, "watching the probe: %s", err_describe(-errno));
	return 0;
}

static int start_process(struct probe_client *client, struct err *err)
{
	reap_abandoned(client);
	if (client->alive_count >= PROBE_ABANDONED_MAX)
		return err_set(
		    err, -EBUSY,
		    "%u probes hang in the driver and cannot be ended; no more are started: "
		    "see 'dmesg', restart the machine",
		    client->alive_count);

	int rc = spawn_probe(client, err);
	if (rc == 0)
		rc = watch_socket(client, err);
	if (rc < 0) {
		drop_process(client);
		return rc;
	}

	uint64_t now_ns = clock_real_ns();
	client->progress_ns = now_ns;
	client->progress_count = 0;
	client->greeted = false;
	client->restart_at_ns = 0;

	return 0;
}

static void restart_later(struct probe_client *client, uint64_t delay_ns, const char *why)
{
	drop_process(client);
	client->restart_at_ns = clock_real_ns() + delay_ns;
	if (client->restart_at_ns == 0)
		client->restart_at_ns = 1;
	set_text(push(client, PROBE_EVENT_REPLACED, ""), why);
}

/* A stopped process is nobody's fault but its own. */
static bool is_stopped(pid_t pid)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);

	_cleanup_buf_ struct buf text;
	buf_init(&text, 4096);
	if (file_read(path, &text, NULL) < 0)
		return false;

	const char *end = strrchr(buf_text(&text), ')');
	return end && strlen(end) > 2 && (end[2] == 'T' || end[2] == 't');
}

static void abandon(struct probe_client *client, const struct call_stuck *stuck)
{
	client->abandoned++;
	bool stopped = is_stopped(client->pid);
	if (stuck && !stopped && stuck->gpu != CALL_MARK_NO_GPU) {
		blame(client, stuck);
		restart_later(client, 0, "a driver call hung");
		return;
	}

	struct probe_event *event = push(client, PROBE_EVENT_HUNG, "");
	char text[PROBE_EVENT_TEXT_MAX];

	if (stopped)
		(void)snprintf(text, sizeof(text), "the probe was stopped by a signal");
	else if (stuck)
		(void)snprintf(text, sizeof(text), "%s did not come back within %.3g s",
			       stuck->function, (double)stuck->elapsed_ns / (double)SECOND);
	else
		(void)snprintf(text, sizeof(text), "the probe did not go on");

	set_text(event, text);
	/* The driver as a whole: not again at once. */
	restart_later(client, stuck && !stopped ? client->backoff_ns : 0, text);
	if (stuck && client->backoff_ns < CLIENT_BACKOFF_MAX_NS)
		client->backoff_ns *= 2;
}

static bool is_init(const struct call_stuck *stuck)
{
	return text_starts_with(stuck->function, "nvmlInit");
}

/* Looks whether the probe goes on. */
static void check_progress(struct probe_client *client, uint64_t now_ns)
{
	if (client->pid <= 0)
		return;

	uint64_t count = 0;

	for (uint32_t i = 0; i < CALL_MARK_SLOTS; i++) {
		const struct call_mark *mark = &client->marks->slot[i];
		struct call_stuck stuck;

		if (call_mark_is_stuck(mark, now_ns, client->call_timeout_ns, &stuck) &&
		    (!is_init(&stuck) ||
		     call_mark_is_stuck(mark, now_ns, client->init_timeout_ns, &stuck))) {
			abandon(client, &stuck);
			return;
		}

		count += atomic_load_explicit(&mark->count, memory_order_relaxed);
		/* Within a call, that call's own limit holds. */
		if (call_mark_due(mark, client->call_timeout_ns) != UINT64_MAX &&
		    !is_stopped(client->pid))
			client->progress_ns = now_ns;
	}

	if (count != client->progress_count) {
		client->progress_count = count;
		client->progress_ns = now_ns;
	}

	if (now_ns - client->progress_ns > client->call_timeout_ns + client->period_ns)
		abandon(client, NULL);
}

static void retry_hung(struct probe_client *client, uint64_t now_ns)
{
	for (uint32_t i = 0; i < client->skip_count; i++) {
		struct client_skip *skip = &client->skip[i];
		if (!skip->hung || now_ns < skip->retry_at_ns || client->once)
			continue;

		skip->hung = false; /* asked again; blame() sets it if it still hangs */
		restart_later(client, 0, "to see whether a GPU that hung answers again");
		return;
	}
}

/* ---- what the probe says ---- */

static void note_changes(struct probe_client *client, struct inventory *after)
{
	static const enum probe_event_kind kinds[] = {
	    [CHANGE_GPU_ADDED] = PROBE_EVENT_GPU_ADDED,
	    [CHANGE_GPU_REMOVED] = PROBE_EVENT_GPU_REMOVED,
	    [CHANGE_GPU_STATE] = PROBE_EVENT_GPU_STATE,
	    [CHANGE_MIG] = PROBE_EVENT_MIG_CHANGED,
	    [CHANGE_DRIVER] = PROBE_EVENT_DRIVER_RESTART,
	};
	_cleanup_free_ struct change *changes = calloc(CHANGE_MAX, sizeof(*changes));
	if (!changes)
		return;

	uint32_t count = change_find(&client->inventory, after, changes);

	for (uint32_t i = 0; i < count; i++) {
		struct probe_event *event = push(client, kinds[changes[i].kind], changes[i].uuid);
		memcpy(event->bus, changes[i].bus, sizeof(event->bus));
		event->data = changes[i].state;

		const struct gpu *gpu = inventory_find_gpu(after, changes[i].uuid);
		if (gpu)
			set_text(event, gpu->reason);
	}
}

static int take_inventory(struct probe_client *client, const void *body, size_t length)
{
	struct inventory inventory;
	int rc = message_read_inventory(body, length, &inventory);
	if (rc < 0)
		return rc;

	client->backoff_ns = CLIENT_BACKOFF_NS;
	client->crashes = 0;
	client->log_is_live = true;
	if (client->has_inventory) {
		(void)change_remember(&client->inventory, &inventory); /* then less is known */

		for (uint32_t i = 0; i < client->skip_count; i++) {
			/* The reason of a hang is kept here, the probe only knows that it skips. */
			if (!client->skip[i].hung)
				continue;

			for (uint32_t g = 0; g < inventory.gpu_count; g++) {
				struct gpu *gpu = &inventory.gpus[g];
				if (gpu->state == GPU_STATE_HUNG && gpu->uuid[0] &&
				    strcmp(gpu->uuid, client->skip[i].uuid) == 0)
					memcpy(gpu->reason, client->skip[i].reason,
					       sizeof(gpu->reason));
			}
		}

		note_changes(client, &inventory);
		inventory_done(&client->inventory);
	}

	client->inventory = inventory;
	client->has_inventory = true;
	for (uint32_t i = 0; i < client->skip_count; i++) {
		if (client->skip[i].hung)
			mark_hung(client, &client->skip[i]);
	}

	push(client, PROBE_EVENT_INVENTORY, "");
	return 0;
}

/* The energy counter runs since the driver was loaded: when it falls everywhere, it was loaded
 * anew; when it falls on one GPU among several, that GPU was reset. */
static void note_resets(struct probe_client *client, const struct snapshot *after)
{
	uint32_t fell = 0, compared = 0;
	const char *uuids[GPU_MAX];

	for (uint32_t i = 0; client->snapshot && i < after->gpu_count; i++) {
		const struct snapshot_gpu *now = &after->gpu[i];
		const struct snapshot_gpu *was = snapshot_find(client->snapshot, now->uuid);
		int64_t energy_now, energy_was;

		if (!was || !snapshot_get(now, SNAPSHOT_ENERGY, &energy_now) ||
		    !snapshot_get(was, SNAPSHOT_ENERGY, &energy_was))
			continue;

		compared++;
		if (energy_now < energy_was)
			uuids[fell++] = now->uuid;
	}

	if (fell > 0 && fell == compared) {
		push(client, PROBE_EVENT_DRIVER_RESTART, "");
		return;
	}

	for (uint32_t i = 0; i < fell; i++)
		push(client, PROBE_EVENT_GPU_RESET, uuids[i]);
}

/* The inventory may remember who a GPU is that the driver has lost. */
static void name_samples(const struct probe_client *client, struct snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		struct snapshot_gpu *sample = &snapshot->gpu[i];
		if (sample->uuid[0] || sample->bus[0] || sample->state == GPU_STATE_OK)
			continue;

		const struct gpu *gpu = find_gpu(client, sample->index, "");
		if (!gpu || snapshot_find(snapshot, gpu->uuid))
			continue;

		(void)snprintf(sample->uuid, sizeof(sample->uuid), "%s", gpu->uuid);
		(void)snprintf(sample->name, sizeof(sample->name), "%s", gpu->name);
		if (gpu->has_pci)
			pci_address_to_string(&gpu->pci, sample->bus);
	}
}

static int take_snapshot(struct probe_client *client, const void *body, size_t length)
{
	struct snapshot *snapshot;
	int rc = message_read_snapshot(body, length, &snapshot);
	if (rc < 0)
		return rc;

	name_samples(client, snapshot);
	note_resets(client, snapshot);
	snapshot->probes_abandoned = client->abandoned;
	client->sequence = snapshot->sequence;
	free(client->snapshot);
	client->snapshot = snapshot;

	for (uint32_t i = 0; i < client->skip_count; i++) {
		if (client->skip[i].hung)
			mark_hung(client, &client->skip[i]);
	}

	push(client, PROBE_EVENT_SNAPSHOT, "");
	return 0;
}

static int take_event(struct probe_client *client, const void *body, size_t length)
{
	struct message_event message;
	int rc = message_read_event(body, length, &message);
	if (rc < 0)
		return rc;
	if (message.kmsg_sequence != UINT64_MAX)
		client->kmsg_after = message.kmsg_sequence;

	if (message.event.uuid[0] == '\0' && message.event.bus[0] != '\0') {
		const struct gpu *gpu = find_gpu(client, UINT32_MAX, message.event.bus);
		if (gpu)
			memcpy(message.event.uuid, gpu->uuid, sizeof(message.event.uuid));
	}

	struct probe_event *event = push(client, PROBE_EVENT_NVML, "");
	*event = message.event;
	event->kmsg_sequence = message.kmsg_sequence;

	return 0;
}

static int take_down(struct probe_client *client, const void *body, size_t length)
{
	struct message_notice notice;
	int rc = message_read_notice(body, length, &notice);
	if (rc < 0)
		return rc;

	struct probe_event *event = push(client, PROBE_EVENT_DRIVER_DOWN, "");
	event->data = (uint64_t)(int64_t)notice.code;
	set_text(event, notice.text);
	client->down_code = notice.code;
	memcpy(client->down_text, notice.text, sizeof(client->down_text));
	client->expected_end = true;
	drop_process(client);
	client->restart_at_ns = clock_real_ns() + client->backoff_ns;
	if (client->backoff_ns < CLIENT_BACKOFF_MAX_NS)
		client->backoff_ns *= 2;

	return 0;
}

static int take_message(struct probe_client *client, enum message_kind kind, const void *body,
			size_t length)
{
	struct message_notice notice;
	int rc;

	switch (kind) {
	case MESSAGE_INVENTORY:
		return take_inventory(client, body, length);
	case MESSAGE_SNAPSHOT:
		return take_snapshot(client, body, length);
	case MESSAGE_EVENT:
		return take_event(client, body, length);
	case MESSAGE_DRIVER_DOWN:
		return take_down(client, body, length);
	case MESSAGE_RESTART:
		rc = message_read_notice(body, length, &notice);
		if (rc == 0)
			restart_later(client, 0, notice.text);
		return rc;
	case MESSAGE_DONE:
		client->ended = true;
		push(client, PROBE_EVENT_ENDED, "");
		drop_process(client);
		return 0;
	}

	return -EPROTO;
}

static void take_input(struct probe_client *client)
{
	while (client->pid > 0) {
		enum message_kind kind;
		const void *body;
		size_t length, used;
		int rc = message_next(client->input.data, client->input.length, &kind, &body,
				      &length, &used);
		if (rc == 0)
			return;

		if (rc == 1)
			rc = take_message(client, kind, body, length);

		if (rc < 0) {
			client->abandoned++;
			restart_later(client, client->backoff_ns, "the probe sent nonsense");
			return;
		}

		if (client->pid > 0)
			buf_consume(&client->input, used);
	}
}

/* Nothing is in it until the next second. */
static void release_input(struct probe_client *client)
{
	if (client->input.length > 0)
		return;
	size_t max = client->input.max;
	buf_done(&client->input);
	buf_init(&client->input, max);
}

static void read_socket(struct probe_client *client)
{
	enum { CHUNK = 65536, CHUNKS_MAX = 64 };

	for (uint32_t i = 0; i < CHUNKS_MAX && client->pid > 0; i++) {
		if (buf_reserve(&client->input, CHUNK) < 0)
			return;

		ssize_t got = recv(client->fd, client->input.data + client->input.length, CHUNK,
				   MSG_DONTWAIT);
		if (got > 0) {
			client->input.length += (size_t)got;
			client->progress_ns = clock_real_ns();
			take_input(client);
			continue;
		}

		if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
			release_input(client);
			return;
		}

		client->crashes++;
		restart_later(client, client->once ? 0 : client->backoff_ns,
			      "the probe ended by itself");
		if (client->backoff_ns < CLIENT_BACKOFF_MAX_NS)
			client->backoff_ns *= 2;
	}
}

/* ---- the interface ---- */

int probe_client_next(struct probe_client *client, struct probe_event *out, struct err *err)
{
	if (client->queue_begin == client->queue_end) {
		uint64_t ticks;
		(void)!read(client->timer_fd, &ticks, sizeof(ticks)); /* EAGAIN: no tick was due */
		read_socket(client);

		uint64_t now_ns = clock_real_ns();
		check_progress(client, now_ns);
		if (!client->is_released)
			retry_hung(client, now_ns);
		reap_abandoned(client);

		if (client->pid <= 0 && !client->ended && !client->is_released &&
		    now_ns >= client->restart_at_ns) {
			int rc = start_process(client, err);
			if (rc < 0) {
				client->restart_at_ns = now_ns + CLIENT_BACKOFF_MAX_NS;
				return rc;
			}
		}
	}

	if (client->queue_begin == client->queue_end)
		return 0;

	*out = client->queue[client->queue_begin++ % CLIENT_QUEUE_MAX];
	return 1;
}

int probe_client_wait(struct probe_client *client, uint64_t timeout_ns, struct probe_event *out,
		      struct err *err)
{
	uint64_t end_ns = clock_real_ns() + timeout_ns;

	for (;;) {
		int rc = probe_client_next(client, out, err);
		if (rc != 0)
			return rc;

		uint64_t now_ns = clock_real_ns();
		if (now_ns >= end_ns)
			return 0;

		uint64_t left_ms = (end_ns - now_ns) / 1000000 + 1;
		struct pollfd fd = {.fd = client->epoll_fd, .events = POLLIN};

		(void)poll(&fd, 1, left_ms > 1000 ? 1000 : (int)left_ms); /* EINTR: look again */
	}
}

static int open_epoll(struct probe_client *client, struct err *err)
{
	client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	client->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (client->epoll_fd < 0 || client->timer_fd < 0)
		return err_set(err, -errno, "starting the probe: %s", err_describe(-errno));

	/* Often enough to notice a hang in good time, rarely enough to cost nothing. */
	uint64_t tick_ns = client->call_timeout_ns / 8;
	if (tick_ns > SECOND)
		tick_ns = SECOND;
	if (tick_ns < SECOND / 100)
		tick_ns = SECOND / 100;

	struct itimerspec tick = {.it_interval = {.tv_sec = (time_t)(tick_ns / SECOND),
						  .tv_nsec = (long)(tick_ns % SECOND)}};
	tick.it_value = tick.it_interval;

	struct epoll_event event = {.events = EPOLLIN, .data = {.fd = client->timer_fd}};
	if (timerfd_settime(client->timer_fd, 0, &tick, NULL) < 0 ||
	    epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->timer_fd, &event) < 0)
		return err_set(err, -errno, "starting the probe: %s", err_describe(-errno));

	return 0;
}

int probe_client_start(const struct probe_options *options, struct probe_client **out,
		       struct err *err)
{
	struct probe_client *client = calloc(1, sizeof(*client));
	if (!client)
		return err_set(err, -ENOMEM, "starting the probe: no memory");

	client->fd = client->epoll_fd = client->timer_fd = -1;
	client->pid = -1;
	client->once = options->once;
	client->kernel_log = options->kernel_log;
	client->kmsg_after = UINT64_MAX;
	client->call_timeout_ns =
	    options->call_timeout_ns ? options->call_timeout_ns : PROBE_CALL_TIMEOUT_NS;
	client->init_timeout_ns =
	    options->init_timeout_ns ? options->init_timeout_ns : PROBE_INIT_TIMEOUT_NS;
	client->period_ns = options->period_ns ? options->period_ns : PROBE_PERIOD_NS;
	client->retry_first_ns = options->retry_ns ? options->retry_ns : PROBE_RETRY_NS;
	client->backoff_ns = CLIENT_BACKOFF_NS;
	client->kill_fn = options->kill_fn ? options->kill_fn : kill;
	client->root = pci_root();
	inventory_init(&client->inventory);

	/* A frame, and what recv() may read on top of it. */
	buf_init(&client->input, 2 * (MESSAGE_BODY_MAX + 65536));
	int rc = resolve_program(client, options, err);
	if (rc == 0)
		rc = open_epoll(client, err);
	if (rc == 0)
		rc = start_process(client, err);

	if (rc < 0) {
		probe_client_stop(client);
		return rc;
	}

	*out = client;
	return 0;
}

/* One that was killed a moment ago is a zombie soon, and most commands wait for nothing else then;
 * one that hangs in the driver is init's. */
static void reap_soon(struct probe_client *client)
{
	for (uint32_t i = 0; i < CLIENT_REAP_TRIES && client->alive_count > 0; i++) {
		_cleanup_close_ int fd = pidfd_open(client->alive[0], 0);
		struct pollfd end = {.fd = fd,
				     .events = POLLIN}; /* -1, of an old kernel: a pause */
		(void)poll(&end, 1, 1);
		reap_abandoned(client);
	}
}

struct probe_client *probe_client_stop(struct probe_client *client)
{
	if (!client)
		return NULL;

	drop_process(client);
	reap_soon(client);
	cleanup_close_fn(&client->epoll_fd);
	cleanup_close_fn(&client->timer_fd);
	inventory_done(&client->inventory);
	free(client->snapshot);
	buf_done(&client->input);
	free(client);

	return NULL;
}

void probe_client_stop_p(struct probe_client **client)
{
	*client = probe_client_stop(*client);
}

void probe_client_release(struct probe_client *client, bool released)
{
	client->is_released = released;
	if (released)
		drop_process(client);
	client->restart_at_ns = 0;
}

bool probe_client_is_gone(struct probe_client *client)
{
	reap_abandoned(client);
	return client->pid <= 0 && client->alive_count == 0;
}

int probe_client_fd(const struct probe_client *client)
{
	return client->epoll_fd;
}

const struct inventory *probe_client_inventory(const struct probe_client *client)
{
	return client->has_inventory ? &client->inventory : NULL;
}

const struct snapshot *probe_client_snapshot(const struct probe_client *client)
{
	return client->snapshot;
}

uint32_t probe_client_abandoned(const struct probe_client *client, uint32_t *out_alive)
{
	if (out_alive)
		*out_alive = client->alive_count;
	return client->abandoned;
}

pid_t probe_client_pid(const struct probe_client *client)
{
	return client->pid;
}

const char *probe_event_kind_to_string(uint32_t kind)
{
	static const char *const names[PROBE_EVENT_KIND_COUNT] = {
	    [PROBE_EVENT_INVENTORY] = "inventory",
	    [PROBE_EVENT_SNAPSHOT] = "snapshot",
	    [PROBE_EVENT_GPU_ADDED] = "gpu-added",
	    [PROBE_EVENT_GPU_REMOVED] = "gpu-removed",
	    [PROBE_EVENT_GPU_STATE] = "gpu-state",
	    [PROBE_EVENT_GPU_RESET] = "gpu-reset",
	    [PROBE_EVENT_MIG_CHANGED] = "mig-changed",
	    [PROBE_EVENT_DRIVER_RESTART] = "driver-restarted",
	    [PROBE_EVENT_DRIVER_DOWN] = "driver-down",
	    [PROBE_EVENT_XID] = "xid",
	    [PROBE_EVENT_XID_AGAIN] = "xid-again",
	    [PROBE_EVENT_NVML] = "nvml-event",
	    [PROBE_EVENT_HUNG] = "hung",
	    [PROBE_EVENT_REPLACED] = "probe-replaced",
	    [PROBE_EVENT_NO_LOG] = "no-kernel-log",
	    [PROBE_EVENT_ENDED] = "ended",
	};
	return names_at(names, kind, "unknown");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cluster/kube.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/libexec.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/text.h"
#include "kube.pb-c.h"
#include "wire/arena.h"
#include "wire/message.h"

enum { KUBE_FD = 3, KUBE_MESSAGE_MAX = 1024, KUBE_REASON_MAX = 128 };
#define KUBE_AGAIN_FIRST_NS UINT64_C(1000000000)  /* until one that ended is started again ... */
#define KUBE_AGAIN_LAST_NS  UINT64_C(60000000000) /* ... doubling up to this */
#define KUBE_WELL_NS	    UINT64_C(60000000000) /* it ran so long: the next is started soon */
#define KUBE_STOP_NS	    UINT64_C(2000000000)

struct kube {
	struct kube_options options;
	char program[FILE_PATH_MAX];
	int fd;			  /* owned; our end; -1: none runs */
	struct loop_fd *watch;	  /* owned */
	struct loop_timer *again; /* owned; runs while none runs */
	struct child *child;	  /* owned */
	uint64_t again_ns, started_ns;
	/* Packets that wait, in a ring. */
	struct kube_packet {
		void *data; /* owned */
		size_t length;
	} packets[KUBE_QUEUE_MAX];
	struct kube_packet published; /* the last of kube_publish() */
	bool publishes;		      /* it is to be sent */
	size_t first, count;
	uint64_t dropped;
	char problem[KUBE_PROBLEM_MAX];
};

static void kube_start(struct kube *kube);

static void kube_set_problem(struct kube *kube, const char *text)
{
	if (strncmp(kube->problem, text, sizeof(kube->problem) - 1) == 0)
		return;
	(void)snprintf(kube->problem, sizeof(kube->problem), "%.*s", KUBE_PROBLEM_MAX - 1, text);
	log_write(kube->options.log, *text ? LOG_LEVEL_WARNING : LOG_LEVEL_NOTICE, NULL, "%s",
		  *text ? kube->problem : "the API server answers again");
}

/* --- what is sent ---------------------------------------------------------------------------- */

static void kube_drop_first(struct kube *kube)
{
	free(kube->packets[kube->first].data);
	kube->first = (kube->first + 1) % KUBE_QUEUE_MAX;
	kube->count--;
}

/* False: the socket takes no more. */
static bool kube_send_packet(const struct kube *kube, const struct kube_packet *packet)
{
	ssize_t sent;
	do {
		sent = send(kube->fd, packet->data, packet->length, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent >= 0; /* else it is full, or its end is about to be told */
}

static void kube_send(struct kube *kube)
{
	if (kube->fd >= 0 && kube->publishes)
		kube->publishes = !kube_send_packet(kube, &kube->published);

	while (kube->fd >= 0 && kube->count > 0) {
		if (!kube_send_packet(kube, &kube->packets[kube->first]))
			break;
		kube_drop_first(kube);
	}

	/* Cannot fail: only what is waited for is another. */
	if (kube->watch)
		(void)loop_fd_watch(
		    kube->watch,
		    kube->count > 0 || kube->publishes ? LOOP_READ | LOOP_WRITE : LOOP_READ, NULL);
}

/* Without half a character at its end, which no message may have. */
static void kube_copy(char *out, size_t size, const char *text)
{
	size_t length = strnlen(text, size - 1), at = 0, step = 0;
	while (at < length) {
		if (text_decode(text + at, length - at, &step) == TEXT_INVALID)
			break;
		at += step;
	}
	(void)snprintf(out, size, "%.*s", (int)at, text);
}

void kube_event(struct kube *kube, enum kube_event_type type, const char *reason,
		const char *message)
{
	Sluice__Kube__V1__ToKube packet = SLUICE__KUBE__V1__TO_KUBE__INIT;
	Sluice__Kube__V1__Event event = SLUICE__KUBE__V1__EVENT__INIT;
	char texts[2][KUBE_MESSAGE_MAX];

	kube_copy(texts[0], KUBE_REASON_MAX, reason);
	kube_copy(texts[1], sizeof(texts[1]), message);
	event.warning = type == KUBE_EVENT_WARNING;
	event.reason = texts[0];
	event.message = texts[1];
	packet.event = &event;

	size_t length = sluice__kube__v1__to_kube__get_packed_size(&packet);
	void *data = malloc(length);
	if (!data) {
		kube->dropped++;
		return;
	}

	(void)sluice__kube__v1__to_kube__pack(&packet, data);
	if (kube->count == KUBE_QUEUE_MAX) {
		kube_drop_first(kube);
		kube->dropped++;
	}

	kube->packets[(kube->first + kube->count++) % KUBE_QUEUE_MAX] =
	    (struct kube_packet){.data = data, .length = length};
	kube_send(kube);
}

int kube_publish(struct kube *kube, const Sluice__Kube__V1__Publish *wish, struct err *err)
{
	Sluice__Kube__V1__ToKube packet = SLUICE__KUBE__V1__TO_KUBE__INIT;
	packet.publish = (Sluice__Kube__V1__Publish *)wish; /* not written to */

	size_t length = sluice__kube__v1__to_kube__get_packed_size(&packet);
	if (length > KUBE_PACKET_MAX)
		return err_set(err, -E2BIG, "%zu labels are more than can be published",
			       wish->n_labels);

	_cleanup_free_ void *data = malloc(length);
	if (!data)
		return err_set(err, -ENOMEM, "out of memory for labels");

	(void)sluice__kube__v1__to_kube__pack(&packet, data);
	if (kube->published.data && kube->published.length == length &&
	    memcmp(kube->published.data, data, length) == 0)
		return 0;

	free(kube->published.data);
	kube->published = (struct kube_packet){.data = take_ptr(data), .length = length};
	kube->publishes = true;
	kube_send(kube);

	return 0;
}

/* --- what is heard --------------------------------------------------------------------------- */

static void kube_take_labels(struct kube *kube, const Sluice__Kube__V1__Labels *message)
{
	struct kube_label labels[KUBE_LABELS_MAX];
	size_t count = 0;
	for (; count < message->n_labels && count < KUBE_LABELS_MAX; count++)
		labels[count] = (struct kube_label){.name = message->labels[count]->name,
						    .value = message->labels[count]->value};
	kube->options.labels(labels, count, kube->options.context);
}

static void kube_take(struct kube *kube, const void *data, size_t length)
{
	_cleanup_arena_ struct arena arena;
	ProtobufCMessage *message;
	struct err err = {0};

	arena_init(&arena, 4 * (size_t)KUBE_PACKET_MAX);
	if (wire_message_decode(&sluice__kube__v1__from_kube__descriptor, data, length, &arena,
				&message, &err) < 0) {
		log_write(kube->options.log, LOG_LEVEL_WARNING, NULL, "sluice-kube says: %s",
			  err.text);
		return;
	}

	const Sluice__Kube__V1__FromKube *packet = (const Sluice__Kube__V1__FromKube *)message;
	if (packet->problem)
		kube_set_problem(kube, packet->problem->text);
	if (packet->published && kube->options.published)
		kube->options.published(packet->published, kube->options.context);
	if (packet->label && kube->options.label)
		kube->options.label(packet->label->is_set ? packet->label->value : "",
				    kube->options.context);

	if (packet->labels && kube->options.labels)
		kube_take_labels(kube, packet->labels);
}

static void kube_stop(struct kube *kube)
{
	kube->watch = loop_fd_free(kube->watch);
	if (kube->fd >= 0)
		(void)close(kube->fd);
	kube->fd = -1;
}

static void kube_on_socket(int fd, unsigned events, void *context)
{
	struct kube *kube = context;
	char data[KUBE_PACKET_MAX];

	if (events & LOOP_WRITE)
		kube_send(kube);
	if (!(events & LOOP_READ))
		return;

	ssize_t length = recv(fd, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;

	if (length > (ssize_t)sizeof(data)) {
		log_write(kube->options.log, LOG_LEVEL_WARNING, NULL,
			  "sluice-kube sent %zd bytes at once, more than %d: ignored", length,
			  KUBE_PACKET_MAX);
		return;
	}

	if (length > 0)
		kube_take(kube, data, (size_t)length);
	else
		kube_stop(kube); /* its end comes next */
}

/* --- its life -------------------------------------------------------------------------------- */

static void kube_try_again(struct kube *kube)
{
	loop_timer_start(kube->again, kube->again_ns);
	kube->again_ns =
	    kube->again_ns * 2 < KUBE_AGAIN_LAST_NS ? kube->again_ns * 2 : KUBE_AGAIN_LAST_NS;
}

static void kube_on_end(struct child *child, const struct child_end *end, void *context)
{
	struct kube *kube = context;
	char how[CHILD_END_TEXT], text[KUBE_PROBLEM_MAX];

	kube_stop(kube);
	kube->child = child_free(kube->child);
	(void)snprintf(text, sizeof(text), "sluice-kube ended: %s", child_end_to_string(end, how));
	kube_set_problem(kube, text);

	if (loop_now_ns(kube->options.loop) - kube->started_ns >= KUBE_WELL_NS)
		kube->again_ns = KUBE_AGAIN_FIRST_NS;
	kube_try_again(kube);
}

static int kube_spawn(struct kube *kube, struct err *err)
{
	const struct kube_options *options = &kube->options;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, -errno, "a socket pair for sluice-kube: %s",
			       err_describe(-errno));

	_cleanup_close_ int ours = pair[0];
	_cleanup_close_ int theirs = pair[1];
	/* Not written to: argv is not const for reasons of history. */
	bool has_config = options->kubeconfig != NULL;
	char *argv[] = {kube->program,
			(char *)"--node",
			(char *)options->node_name,
			(char *)"--label",
			(char *)options->node_label,
			has_config ? (char *)"--kubeconfig" : NULL,
			has_config ? (char *)options->kubeconfig : NULL,
			NULL};
	const struct child_fd fds[] = {{theirs, KUBE_FD}, {2, 2}};
	const struct child_spec spec = {.path = kube->program,
					.argv = argv,
					.fds = fds,
					.fd_count = sizeof(fds) / sizeof(*fds),
					.new_session = true};

	kube->child = child_start(options->children, &spec, kube_on_end, kube, err);
	if (!kube->child)
		return err->code;

	kube->watch = loop_fd_new(options->loop, ours, LOOP_READ, kube_on_socket, kube, err);
	if (!kube->watch) {
		(void)child_kill(kube->child, SIGKILL); /* tried again when that is told */
		return 0;
	}

	kube->fd = take_fd(&ours);
	kube->publishes = kube->published.data != NULL;
	return 0;
}

static void kube_start(struct kube *kube)
{
	struct err err = {0};

	kube->started_ns = loop_now_ns(kube->options.loop);
	if (kube_spawn(kube, &err) < 0) {
		kube_set_problem(kube, err.text);
		kube_try_again(kube);
		return;
	}

	kube_send(kube);
}

static void kube_on_again(void *context)
{
	kube_start(context);
}

int kube_open(const struct kube_options *options, struct kube **out, struct err *err)
{
	struct kube *kube = calloc(1, sizeof(*kube));
	if (!kube)
		return err_set(err, -ENOMEM, "out of memory for sluice-kube");

	kube->options = *options;
	kube->fd = -1;
	kube->again_ns = KUBE_AGAIN_FIRST_NS;

	int rc = libexec_find("sluice-kube", "kube", options->program, kube->program, err);
	if (rc == 0) {
		kube->again = loop_timer_new(options->loop, kube_on_again, kube, err);
		rc = kube->again ? 0 : -ENOMEM;
	}

	if (rc < 0) {
		free(kube);
		return rc;
	}

	if (options->delay_ns > 0)
		loop_timer_start(kube->again, options->delay_ns);
	else
		kube_start(kube);

	*out = kube;
	return 0;
}

struct kube *kube_close(struct kube *kube)
{
	if (!kube)
		return NULL;

	kube_stop(kube); /* it ends by itself when nobody listens any more; else: */
	if (kube->child)
		(void)child_stop(kube->child, SIGTERM, KUBE_STOP_NS);
	(void)child_free(kube->child);
	(void)loop_timer_free(kube->again);

	while (kube->count > 0)
		kube_drop_first(kube);

	free(kube->published.data);
	free(kube);
	return NULL;
}

const char *kube_problem(const struct kube *kube)
{
	return kube->problem;
}

pid_t kube_pid(const struct kube *kube)
{
	return kube->child && child_is_running(kube->child) ? child_pid(kube->child) : -1;
}

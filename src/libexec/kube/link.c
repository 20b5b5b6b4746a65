/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "libexec/kube/publish.h"
#include "wire/arena.h"
#include "wire/message.h"

enum { LINK_MESSAGE_MAX = 1024, LINK_ROOM = 4 * LINK_TEXT_MAX };

void link_init(struct link *link, int fd,
	       void (*event)(bool warning, const char *reason, const char *message, void *context),
	       void *context)
{
	*link = (struct link){.fd = fd, .event = event, .context = context};
}

/* Valid UTF-8 of at most LINK_TEXT_MAX - 1 bytes. */
static void link_copy(char out[LINK_TEXT_MAX], const char *text)
{
	_cleanup_buf_ struct buf valid;
	size_t size = 0;

	buf_init(&valid, LINK_ROOM);
	out[0] = '\0';
	if (text_make_valid(&valid, text, strnlen(text, LINK_TEXT_MAX)) < 0)
		return; /* no memory: rather nothing than half of it */

	size_t length = 0;
	while (length < valid.length) {
		(void)text_decode(valid.data + length, valid.length - length, &size);
		if (length + size >= LINK_TEXT_MAX)
			break;
		length += size;
	}

	if (length > 0)
		memcpy(out, valid.data, length);
	out[length] = '\0';
}

/* True: it is said, or the agent is gone, which is told elsewhere. */
static bool link_send(const struct link *link, const Sluice__Kube__V1__FromKube *packet)
{
	uint8_t data[LINK_MESSAGE_MAX];
	if (sluice__kube__v1__from_kube__get_packed_size(packet) > sizeof(data))
		return true; /* cannot be: its only text is short */
	size_t length = sluice__kube__v1__from_kube__pack(packet, data);
	return send(link->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	       (errno != EAGAIN && errno != EINTR && errno != ENOBUFS);
}

static bool link_send_labels(struct link *link)
{
	Sluice__Kube__V1__FromKube packet = SLUICE__KUBE__V1__FROM_KUBE__INIT;
	Sluice__Kube__V1__Labels labels = SLUICE__KUBE__V1__LABELS__INIT;
	Sluice__Kube__V1__NodeLabel label[OBJECT_FOLLOWED], *place[OBJECT_FOLLOWED];

	for (size_t i = 0; i < OBJECT_FOLLOWED; i++) {
		if (!*link->labels[i])
			continue;

		place[labels.n_labels] = &label[labels.n_labels];
		sluice__kube__v1__node_label__init(place[labels.n_labels]);

		/* Not written to: the type is the generator's. */
		place[labels.n_labels]->name = (char *)object_followed[i];
		place[labels.n_labels]->value = link->labels[i];
		labels.n_labels++;
	}

	labels.labels = place;
	packet.labels = &labels;
	return link_send(link, &packet);
}

static void link_flush(struct link *link)
{
	Sluice__Kube__V1__FromKube packet = SLUICE__KUBE__V1__FROM_KUBE__INIT;

	if (link->tells_label) {
		Sluice__Kube__V1__Label label = SLUICE__KUBE__V1__LABEL__INIT;
		label.is_set = link->label_is_set;
		label.value = link->label;
		packet.label = &label;
		link->tells_label = !link_send(link, &packet);
		packet.label = NULL;
	}

	if (link->tells_labels)
		link->tells_labels = !link_send_labels(link);

	if (link->tells_problem) {
		Sluice__Kube__V1__Problem problem = SLUICE__KUBE__V1__PROBLEM__INIT;
		problem.text = link->problem;
		packet.problem = &problem;
		link->tells_problem = !link_send(link, &packet);
		packet.problem = NULL;
	}

	if (link->tells_published) {
		packet.published = &link->published;
		link->tells_published = !link_send(link, &packet);
	}
}

void link_published(struct link *link, const struct publish_state *state)
{
	sluice__kube__v1__published__init(&link->published);
	link->published.way = state->way;
	link->published.is_written = state->is_written;
	link->published.is_on_node = state->is_on_node;
	link->published.previous_ends = state->previous_ends;
	link_copy(link->published_problem, state->problem);
	link->published.problem = link->published_problem;
	link->tells_published = true;
	link_flush(link);
}

void link_label(struct link *link, bool is_set, const char *value)
{
	link->label_is_set = is_set;
	link_copy(link->label, is_set ? value : "");
	link->tells_label = true;
	link_flush(link);
}

void link_labels(struct link *link, const char *const *values)
{
	char valid[LINK_TEXT_MAX];
	for (size_t i = 0; i < OBJECT_FOLLOWED; i++) {
		link_copy(valid, values[i]);
		/* What had to be replaced is longer than it was, and no value that counts. */
		(void)snprintf(link->labels[i], OBJECT_VALUE_MAX, "%s",
			       strcmp(valid, values[i]) == 0 ? values[i] : "");
	}

	link->tells_labels = true;
	link_flush(link);
}

void link_problem(struct link *link, const char *text)
{
	char valid[LINK_TEXT_MAX];
	link_copy(valid, text);
	if (link->has_problem && strcmp(valid, link->problem) == 0)
		return;
	memcpy(link->problem, valid, sizeof(valid));
	link->has_problem = link->tells_problem = true;
	link_flush(link);
}

short link_wants(const struct link *link)
{
	return (short)(link->tells_label || link->tells_labels || link->tells_problem ||
			       link->tells_published
			   ? POLLIN | POLLOUT
			   : POLLIN);
}

static int link_take(struct link *link, const void *data, size_t length, struct err *err)
{
	_cleanup_arena_ struct arena arena;
	ProtobufCMessage *message;

	arena_init(&arena, 4 * (size_t)LINK_PACKET_MAX);
	int rc = wire_message_decode(&sluice__kube__v1__to_kube__descriptor, data, length, &arena,
				     &message, err);
	if (rc < 0)
		return err_wrap(err, "a message of the agent");

	const Sluice__Kube__V1__ToKube *packet = (const Sluice__Kube__V1__ToKube *)message;
	if (packet->event)
		link->event(packet->event->warning, packet->event->reason, packet->event->message,
			    link->context);
	if (packet->publish && link->publish)
		link->publish(packet->publish, link->context);

	return 1;
}

int link_run(struct link *link, short ready, struct err *err)
{
	char data[LINK_PACKET_MAX];

	if (ready & POLLOUT)
		link_flush(link);
	if (!(ready & (POLLIN | POLLHUP | POLLERR)))
		return 1;

	ssize_t length = recv(link->fd, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (length > (ssize_t)sizeof(data))
		return err_set(err, -EMSGSIZE, "a message of the agent has %zd bytes, more than %d",
			       length, LINK_PACKET_MAX);

	return length > 0 ? link_take(link, data, (size_t)length, err) : 0;
}

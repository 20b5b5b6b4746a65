/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/rsh/packet.h"

static void packet_put(char *out, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		out[i] = (char)(value >> (8 * i) & 0xff);
}

static uint32_t packet_get(const char *bytes)
{
	uint32_t value = 0;
	for (int i = 3; i >= 0; i--)
		value = value << 8 | (unsigned char)bytes[i];
	return value;
}

static size_t packet_length(const char *text)
{
	size_t length = 0;
	while (text[length])
		length++;
	return length;
}

/* Moves behind it. */
static bool packet_add(char *out, size_t size, size_t *at, const char *text, size_t length)
{
	if (length > size - *at)
		return false;
	for (size_t i = 0; i < length; i++)
		out[*at + i] = text[i];
	*at += length;
	return true;
}

size_t packet_format(const struct packet *packet, char *out, size_t size)
{
	size_t at = PACKET_HEAD;

	if (size < PACKET_HEAD)
		return 0;

	packet_put(out, PACKET_MAGIC);
	packet_put(out + 4, packet->kind);
	packet_put(out + 8, packet->value);
	packet_put(out + 12, 0);

	if (packet->kind == PACKET_RUN &&
	    !packet_add(out, size, &at, packet->host, packet_length(packet->host) + 1))
		return 0;
	if (packet->kind == PACKET_ENTERED)
		return packet_add(out, size, &at, packet->text, packet->text_length) ? at : 0;
	if ((packet->kind == PACKET_RUN || packet->kind == PACKET_REFUSED) &&
	    !packet_add(out, size, &at, packet->text, packet_length(packet->text) + 1))
		return 0;

	return at;
}

/* The text at `*at`, and behind its NUL. */
static const char *packet_text(const char *bytes, size_t length, size_t *at, size_t max)
{
	size_t from = *at;
	for (size_t i = from; i < length && i - from <= max; i++)
		if (!bytes[i]) {
			*at = i + 1;
			return bytes + from;
		}
	return NULL;
}

bool packet_parse(const char *bytes, size_t length, struct packet *out)
{
	if (length < PACKET_HEAD || length > PACKET_MAX || packet_get(bytes) != PACKET_MAGIC)
		return false;

	struct packet packet = {
	    .kind = packet_get(bytes + 4), .value = packet_get(bytes + 8), .host = "", .text = ""};
	size_t at = PACKET_HEAD;

	switch (packet.kind) {
	case PACKET_RUN:
		packet.host = packet_text(bytes, length, &at, PACKET_HOST_MAX);
		packet.text =
		    packet.host ? packet_text(bytes, length, &at, PACKET_TEXT_MAX - 1) : NULL;
		if (!packet.text || !packet.host[0] || !packet.text[0])
			return false;

		packet.text_length = (size_t)(bytes + at - packet.text) - 1;
		break;
	case PACKET_REFUSED:
		packet.text = packet_text(bytes, length, &at, PACKET_REASON_MAX - 1);
		if (!packet.text)
			return false;

		packet.text_length = (size_t)(bytes + at - packet.text) - 1;
		break;
	case PACKET_ENTERED:
		packet.text = bytes + at;
		packet.text_length = length - at;
		if (packet.text_length > PACKET_ANSWER_MAX ||
		    (packet.text_length > 0 && bytes[length - 1]))
			return false;

		at = length;
		break;
	case PACKET_RANKS:
	case PACKET_ENTER:
	case PACKET_ENDED:
		break;
	default:
		return false;
	}

	if (at != length)
		return false;

	*out = packet;
	return true;
}

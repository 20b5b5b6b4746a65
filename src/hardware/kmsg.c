/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/kmsg.h"

#include <ctype.h>
#include <string.h>

#include "base/parse.h"
#include "hardware/pci.h"

enum { NS_PER_US = 1000 };

/* What is still to be read of a text. */
struct cursor {
	const char *at;
	size_t left;
};

static bool skip(struct cursor *cursor, const char *word)
{
	size_t size = strlen(word);
	if (cursor->left < size || memcmp(cursor->at, word, size) != 0)
		return false;
	cursor->at += size;
	cursor->left -= size;
	return true;
}

static void skip_blanks(struct cursor *cursor)
{
	while (cursor->left > 0 && (*cursor->at == ' ' || *cursor->at == '\t')) {
		cursor->at++;
		cursor->left--;
	}
}

/* The bytes up to `end` (not included), which must be there; the cursor stands behind it. */
static bool take_until(struct cursor *cursor, char end, struct cursor *out)
{
	const char *found = memchr(cursor->at, end, cursor->left);
	if (!found)
		return false;

	out->at = cursor->at;
	out->left = (size_t)(found - cursor->at);
	cursor->left -= out->left + 1;
	cursor->at = found + 1;

	return true;
}

static bool take_number(struct cursor *cursor, uint64_t max, uint64_t *out)
{
	size_t digits = 0;
	while (digits < cursor->left && isdigit((unsigned char)cursor->at[digits]))
		digits++;

	if (parse_u64_span(cursor->at, digits, 0, max, out) < 0)
		return false;

	cursor->at += digits;
	cursor->left -= digits;
	return true;
}

static bool take_word(struct cursor *cursor, struct cursor *out)
{
	skip_blanks(cursor);
	out->at = cursor->at;
	out->left = 0;

	while (out->left < cursor->left && cursor->at[out->left] != ' ')
		out->left++;

	cursor->at += out->left;
	cursor->left -= out->left;
	return out->left > 0;
}

static bool word_is(const struct cursor *word, const char *text)
{
	return word->left == strlen(text) && memcmp(word->at, text, word->left) == 0;
}

/* "prio,seq,usec,flags[,...];" in front of the text. */
static bool take_head(struct cursor *cursor, uint64_t *facility, uint64_t *sequence,
		      uint64_t *time_us)
{
	struct cursor head, part;
	uint64_t priority;

	if (!take_until(cursor, ';', &head) || !take_until(&head, ',', &part) ||
	    parse_u64_span(part.at, part.left, 0, UINT32_MAX, &priority) < 0 ||
	    !take_until(&head, ',', &part) ||
	    parse_u64_span(part.at, part.left, 0, UINT64_MAX, sequence) < 0)
		return false;

	if (!take_until(&head, ',', &part))
		part = head;
	if (parse_u64_span(part.at, part.left, 0, UINT64_MAX, time_us) < 0)
		return false;

	*facility = priority >> 3;
	return true;
}

bool kmsg_parse_sequence(const char *record, size_t length, uint64_t *out)
{
	struct cursor cursor = {record, length};
	uint64_t facility, sequence, time_us;
	if (length > KMSG_RECORD_MAX || !take_head(&cursor, &facility, &sequence, &time_us))
		return false;
	*out = sequence;
	return true;
}

bool kmsg_parse_time(const char *record, size_t length, uint64_t *out_us)
{
	struct cursor cursor = {record, length};
	uint64_t facility, sequence, time_us;
	if (length > KMSG_RECORD_MAX || !take_head(&cursor, &facility, &sequence, &time_us))
		return false;
	*out_us = time_us;
	return true;
}

static void keep_text(const struct cursor *cursor, char out[KMSG_TEXT_MAX])
{
	size_t n = cursor->left < KMSG_TEXT_MAX - 1 ? cursor->left : KMSG_TEXT_MAX - 1;
	for (size_t i = 0; i < n; i++)
		out[i] = isprint((unsigned char)cursor->at[i]) ? cursor->at[i] : '?';
	out[n] = '\0';
}

/* "pid=1234," or "pid='<unknown>'," and "name=...," in front of the message; both may be absent. */
static void take_process(struct cursor *cursor, struct kmsg_xid *out)
{
	struct cursor at = *cursor, value;
	uint64_t pid;

	if (skip(&at, "pid=")) {
		bool quoted = skip(&at, "'");

		if (take_number(&at, UINT32_MAX - 1, &pid))
			out->pid = (uint32_t)pid;
		if (quoted && !take_until(&at, '\'', &value))
			return;
		if (!take_until(&at, ',', &value))
			at.left = 0;
		skip_blanks(&at);
		*cursor = at;
	}

	if (skip(&at, "name=")) {
		if (!take_until(&at, ',', &value))
			at.left = 0;
		skip_blanks(&at);
		*cursor = at;
	}
}

/* "UNIT Fatal|Nonfatal XC0|XC1 i0 Link nn (hex hex ...)", with several blanks between. */
static void read_nvlink(struct cursor cursor, struct kmsg_xid *out)
{
	struct cursor word;
	bool in_link = false;

	while (take_word(&cursor, &word)) {
		uint64_t link;

		if (word_is(&word, "Fatal") || word_is(&word, "Nonfatal")) {
			out->has_severity = true;
			out->fatal = word.at[0] == 'F';
		} else if (in_link &&
			   parse_u64_span(word.at, word.left, 0, GPU_LINK_MAX - 1, &link) == 0) {
			out->link = (int32_t)link;
		}

		in_link = word_is(&word, "Link");
	}
}

/* "GPU recovery action changed from 0xA (...) to 0xB (...)": B. */
static void read_recovery(struct cursor cursor, struct kmsg_xid *out)
{
	struct cursor word;
	bool after_to = false;

	while (take_word(&cursor, &word)) {
		uint64_t action;
		if (after_to && word.left > 2 && memcmp(word.at, "0x", 2) == 0 &&
		    parse_hex_span(word.at, word.left, UINT32_MAX - 1, &action) == 0) {
			out->recovery_action = (uint32_t)action;
			return;
		}

		after_to = word_is(&word, "to");
	}
}

/* "(PCI:dddd:bb:dd[ GPU-I:nn]): N, ..." behind "Xid ". */
static bool read_xid(struct cursor cursor, struct kmsg_xid *out)
{
	struct cursor place, address;
	uint64_t number;

	if (!skip(&cursor, "(") || !take_until(&cursor, ')', &place) || !skip(&cursor, ":"))
		return false;

	(void)skip(&place, "PCI:"); /* older drivers leave it out */
	if (!take_word(&place, &address) ||
	    pci_parse_address(address.at, address.left, &out->pci) < 0)
		return false;

	skip_blanks(&place);
	if (skip(&place, "GPU-I:") && take_number(&place, UINT32_MAX - 1, &number))
		out->gi = (uint32_t)number;

	skip_blanks(&cursor);
	if (!take_number(&cursor, KMSG_XID_MAX, &number) ||
	    (cursor.left > 0 && *cursor.at != ',' && *cursor.at != ' '))
		return false;

	out->xid = (uint32_t)number;
	(void)skip(&cursor, ",");
	skip_blanks(&cursor);
	take_process(&cursor, out);
	keep_text(&cursor, out->text);

	if (out->xid >= 144 && out->xid <= 150)
		read_nvlink(cursor, out);
	if (out->xid == 154)
		read_recovery(cursor, out);

	return true;
}

/* XID 79 without a number: "GPU dddd:bb:dd.0: GPU has fallen off the bus". */
static bool read_fallen(struct cursor cursor, struct kmsg_xid *out)
{
	struct cursor address;
	if (!skip(&cursor, "GPU ") || !take_word(&cursor, &address) || address.left < 2 ||
	    address.at[address.left - 1] != ':' ||
	    pci_parse_address(address.at, address.left - 1, &out->pci) < 0)
		return false;

	skip_blanks(&cursor);
	if (!skip(&cursor, "GPU has fallen off the bus"))
		return false;

	out->xid = KMSG_XID_FALLEN;
	struct cursor text = {"GPU has fallen off the bus", 26};
	keep_text(&text, out->text);

	return true;
}

/* The same in three records; the middle one only says what kind of GPU it is. */
static enum kmsg_kind read_three_lines(struct kmsg_parser *parser, struct cursor cursor,
				       struct kmsg_xid *out)
{
	struct cursor address;
	struct cursor first = cursor;

	if (skip(&first, "The NVIDIA GPU ") && take_word(&first, &address) &&
	    pci_parse_address(address.at, address.left, &parser->pci) == 0) {
		parser->lines = 1;
		return KMSG_CONTINUE;
	}

	if (parser->lines == 1 && skip(&cursor, "(PCI ID: ")) {
		parser->lines = 2;
		return KMSG_CONTINUE;
	}

	if (parser->lines == 2 && skip(&cursor, "fallen off the bus")) {
		parser->lines = 0;
		out->xid = KMSG_XID_FALLEN;
		out->pci = parser->pci;

		struct cursor text = {"GPU has fallen off the bus", 26};
		keep_text(&text, out->text);
		return KMSG_XID;
	}

	parser->lines = 0;
	return KMSG_OTHER;
}

/* Whether it was said a moment ago; it is remembered otherwise. */
static bool fell_before(struct kmsg_parser *parser, const struct kmsg_xid *xid)
{
	uint32_t count =
	    parser->fallen_count < KMSG_FALLEN_MAX ? parser->fallen_count : KMSG_FALLEN_MAX;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t then_us = parser->fallen[i].time_us;
		if (pci_address_compare(&parser->fallen[i].pci, &xid->pci) == 0 &&
		    xid->time_us >= then_us &&
		    xid->time_us - then_us < KMSG_DUPLICATE_NS / NS_PER_US)
			return true;
	}

	uint32_t place = parser->fallen_count++ % KMSG_FALLEN_MAX;
	parser->fallen[place].pci = xid->pci;
	parser->fallen[place].time_us = xid->time_us;

	return false;
}

enum kmsg_kind kmsg_parse(struct kmsg_parser *parser, const char *record, size_t length,
			  struct kmsg_xid *out)
{
	struct cursor cursor = {record, length};
	uint64_t facility;
	struct kmsg_xid xid = {
	    .gi = KMSG_NONE, .pid = KMSG_NONE, .link = -1, .recovery_action = KMSG_NONE};

	if (length > KMSG_RECORD_MAX || !take_head(&cursor, &facility, &xid.sequence, &xid.time_us))
		return KMSG_OTHER;

	const char *newline = memchr(cursor.at, '\n', cursor.left);
	if (newline)
		cursor.left = (size_t)(newline - cursor.at);
	if (!skip(&cursor, "NVRM: "))
		return KMSG_OTHER;
	if (facility != 0) {
		parser->forged++;
		return KMSG_FORGED;
	}

	struct cursor numbered = cursor;
	enum kmsg_kind kind = KMSG_OTHER;

	if (skip(&numbered, "Xid ")) {
		skip_blanks(&numbered);
		kind = read_xid(numbered, &xid) ? KMSG_XID : KMSG_OTHER;
	} else if (read_fallen(cursor, &xid)) {
		kind = KMSG_XID;
	} else {
		skip_blanks(&cursor);
		kind = read_three_lines(parser, cursor, &xid);
	}

	if (kind == KMSG_XID && xid.xid == KMSG_XID_FALLEN && fell_before(parser, &xid))
		return KMSG_OTHER;
	if (kind == KMSG_XID)
		*out = xid;

	return kind;
}

bool kmsg_is_duplicate(struct kmsg_recent *recent, const struct pci_address *pci, uint32_t xid,
		       uint32_t source, uint64_t time_ns)
{
	for (uint32_t i = 0; i < KMSG_RECENT_MAX; i++) {
		/* The kernel log names no function: 0000:07:00 is 0000:07:00.0. */
		struct pci_address known = recent->entry[i].pci, asked = *pci;
		known.function = asked.function = 0;
		if (recent->entry[i].time_ns == 0 || recent->entry[i].xid != xid ||
		    recent->entry[i].source == source || pci_address_compare(&known, &asked) != 0 ||
		    time_ns - recent->entry[i].time_ns > KMSG_DUPLICATE_NS)
			continue;

		recent->entry[i].time_ns = 0; /* it has met its twin: a third one is news */
		return true;
	}

	uint32_t slot = recent->next++ % KMSG_RECENT_MAX;
	recent->entry[slot].time_ns = time_ns ? time_ns : 1;
	recent->entry[slot].xid = xid;
	recent->entry[slot].source = source;
	recent->entry[slot].pci = *pci;

	return false;
}

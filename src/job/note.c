/* SPDX-License-Identifier: Apache-2.0 */
#include "job/note.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"

static bool note_is_name_byte(char byte)
{
	return byte > ' ' && byte < 0x7f;
}

size_t note_format(const struct note *note, char out[NOTE_TEXT_MAX])
{
	int length =
	    snprintf(out, NOTE_TEXT_MAX,
		     "sluice 1 pid=%" PRIu64 " uid=%" PRIu64 " since=%" PRIu64 " name=%s\n",
		     (uint64_t)note->pid, (uint64_t)note->uid, note->since_s, note->name);
	return length < 0 ? 0 : (size_t)length;
}

/* Moves past `word` if the text goes on with it. */
static bool note_skip(const char **text, size_t *length, const char *word)
{
	size_t word_length = strlen(word);
	if (*length < word_length || memcmp(*text, word, word_length) != 0)
		return false;
	*text += word_length;
	*length -= word_length;
	return true;
}

static bool note_number(const char **text, size_t *length, uint64_t max, uint64_t *out)
{
	size_t digits = 0;
	while (digits < *length && (*text)[digits] >= '0' && (*text)[digits] <= '9')
		digits++;

	if (parse_u64_span(*text, digits, 0, max, out) < 0)
		return false;

	*text += digits;
	*length -= digits;
	return true;
}

int note_parse(const char *text, size_t length, struct note *out, struct err *err)
{
	uint64_t pid, uid, since;
	bool good =
	    note_skip(&text, &length, "sluice 1 pid=") &&
	    note_number(&text, &length, INT32_MAX, &pid) && note_skip(&text, &length, " uid=") &&
	    note_number(&text, &length, UINT32_MAX, &uid) && note_skip(&text, &length, " since=") &&
	    note_number(&text, &length, UINT32_MAX * UINT64_C(16), &since) &&
	    note_skip(&text, &length, " name=");
	if (!good)
		return err_set(err, -EINVAL, "the note of a GPU's holder is not one of sluice's");

	if (length > 0 && text[length - 1] == '\n')
		length--;
	if (length >= NOTE_NAME_MAX)
		return err_set(err, -EINVAL, "the name in a GPU holder's note is too long");

	for (size_t i = 0; i < length; i++)
		if (!note_is_name_byte(text[i]))
			return err_set(err, -EINVAL,
				       "the name in a GPU holder's note has odd bytes");

	*out = (struct note){.pid = (pid_t)pid, .uid = (uid_t)uid, .since_s = since};
	memcpy(out->name, text, length);
	return 0;
}

void note_set_name(struct note *note, const char *text)
{
	size_t length = strnlen(text, NOTE_NAME_MAX - 1);
	for (size_t i = 0; i < length; i++)
		note->name[i] = note_is_name_byte(text[i]) ? text[i] : '-';
	note->name[length] = '\0';
	if (length == 0)
		memcpy(note->name, "job", sizeof("job"));
}

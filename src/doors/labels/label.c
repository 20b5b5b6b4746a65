/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/label.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum label_internals {
	LABEL_TEXT_SIZE = 512, /* of a sanitised text before it is cut */
	LABEL_FIRST_CAPACITY = 64,
};

void label_set_init(struct label_set *set)
{
	memset(set, 0, sizeof(*set));
}

void label_set_done(struct label_set *set)
{
	free(set->items);
	label_set_init(set);
}

void label_set_warn(struct label_set *set, const char *format, ...)
{
	if (set->warning_count < LABEL_WARNINGS_MAX) {
		va_list arguments;
		va_start(arguments, format);
		(void)vsnprintf(set->warning[set->warning_count], LABEL_WARNING_SIZE, format,
				arguments);
		va_end(arguments);
	}

	set->warning_count++;
}

/* Not isalnum(): the locale has no say in what a label may hold. */
static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_allowed(char c)
{
	return is_alnum(c) || c == '-' || c == '_' || c == '.';
}

bool label_value_is_valid(const char *value)
{
	size_t length = strlen(value);
	if (length == 0)
		return true;
	if (length >= LABEL_VALUE_SIZE || !is_alnum(value[0]) || !is_alnum(value[length - 1]))
		return false;

	for (size_t i = 0; i < length; i++) {
		if (!is_allowed(value[i]))
			return false;
	}

	return true;
}

bool label_key_is_valid(const char *key)
{
	const char *slash = strchr(key, '/');
	return slash && slash != key && slash[1] != '\0' && strlen(key) < LABEL_KEY_SIZE &&
	       label_value_is_valid(slash + 1);
}

/* Where `key` is, or would be. */
static size_t find(const struct label_set *set, const char *key, bool *out_found)
{
	size_t low = 0, high = set->count;

	*out_found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(set->items[middle].key, key);
		if (order == 0)
			*out_found = true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}

	return low;
}

void label_set_put(struct label_set *set, const char *key, const char *value)
{
	bool found;

	if (set->error < 0)
		return;

	if (!label_key_is_valid(key) || !label_value_is_valid(value)) {
		label_set_warn(set, "label %.100s=%.100s is left out: Kubernetes would refuse it",
			       key, value);
		return;
	}

	size_t at = find(set, key, &found);

	if (!found && set->count == LABEL_SET_MAX) {
		label_set_warn(set, "label %.100s is left out: there are %d already", key,
			       LABEL_SET_MAX);
		return;
	}

	if (!found) {
		if (array_room(&set->items, set->count, &set->capacity, LABEL_FIRST_CAPACITY) < 0) {
			set->error = -ENOMEM;
			return;
		}

		memmove(&set->items[at + 1], &set->items[at],
			(set->count - at) * sizeof(*set->items));
		set->count++;
	}

	struct label *label = &set->items[at];
	memset(label, 0, sizeof(*label));
	memcpy(label->key, key, strlen(key));
	memcpy(label->value, value, strlen(value));
}

void label_set_drop(struct label_set *set, const char *key)
{
	bool found;
	size_t at = find(set, key, &found);
	if (!found)
		return;
	set->count--;
	memmove(&set->items[at], &set->items[at + 1], (set->count - at) * sizeof(*set->items));
}

const char *label_set_get(const struct label_set *set, const char *key)
{
	bool found;
	size_t at = find(set, key, &found);
	return found ? set->items[at].value : NULL;
}

void label_sanitise(const char *text, size_t length, char *out, size_t size)
{
	size_t used = 0;
	bool in_word = false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == ' ')
			in_word = false;
		if (!is_allowed(text[i]))
			continue;
		if (!in_word && used > 0 && used + 1 < size)
			out[used++] = '-';
		in_word = true;

		if (used + 1 < size)
			out[used++] = text[i];
	}

	out[used] = '\0';
}

/* Takes what is no letter or digit off both ends, and what is longer than `max`. */
static void trim(char *text, size_t max)
{
	size_t start = 0, length = strlen(text);
	while (start < length && !is_alnum(text[start]))
		start++;

	length -= start;
	memmove(text, text + start, length);
	if (length > max)
		length = max;

	while (length > 0 && !is_alnum(text[length - 1]))
		length--;

	text[length] = '\0';
}

void label_value(const char *text, size_t length, char out[LABEL_VALUE_SIZE])
{
	char whole[LABEL_TEXT_SIZE];
	label_sanitise(text, length, whole, sizeof(whole));
	trim(whole, LABEL_VALUE_SIZE - 1);
	memcpy(out, whole, strlen(whole) + 1);
}

void label_value_with_suffix(const char *text, const char *suffix, char out[LABEL_VALUE_SIZE])
{
	char whole[LABEL_TEXT_SIZE];
	size_t behind = strnlen(suffix, LABEL_VALUE_SIZE - 1);

	label_sanitise(text, strlen(text), whole, sizeof(whole));
	/* A text that need not be cut keeps its own end, as with GPU feature discovery. */
	size_t length = strlen(whole);
	if (length + behind >= LABEL_VALUE_SIZE || behind == 0)
		trim(whole, LABEL_VALUE_SIZE - 1 - behind);
	length = strlen(whole);
	if (length > 0) {
		memcpy(whole + length, suffix, behind);
		whole[length + behind] = '\0';
		trim(whole, LABEL_VALUE_SIZE - 1);
	}

	memcpy(out, whole, strlen(whole) + 1);
}

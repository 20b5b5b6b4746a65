/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nccl/fault.h"

#include <string.h>

/* Digits up to `end`; false for none or too many. */
static bool number_parse(const char *text, const char *end, uint64_t *out)
{
	uint64_t value = 0;

	if (text == end)
		return false;

	for (; text < end; text++) {
		if (*text < '0' || *text > '9' ||
		    __builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return false;
	}

	*out = value;
	return true;
}

static bool word_is(const char *text, const char *end, const char *word)
{
	return (size_t)(end - text) == strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

static bool word_begins(const char *text, const char *end, const char *word, const char **out_rest)
{
	size_t length = strlen(word);
	if ((size_t)(end - text) < length || memcmp(text, word, length) != 0)
		return false;
	*out_rest = text + length;
	return true;
}

static bool word_parse(const char *text, const char *end, struct nccl_fault *out)
{
	const char *rest = NULL;

	if (word_is(text, end, "socket"))
		return out->is_socket = true;
	if (word_is(text, end, "shm"))
		return out->is_shm = true;
	if (word_is(text, end, "init"))
		return out->is_init = true;
	if (word_begins(text, end, "hang=", &rest))
		return number_parse(rest, end, &out->hang_bytes);

	if (word_begins(text, end, "async=", &rest))
		return number_parse(rest, end, &out->async_bytes);

	if (word_begins(text, end, "wrong=", &rest)) {
		const char *colon = memchr(rest, ':', (size_t)(end - rest));
		uint64_t rank = 0;

		if (!colon || !number_parse(rest, colon, &rank) || rank > UINT32_MAX ||
		    !number_parse(colon + 1, end, &out->wrong_element))
			return false;

		out->wrong_rank = (uint32_t)rank;
		return out->has_wrong = true;
	}

	return false;
}

bool fault_parse(const char *text, struct nccl_fault *out, const char **out_bad)
{
	struct nccl_fault fault = {.hang_bytes = UINT64_MAX, .async_bytes = UINT64_MAX};

	while (text && *text) {
		const char *end = text + strcspn(text, ",");
		if (!word_parse(text, end, &fault)) {
			*out_bad = text;
			return false;
		}

		text = *end ? end + 1 : end;
	}

	*out = fault;
	return true;
}

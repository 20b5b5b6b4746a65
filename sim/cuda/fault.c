/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/fault.h"

#include <string.h>

enum { FAULT_NUMBER_MAX = 1000000000, DEFAULT_DIE = 719, DEFAULT_STALL_MS = 1000 };

static const struct {
	const char *name;
	enum fault_kind kind;
	bool needs_at;
	uint64_t value;
} fault_rows[] = {
    {"flip", FAULT_FLIP, true, 0},
    {"nan", FAULT_NAN, true, 0},
    {"die", FAULT_DIE, true, DEFAULT_DIE},
    {"stall", FAULT_STALL, true, DEFAULT_STALL_MS},
    {"oom", FAULT_OOM, true, 0},
    {"jit", FAULT_JIT, false, 0},
    {"event-hang", FAULT_EVENT_HANG, false, 0},
    {"procaddress", FAULT_PROC_ADDRESS, false, 0},
    {"missing", FAULT_MISSING, false, 0},
};

static bool number(const char *text, size_t length, uint64_t *out)
{
	uint64_t value = 0;

	if (length == 0)
		return false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
		if (value > FAULT_NUMBER_MAX)
			return false;
	}

	*out = value;
	return true;
}

static bool name_take(const char *text, size_t length, char out[FAULT_NAME_MAX])
{
	if (length < 3 || length >= FAULT_NAME_MAX || memcmp(text, "cu", 2) != 0)
		return false;
	memcpy(out, text, length);
	out[length] = '\0';
	return true;
}

/* One word of `length` bytes. */
static bool word_parse(const char *word, size_t length, struct fault *out)
{
	const char *is = memchr(word, '=', length);
	size_t head = is ? (size_t)(is - word) : length;
	const char *at = memchr(word, '@', head);
	size_t name = at ? (size_t)(at - word) : head;
	size_t rest = is ? length - head - 1 : 0;

	*out = (struct fault){0};
	if (at && (!number(at + 1, head - name - 1, &out->at) || out->at == 0))
		return false;
	if (name_take(word, name, out->name)) {
		out->kind = FAULT_CALL;
		return is && number(is + 1, rest, &out->value);
	}

	for (size_t i = 0; i < sizeof(fault_rows) / sizeof(*fault_rows); i++) {
		if (strlen(fault_rows[i].name) != name ||
		    memcmp(fault_rows[i].name, word, name) != 0)
			continue;

		out->kind = fault_rows[i].kind;
		out->value = fault_rows[i].value;
		if (out->kind == FAULT_MISSING)
			return is && !at && name_take(is + 1, rest, out->name);

		return fault_rows[i].needs_at == (at != NULL) &&
		       (!is || (out->value && number(is + 1, rest, &out->value)));
	}

	return false;
}

int faults_parse(const char *text, struct faults *out, const char **out_word)
{
	*out = (struct faults){0};
	while (text && *text) {
		size_t length = strcspn(text, ",");

		*out_word = text;
		if (out->count == FAULT_MAX || !word_parse(text, length, &out->fault[out->count]))
			return -1;

		out->count++;
		text += length;
		text += *text == ',';
	}

	return 0;
}

/* "cuInit" names cuInit, and "cuMemAlloc" also cuMemAlloc_v2. */
static bool is_named(const char *name, const char *function)
{
	size_t length = strlen(name);

	return strncmp(name, function, length) == 0 &&
	       (function[length] == '\0' ||
		(function[length] == '_' && function[length + 1] == 'v'));
}

bool faults_strike(struct faults *faults, enum fault_kind kind, const char *name,
		   uint64_t *out_value)
{
	bool is_struck = false;

	for (uint32_t i = 0; i < faults->count && i < FAULT_MAX; i++) {
		struct fault *fault = &faults->fault[i];

		if (fault->kind != kind || (name && !is_named(fault->name, name)))
			continue;

		fault->seen++;
		/* memory that ran out stays so; everything else happens once */
		if (fault->at == 0 || fault->seen == fault->at ||
		    (kind == FAULT_OOM && fault->seen > fault->at)) {
			*out_value = fault->value;
			is_struck = true;
		}
	}

	return is_struck;
}

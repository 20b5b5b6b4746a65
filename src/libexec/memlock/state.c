/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/memlock/state.h"

#include "libexec/memlock/scan.h"

bool memlock_state_parse(const char *bytes, size_t length, struct memlock_state *out)
{
	struct memlock_scan scan;
	struct memlock_state state = {.pid = 0};

	scan_start(&scan, bytes, length);
	struct scan_token token = scan_next(&scan);
	if (token.kind != SCAN_OBJECT)
		return false;

	while (token.kind != SCAN_END) {
		token = scan_next(&scan);
		uint64_t pid;

		if (token.kind == SCAN_BAD)
			return false;
		if (token.depth != 1)
			continue;

		if (scan_is_key(&token, "pid")) {
			if (!scan_number(&token, &pid) || pid > INT32_MAX)
				return false;

			state.pid = (int32_t)pid;
		} else if (scan_is_key(&token, "id") && token.kind == SCAN_STRING) {
			state.id = token.text;
			state.id_length = token.length;
		} else if (scan_is_key(&token, "bundle") && token.kind == SCAN_STRING) {
			state.bundle = token.text;
			state.bundle_length = token.length;
		}
	}

	if (state.pid <= 1)
		return false;

	*out = state;
	return true;
}

/* One object of process.rlimits, from behind its opening. False: it is no JSON. */
static bool state_rlimit(struct memlock_scan *scan, uint32_t depth, struct state_limit *out,
			 bool *out_is_it)
{
	bool has_soft = false;
	bool has_hard = false;
	bool is_memlock = false;
	struct state_limit limit = {0};

	for (;;) {
		struct scan_token token = scan_next(scan);
		if (token.kind == SCAN_BAD)
			return false;

		if (token.kind == SCAN_CLOSE && token.depth == depth) {
			*out_is_it = is_memlock && has_soft && has_hard;
			if (*out_is_it)
				*out = limit;
			return true;
		}

		if (token.depth != depth + 1)
			continue;

		if (scan_is_key(&token, "type"))
			is_memlock = scan_is_text(&token, "RLIMIT_MEMLOCK");
		else if (scan_is_key(&token, "soft"))
			has_soft = scan_number(&token, &limit.soft);
		else if (scan_is_key(&token, "hard"))
			has_hard = scan_number(&token, &limit.hard);
	}
}

bool state_config_parse(const char *bytes, size_t length, struct state_limit *out)
{
	enum { IN_PROCESS = 2, IN_RLIMITS = 3 }; /* depth of what lies in them */
	struct memlock_scan scan;
	bool is_process = false;
	bool is_rlimits = false;
	bool is_found = false;

	scan_start(&scan, bytes, length);

	for (;;) {
		struct scan_token token = scan_next(&scan);
		if (token.kind == SCAN_BAD || token.kind == SCAN_END)
			return is_found && token.kind == SCAN_END;

		if (token.depth == IN_PROCESS - 1 && token.kind != SCAN_CLOSE)
			is_process = token.kind == SCAN_OBJECT && scan_is_key(&token, "process");
		else if (token.depth == IN_RLIMITS - 1 && token.kind != SCAN_CLOSE)
			is_rlimits = is_process && token.kind == SCAN_ARRAY &&
				     scan_is_key(&token, "rlimits");
		else if (token.depth == IN_RLIMITS && token.kind == SCAN_OBJECT && is_process &&
			 is_rlimits) {
			bool is_it = false;
			if (!state_rlimit(&scan, IN_RLIMITS, out, &is_it))
				return false;

			is_found = is_found || is_it;
		}
	}
}

bool state_limit_parse(const char *text, size_t length, uint64_t *out)
{
	struct scan_token word = {.kind = SCAN_STRING, .text = text, .length = length};
	if (scan_is_text(&word, "unlimited")) {
		*out = STATE_UNLIMITED;
		return true;
	}
	word.kind = SCAN_NUMBER;
	return length > 0 && scan_number(&word, out) && *out > 0;
}

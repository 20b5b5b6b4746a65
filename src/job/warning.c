/* SPDX-License-Identifier: Apache-2.0 */
#include "job/warning.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"

/* "TERM", "sigterm", "15". 0: there is no such signal. */
static uint32_t warning_signal(const char *text, size_t length)
{
	uint64_t number;
	if (parse_u64_span(text, length, 1, WARNING_SIGNAL_LAST, &number) == 0)
		return (uint32_t)number;

	if (length > 3 && strncasecmp(text, "SIG", 3) == 0) {
		text += 3;
		length -= 3;
	}

	for (uint32_t signal = 1; signal <= WARNING_SIGNAL_LAST; signal++) {
		const char *name = sigabbrev_np((int)signal);
		if (name && strlen(name) == length && strncasecmp(name, text, length) == 0)
			return signal;
	}

	return 0;
}

int warning_parse(const char *text, size_t length, struct warning *out, struct err *err)
{
	struct warning warning = {.before_ns = WARNING_BEFORE_S * CLOCK_NS_PER_S};
	int shown = (int)(length < WARNING_TEXT_MAX ? length : WARNING_TEXT_MAX - 1);
	char time[WARNING_TEXT_MAX];

	if (length >= WARNING_TEXT_MAX || memchr(text, '\0', length))
		return err_set(err, -EINVAL, "'%.*s...' is no signal: expected " WARNING_FORMS,
			       shown, text);

	warning.command_alone = length > 2 && strncasecmp(text, "B:", 2) == 0;

	const char *name = text + (warning.command_alone ? 2 : 0);
	size_t left = length - (size_t)(name - text);
	const char *at = memchr(name, '@', left);
	size_t name_length = at ? (size_t)(at - name) : left;

	warning.signal = warning_signal(name, name_length);
	if (warning.signal == 0)
		return err_set(err, -EINVAL, "'%.*s' is no signal: expected " WARNING_FORMS, shown,
			       text);
	if (warning.signal == SIGKILL || warning.signal == SIGSTOP)
		return err_set(err, -EINVAL,
			       "'%.*s': no program can act on %s; take one that it can catch, "
			       "such as USR1 or TERM",
			       shown, text, sigabbrev_np((int)warning.signal));

	if (at) {
		(void)snprintf(time, sizeof(time), "%.*s", (int)(left - name_length - 1), at + 1);
		if (parse_duration(time, CLOCK_NS_PER_S, INT64_MAX, &warning.before_ns) < 0)
			return err_set(err, -EINVAL,
				       "'%s' is no time before the end: expected seconds, or 90s, "
				       "5m, 1h30m",
				       time);
	}

	*out = warning;
	return 0;
}

const char *warning_format(const struct warning *warning, char out[WARNING_TEXT_MAX])
{
	const char *name = sigabbrev_np((int)warning->signal);
	char number[16];

	out[0] = '\0';
	if (warning->signal == 0)
		return out;

	(void)snprintf(number, sizeof(number), "%" PRIu32, warning->signal);
	(void)snprintf(out, WARNING_TEXT_MAX, "%s%s@%" PRIu64 "s",
		       warning->command_alone ? "B:" : "", name ? name : number,
		       warning->before_ns / CLOCK_NS_PER_S);
	return out;
}

int warning_check(const struct warning *warning, uint64_t limit_ns, struct err *err)
{
	char text[WARNING_TEXT_MAX];

	if (warning->signal == 0)
		return 0;

	(void)warning_format(warning, text);
	if (limit_ns == 0)
		return err_set(err, -EINVAL,
			       "--signal %s: the job has no time limit that it could be told of; "
			       "give it one with --time",
			       text);
	if (warning->before_ns >= limit_ns)
		return err_set(err, -EINVAL,
			       "--signal %s: the job may run %" PRIu64
			       " s, and would be told before it starts; give a shorter time "
			       "behind @, or a longer --time",
			       text, limit_ns / CLOCK_NS_PER_S);

	return 0;
}

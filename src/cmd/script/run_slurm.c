/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/script/run_slurm.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/parse.h"
#include "base/text.h"

enum { SLURM_VALUE_MAX = 128 };

/* How its value is written here. */
enum slurm_form {
	SLURM_SAME,   /* as it is */
	SLURM_FLAG,   /* it has none */
	SLURM_TIME,   /* 90, 1:30:00, 2-12 */
	SLURM_MEMORY, /* 16G; without a unit MiB */
	SLURM_GRES,   /* gpu:2, gpu:a100:2 */
	SLURM_AFTER,  /* afterok:12:13 */
	SLURM_NICE,   /* the other way round */
	SLURM_NONE,   /* there is none: `ours` says why */
};

struct slurm_row {
	const char *name;
	char letter;
	enum slurm_form form;
	const char *ours;
};

static const struct slurm_row slurm_rows[] = {
    {"job-name", 'J', SLURM_SAME, "--name"},
    {"time", 't', SLURM_TIME, "--time"},
    {"gres", 0, SLURM_GRES, "--gpus"},
    {"gpus", 'G', SLURM_GRES, "--gpus"},
    {"gpus-per-node", 0, SLURM_GRES, "--gpus"},
    {"gpus-per-task", 0, SLURM_GRES, "--gpus"},
    {"cpus-per-task", 'c', SLURM_SAME, "--cpus"},
    {"mem", 0, SLURM_MEMORY, "--mem"},
    {"array", 'a', SLURM_SAME, "--array"},
    {"output", 'o', SLURM_SAME, "--output"},
    {"dependency", 'd', SLURM_AFTER, "--after"},
    {"begin", 'b', SLURM_SAME, "--begin"},
    {"hold", 'H', SLURM_FLAG, "--hold"},
    {"chdir", 'D', SLURM_SAME, "--cwd"},
    {"account", 'A', SLURM_SAME, "--project"},
    {"signal", 0, SLURM_SAME, "--signal"},
    {"requeue", 0, SLURM_FLAG, "--retry-lost"},
    {"nice", 0, SLURM_NICE, "--priority"},
    {"partition", 'p', SLURM_NONE, "a machine has one queue"},
    {"qos", 'q', SLURM_NONE, "a machine has one queue"},
    {"nodes", 'N', SLURM_NONE, "a queue has one machine"},
    {"nodelist", 'w', SLURM_NONE, "a queue has one machine"},
    {"exclusive", 0, SLURM_NONE, "a job's GPUs are its own anyway"},
    {"ntasks", 'n', SLURM_NONE, "--workers is for a job of several processes with GPUs each"},
    {"ntasks-per-node", 0, SLURM_NONE,
     "--workers is for a job of several processes with GPUs each"},
    {"error", 'e', SLURM_NONE, "'sluice logs --stderr' shows errors apart"},
    {"mail-type", 0, SLURM_NONE, "--on-end runs a command, which may send mail"},
    {"mail-user", 0, SLURM_NONE, "--on-end runs a command, which may send mail"},
    {"export", 0, SLURM_NONE, "a job has the environment of whoever submits it, and --env"},
    {"no-requeue", 0, SLURM_NONE, "a job runs again only with --retries or --retry-lost"},
};

/* "D-H:M:S" and all that sbatch(1) takes as a time, in seconds. False: it is none. */
static bool slurm_seconds(const char *text, uint64_t *out)
{
	static const uint64_t units[] = {3600, 60, 1};
	const char *dash = strchr(text, '-'), *at = dash ? dash + 1 : text;
	uint64_t part[3] = {0}, days = 0;
	size_t count = 0;

	if (dash && parse_u64_span(text, (size_t)(dash - text), 0, 10000, &days) < 0)
		return false;

	for (; count < array_length(part); count++) {
		size_t length = strcspn(at, ":");
		if (parse_u64_span(at, length, 0, 1000000, &part[count]) < 0)
			return false;

		at += length;
		if (*at == '\0')
			break;
		at++;
	}

	if (count == array_length(part))
		return false;

	/* Behind days come hours; else "90" and "90:30" begin with minutes. */
	size_t first = dash || count == 2 ? 0 : 1;

	*out = days * 86400;
	for (size_t i = 0; i <= count; i++)
		*out += part[i] * units[first + i];

	return true;
}

static bool slurm_time(const char *value, char out[SLURM_VALUE_MAX])
{
	uint64_t seconds;
	if (!slurm_seconds(value, &seconds) || seconds == 0)
		return false;

	size_t used = 0;
	const struct {
		uint64_t of;
		char unit;
	} parts[] = {{3600, 'h'}, {60, 'm'}, {1, 's'}};

	for (size_t i = 0; i < array_length(parts); i++) {
		uint64_t count = seconds / parts[i].of;
		seconds %= parts[i].of;
		if (count > 0)
			used += (size_t)snprintf(out + used, SLURM_VALUE_MAX - used,
						 "%" PRIu64 "%c", count, parts[i].unit);
	}

	return true;
}

static bool slurm_memory(const char *value, char out[SLURM_VALUE_MAX])
{
	size_t digits = strspn(value, "0123456789");
	const char *unit = value + digits;
	uint64_t size;

	if (parse_u64_span(value, digits, 1, UINT32_MAX, &size) < 0 || strlen(unit) > 1 ||
	    (*unit && !strchr("KMGTkmgt", *unit)))
		return false;

	char upper = *unit >= 'a' ? (char)(*unit - 'a' + 'A') : *unit;
	(void)snprintf(out, SLURM_VALUE_MAX, "%" PRIu64 "%ci", size, upper ? upper : 'M');
	return true;
}

/* "gpu:a100:2", "a100:2", "2". */
static bool slurm_gres(const char *value, char out[SLURM_VALUE_MAX])
{
	bool has_kind = text_starts_with(value, "gpu") && (value[3] == ':' || value[3] == '\0');
	const char *at = has_kind ? value + 3 : value;
	at += *at == ':';

	const char *colon = strrchr(at, ':'), *number = colon ? colon + 1 : at;
	uint64_t count = 1;
	bool has_count = parse_u64(number, 0, 4096, &count) == 0;
	size_t type = has_count ? (colon ? (size_t)(colon - at) : 0) : strlen(at);

	if (strpbrk(at, ",=") || (colon && !has_count))
		return false;

	if (type > 0)
		(void)snprintf(out, SLURM_VALUE_MAX, "%" PRIu64 " --gpu-type '*%.*s*'", count,
			       (int)type, at);
	else
		(void)snprintf(out, SLURM_VALUE_MAX, "%" PRIu64, count);

	return true;
}

/* "afterok:12:13" as "--after-ok 12,13". */
static bool slurm_after(const char *value, char out[RUN_SLURM_TEXT_MAX])
{
	bool has_ok = text_starts_with(value, "afterok:");
	if (!has_ok && !text_starts_with(value, "afterany:"))
		return false;

	(void)snprintf(out, RUN_SLURM_TEXT_MAX, "--after%s %s", has_ok ? "-ok" : "",
		       strchr(value, ':') + 1);
	for (char *at = out; *at; at++)
		if (*at == ':')
			*at = ',';

	return !strpbrk(value, ",?");
}

static bool slurm_write(const struct slurm_row *row, const char *value,
			char out[RUN_SLURM_TEXT_MAX])
{
	char ours[SLURM_VALUE_MAX] = "";
	uint64_t nice;
	bool is_known = value[0] != '\0';

	switch (row->form) {
	case SLURM_NONE:
	case SLURM_FLAG:
		(void)snprintf(out, RUN_SLURM_TEXT_MAX, "%s", row->ours);
		return true;
	case SLURM_AFTER:
		return slurm_after(value, out);
	case SLURM_SAME:
		(void)snprintf(ours, sizeof(ours), "%s", value);
		break;
	case SLURM_TIME:
		is_known = slurm_time(value, ours);
		break;
	case SLURM_MEMORY:
		is_known = slurm_memory(value, ours);
		break;
	case SLURM_GRES:
		is_known = is_known && slurm_gres(value, ours);
		break;
	case SLURM_NICE:
		is_known = parse_u64(value, 0, 100, &nice) == 0;
		(void)snprintf(ours, sizeof(ours), "-%" PRIu64, is_known ? nice : 0);
		break;
	}

	(void)snprintf(out, RUN_SLURM_TEXT_MAX, "%s %s", row->ours, ours);
	return is_known;
}

static const struct slurm_row *slurm_find(const char *name, size_t length, char letter)
{
	for (size_t i = 0; i < array_length(slurm_rows); i++) {
		const struct slurm_row *row = &slurm_rows[i];
		bool is_it =
		    letter ? row->letter == letter
			   : strlen(row->name) == length && memcmp(row->name, name, length) == 0;
		if (is_it)
			return row;
	}
	return NULL;
}

bool run_slurm_translate(const char *text, size_t length, char out[RUN_SLURM_TEXT_MAX],
			 bool *out_is_option)
{
	char line[SLURM_VALUE_MAX];
	if (length < 2 || length >= sizeof(line) || text[0] != '-' || memchr(text, '\0', length))
		return false;

	memcpy(line, text, length);
	line[length] = '\0';

	bool is_long = line[1] == '-';
	char *name = line + (is_long ? 2 : 1);
	size_t name_length = is_long ? strcspn(name, "= \t") : 1;
	const struct slurm_row *row = slurm_find(name, name_length, is_long ? '\0' : name[0]);
	if (!row)
		return false;

	char *value = name + name_length;
	value += strspn(value, is_long ? "= \t" : " \t");
	value[strcspn(value, " \t")] = '\0'; /* a second option, or a remark */

	*out_is_option = row->form != SLURM_NONE;
	return slurm_write(row, value, out);
}

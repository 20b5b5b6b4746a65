/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/belonging.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/parse.h"

enum { BELONGING_ID_DIGITS = 64, BELONGING_UID_LENGTH = 36, BELONGING_HASH_DIGITS = 32 };

/* A piece of a path, without its slashes. */
struct belonging_part {
	const char *text;
	size_t length;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_lower_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

static bool part_begins(const struct belonging_part *part, const char *word)
{
	size_t length = strlen(word);
	return part->length >= length && memcmp(part->text, word, length) == 0;
}

static bool part_has(const struct belonging_part *part, const char *word)
{
	return memmem(part->text, part->length, word, strlen(word)) != NULL;
}

/* The part behind `at`, which is moved behind it; false at the end. */
static bool path_next(const char **at, const char *end, struct belonging_part *out)
{
	while (*at < end && **at == '/')
		++*at;

	if (*at == end)
		return false;

	const char *slash = memchr(*at, '/', (size_t)(end - *at));

	out->text = *at;
	out->length = (size_t)((slash ? slash : end) - *at);
	*at = out->text + out->length;

	return true;
}

/* --- containers --------------------------------------------------------------------------------
 */

/* The last run of exactly 64 digits between '/', '-', '.', ':' or an end; NULL. */
static const char *belonging_find_id(const char *path, const char *end)
{
	static const char bounds[] = "/-.:";
	const char *stop = end;

	while (stop > path) {
		const char *begin = stop;
		while (begin > path && is_lower_hex(begin[-1]))
			begin--;

		if (stop - begin == BELONGING_ID_DIGITS &&
		    (begin == path || strchr(bounds, begin[-1])) &&
		    (stop == end || strchr(bounds, *stop)))
			return begin;

		stop = begin > path ? begin - 1 : begin;
	}

	return NULL;
}

/* What stands in front of the id, up to the slash or colon. */
static const char *belonging_runtime(const char *path, const char *id)
{
	static const struct {
		const char *prefix, *runtime;
	} names[] = {{"cri-containerd-", "containerd"},
		     {"crio-", "cri-o"},
		     {"docker-", "docker"},
		     {"libpod-", "podman"},
		     {"nerdctl-", "nerdctl"}};
	const char *begin = id;

	if (id > path && id[-1] == ':') { /* "system.slice:cri-containerd:ID" */
		begin = --id;
		while (begin > path && begin[-1] != ':' && begin[-1] != '/')
			begin--;

		const struct belonging_part word = {begin, (size_t)(id - begin)};
		for (size_t i = 0; i < array_length(names); i++)
			if (word.length + 1 == strlen(names[i].prefix) &&
			    memcmp(word.text, names[i].prefix, word.length) == 0)
				return names[i].runtime;

		return "";
	}

	while (begin > path && begin[-1] != '/')
		begin--;

	const struct belonging_part prefix = {begin, (size_t)(id - begin)};
	for (size_t i = 0; i < array_length(names); i++)
		if (prefix.length == strlen(names[i].prefix) &&
		    part_begins(&prefix, names[i].prefix))
			return names[i].runtime;

	if (begin != id)
		return "";

	const struct belonging_part before = {path, (size_t)(id - path)};
	static const char docker[] = "/docker/";

	return before.length >= sizeof(docker) - 1 &&
		       memcmp(id - (sizeof(docker) - 1), docker, sizeof(docker) - 1) == 0
		   ? "docker"
		   : "";
}

/* The monitor of a container is no part of it: "crio-conmon-ID", "libpod-conmon-ID". */
static bool belonging_is_monitor(const char *path, const char *id)
{
	static const char conmon[] = "conmon-";
	return id - path >= (ptrdiff_t)sizeof(conmon) - 1 &&
	       memcmp(id - (sizeof(conmon) - 1), conmon, sizeof(conmon) - 1) == 0;
}

/* --- pods --------------------------------------------------------------------------------------
 */

/* Whether `uid` begins with 8-4-4-4-12 digits, or 32 of them, and nothing more. How many. */
static size_t belonging_uid_length(const char *uid, const char *end)
{
	static const char bounds[] = "/.:";
	size_t length = 0, left = (size_t)(end - uid);
	while (length < left && length < BELONGING_HASH_DIGITS && is_lower_hex(uid[length]))
		length++;

	if (length != BELONGING_HASH_DIGITS) {
		for (length = 0; length < left && length < BELONGING_UID_LENGTH; length++) {
			bool is_dash = length == 8 || length == 13 || length == 18 || length == 23;
			char c = uid[length];
			if (is_dash ? c != '-' && c != '_' : !is_lower_hex(c))
				break;
		}

		if (length != BELONGING_UID_LENGTH)
			return 0;
	}

	return length == left || strchr(bounds, uid[length]) ? length : 0;
}

static void belonging_find_pod(const char *path, const char *end, struct belonging *out)
{
	static const char key[] = "pod";
	enum { KEY = sizeof(key) - 1 };

	for (const char *at = end - path > KEY ? end - KEY : path; at > path; at--) {
		size_t length;
		if (memcmp(at, key, KEY) != 0 || (at[-1] != '/' && at[-1] != '-') ||
		    (length = belonging_uid_length(at + KEY, end)) == 0)
			continue;

		for (size_t i = 0; i < length; i++)
			out->pod[i] = at[KEY + i] == '_' ? '-' : at[KEY + i];

		out->pod[length] = '\0';
		return;
	}
}

/* --- jobs --------------------------------------------------------------------------------------
 */

/* "job-12-1a2b3c4d", "job-12", "sluice-job-12.scope". */
static void belonging_read_job(const struct belonging_part *part, struct belonging *out)
{
	static const char prefix[] = "sluice-job-", plain[] = "job-";
	size_t skip = part_begins(part, prefix) ? sizeof(prefix) - 1 : sizeof(plain) - 1;
	const char *at = part->text + skip, *end = part->text + part->length, *digits = at;
	uint64_t id;

	while (at < end && is_digit(*at))
		at++;

	if (parse_u64_span(digits, (size_t)(at - digits), 1, UINT64_MAX, &id) < 0)
		return;

	char instance[sizeof(out->job_instance)] = "";
	if (end - at == (ptrdiff_t)sizeof(instance) && *at == '-')
		(void)snprintf(instance, sizeof(instance), "%.8s", at + 1);
	else if (at != end && !(end - at == 6 && memcmp(at, ".scope", 6) == 0))
		return;

	out->job = id;
	memcpy(out->job_instance, instance, sizeof(instance));
}

static void belonging_find_job(const char *path, const char *end, struct belonging *out)
{
	struct belonging_part part;
	bool in_sluice = false, in_slurm = false;

	while (path_next(&path, end, &part)) {
		if (part_begins(&part, "sluice-job-") || (in_sluice && part_begins(&part, "job-")))
			belonging_read_job(&part, out);
		if (in_slurm && part_begins(&part, "job_"))
			(void)parse_u64_span(part.text + 4, part.length - 4, 1, UINT64_MAX,
					     &out->slurm_job);

		in_sluice = part_begins(&part, "sluice");
		in_slurm |= part_has(&part, "slurm");
	}
}

/* --- lines -------------------------------------------------------------------------------------
 */

/* Lower is asked first; -1: a hierarchy that tells nothing. */
static int belonging_rank(const char *controllers, size_t length)
{
	static const char *const names[] = {"memory", "pids", "devices", "name=systemd"};
	if (length == 0)
		return 0; /* cgroup v2 */

	for (size_t i = 0; i < array_length(names); i++) {
		const char *at = controllers, *end = controllers + length;

		while (at <= end) {
			const char *comma = memchr(at, ',', (size_t)(end - at));
			size_t size = (size_t)((comma ? comma : end) - at);
			if (size == strlen(names[i]) && memcmp(at, names[i], size) == 0)
				return (int)i + 1;
			at += size + 1;
		}
	}

	return -1;
}

static void belonging_read_path(const char *path, const char *end, struct belonging *out)
{
	const char *id = belonging_find_id(path, end);
	if (id && !belonging_is_monitor(path, id)) {
		(void)snprintf(out->container, sizeof(out->container), "%.*s", BELONGING_ID_DIGITS,
			       id);
		(void)snprintf(out->runtime, sizeof(out->runtime), "%s",
			       belonging_runtime(path, id));
	}

	belonging_find_pod(path, end, out);
	belonging_find_job(path, end, out);
}

/* How much a line tells: the fewer, the better. */
static int belonging_worth(const struct belonging *line, int rank)
{
	return rank + (line->container[0] ? 0 : line->pod[0] ? 8 : 16);
}

bool belonging_parse(const char *text, size_t length, struct belonging *out)
{
	const char *at = text, *end = text + length;
	struct belonging best = {.job = 0};
	uint64_t job = 0, slurm_job = 0;
	char instance[sizeof(best.job_instance)] = "";
	int worth = 64;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		/* ID ":" CONTROLLERS ":" PATH, and the path may have more colons. */
		const char *first = memchr(at, ':', (size_t)(stop - at));
		const char *second =
		    first ? memchr(first + 1, ':', (size_t)(stop - first - 1)) : NULL;
		int rank = second ? belonging_rank(first + 1, (size_t)(second - first - 1)) : -1;
		struct belonging line = {.job = 0};

		at = newline ? newline + 1 : end;
		if (rank < 0)
			continue;

		belonging_read_path(second + 1, stop, &line);
		if (line.job > 0 && (job == 0 || line.job_instance[0])) {
			job = line.job;
			memcpy(instance, line.job_instance, sizeof(instance));
		}

		if (line.slurm_job > 0)
			slurm_job = line.slurm_job;
		if (belonging_worth(&line, rank) < worth) {
			best = line;
			worth = belonging_worth(&line, rank);
		}
	}

	best.job = job;
	best.slurm_job = slurm_job;
	memcpy(best.job_instance, instance, sizeof(instance));

	if (!best.runtime[0])
		(void)snprintf(best.runtime, sizeof(best.runtime), "%s",
			       best.pod[0]	    ? "kubernetes"
			       : best.container[0]  ? "container"
			       : best.job > 0	    ? "sluice"
			       : best.slurm_job > 0 ? "slurm"
						    : "");

	*out = best;
	return best.container[0] || best.pod[0] || best.job > 0 || best.slurm_job > 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/grant.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/names.h"
#include "bench/checks.h"

enum { GRANT_PREFIX = 4, GRANT_PREFIX_MIN = 8 };

const char *grant_source_to_string(enum grant_source source)
{
	static const char *const names[] = {
	    [GRANT_NONE] = "nothing",
	    [GRANT_SLUICE] = "SLUICE_GPUS",
	    [GRANT_NVIDIA] = "NVIDIA_VISIBLE_DEVICES",
	};
	return names_at(names, source, "?");
}

static bool grant_is_uuid(const char *name)
{
	return strncmp(name, "GPU-", GRANT_PREFIX) == 0 || strncmp(name, "MIG-", GRANT_PREFIX) == 0;
}

bool grant_is_same(const char *uuid, const char *name)
{
	if (!grant_is_uuid(uuid) || !grant_is_uuid(name))
		return false;
	size_t length = strlen(name + GRANT_PREFIX);
	/* CUDA takes the beginning of a UUID. */
	return length >= GRANT_PREFIX_MIN - GRANT_PREFIX &&
	       strncasecmp(uuid + GRANT_PREFIX, name + GRANT_PREFIX, length) == 0;
}

static const char *grant_variable(char *const *environment, const char *name)
{
	size_t length = strlen(name);
	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

static bool grant_has(const struct grant_list *list, const char *name)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (strcmp(list->uuids[i], name) == 0)
			return true;
	return false;
}

static void grant_parse(const char *text, struct grant_list *out)
{
	*out = (struct grant_list){.count = 0};
	size_t left = strnlen(text, GRANT_TEXT_MAX);

	while (left > 0 && out->count < GRANT_MAX) {
		char name[GPU_UUID_MAX];
		size_t length = strcspn(text, ",");
		size_t kept = length;

		for (size_t i = 0; i + 1 < length; i++)
			if (text[i] == ':' && text[i + 1] == ':') {
				kept = i;
				break;
			}

		if (kept > 0 && kept < sizeof(name)) {
			memcpy(name, text, kept);
			name[kept] = '\0';
			if (!grant_has(out, name)) {
				memcpy(out->uuids[out->count++], name, kept + 1);
				out->has_others = out->has_others || !grant_is_uuid(name);
			}
		}

		length += length < left && text[length] == ',';
		text += length;
		left = left > length ? left - length : 0;
	}
}

/* A list that gives nothing: everything, nothing, or said elsewhere. */
static bool grant_is_empty(const char *text)
{
	static const char *const words[] = {"", "all", "none", "void"};
	return names_find(words, text) >= 0 ||
	       text[0] == '/'; /* /var/run/nvidia-container-devices: given by mounts */
}

void grant_read(char *const *environment, struct grant *out)
{
	static const struct {
		enum grant_source source;
		const char *name;
	} rows[] = {{GRANT_SLUICE, "SLUICE_GPUS"}, {GRANT_NVIDIA, "NVIDIA_VISIBLE_DEVICES"}};
	memset(out, 0, sizeof(*out));

	for (size_t i = 0; i < array_length(rows) && out->source == GRANT_NONE; i++) {
		const char *text = grant_variable(environment, rows[i].name);
		if (text && !grant_is_empty(text)) {
			out->source = rows[i].source;
			grant_parse(text, &out->given);
		}
	}

	const char *chosen = grant_variable(environment, "CUDA_VISIBLE_DEVICES");
	out->is_chosen = chosen != NULL;
	if (chosen && !grant_is_empty(chosen))
		grant_parse(chosen, &out->chosen);
}

static bool grant_names(const struct grant_list *list, const char *uuid)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (grant_is_same(uuid, list->uuids[i]))
			return true;
	return false;
}

/* Devices that are in sight and were not given, or not chosen. */
static bool grant_judge_names(const struct grant_list *list, const char *source,
			      const char *const *seen, uint32_t count, struct check *check)
{
	if (list->has_others)
		return true;

	for (uint32_t i = 0; i < count; i++) {
		if (grant_names(list, seen[i]))
			continue;

		check_set(check, CHECK_FAIL, "%s is in sight, and %s does not name it", seen[i],
			  source);
		(void)snprintf(
		    check->hint, sizeof(check->hint),
		    "the container or job sees more than it was given: is it privileged, "
		    "or does the runtime mount all devices?");
		return false;
	}

	return true;
}

void grant_judge(const struct grant *grant, const char *const *seen, uint32_t count,
		 struct check *check)
{
	const char *source = grant_source_to_string(grant->source);
	uint32_t expected = grant->given.count;

	if (grant->source == GRANT_NONE && !grant->is_chosen) {
		check_set(check, CHECK_SKIP,
			  "nothing in the environment says which GPUs were given "
			  "(NVIDIA_VISIBLE_DEVICES, SLUICE_GPUS)");
		return;
	}

	if (grant->source != GRANT_NONE &&
	    !grant_judge_names(&grant->given, source, seen, count, check))
		return;

	if (grant->is_chosen) {
		source = "CUDA_VISIBLE_DEVICES";
		expected = grant->chosen.count;
		if (!grant_judge_names(&grant->chosen, source, seen, count, check))
			return;
	}

	check_value(check, count, "GPUs");
	check->has_limit = true;
	check->limit = expected;

	if (count != expected) {
		check_set(check, CHECK_FAIL, "%u GPUs are in sight, and %s names %u", count, source,
			  expected);
		(void)snprintf(
		    check->hint, sizeof(check->hint),
		    count < expected
			? "a GPU is missing: lost (sluice health), or its device node or "
			  "cgroup rule is"
			: "more are in sight than were given");
		return;
	}

	check_set(check, CHECK_PASS, "%u in sight, as %s says", count, source);
}

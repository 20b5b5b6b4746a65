/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"
#include "job/entries.h"

#define LAUNCH_MAGIC "sluice-launch 1"

enum { LAUNCH_WORD_BITS = 64, LAUNCH_WORD_DIGITS = 16 };

void launch_init(struct launch *launch)
{
	*launch = (struct launch){0};
	spec_init(&launch->spec);
}

void launch_done(struct launch *launch)
{
	if (!launch)
		return;

	free(launch->grants);
	free(launch->denied);

	for (size_t i = 0; i < launch->part_count; i++)
		free(launch->parts[i].denied);

	free(launch->parts);
	spec_done(&launch->spec);
	launch_init(launch);
}

bool launch_grant_has(const struct launch_grant *grant, uint32_t slot)
{
	return slot < LAUNCH_SLOTS_MAX &&
	       (grant->slots[slot / LAUNCH_WORD_BITS] >> (slot % LAUNCH_WORD_BITS) & 1);
}

void launch_grant_add(struct launch_grant *grant, uint32_t slot)
{
	if (slot < LAUNCH_SLOTS_MAX)
		grant->slots[slot / LAUNCH_WORD_BITS] |= UINT64_C(1) << (slot % LAUNCH_WORD_BITS);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* "grant=UUID index slot_count slots label"; slots: words of 64 bits, the lowest first. */
static int launch_add_grant(struct buf *out, const struct launch_grant *grant)
{
	int rc = buf_printf(out, "grant=%s %" PRIu32 " %" PRIu32 " ", grant->uuid, grant->index,
			    grant->slot_count);
	for (size_t i = 0; rc == 0 && i * LAUNCH_WORD_BITS < grant->slot_count; i++)
		rc = buf_printf(out, "%016" PRIx64, grant->slots[i]);
	if (rc == 0)
		rc = buf_printf(out, " %s", grant->label);
	return rc < 0 ? rc : buf_add(out, "", 1);
}

/* "denied=c 195:1-7 6": type, numbers, and what is denied, as enum devguard_access. */
static int launch_add_denied(struct buf *out, const char *name, const struct devguard_rule *rule)
{
	int rc = buf_printf(out, "%s=%c %" PRIu32 ":%" PRIu32 "-%" PRIu32 " %" PRIu32, name,
			    rule->type, rule->major, rule->first, rule->last, rule->access);
	return rc < 0 ? rc : buf_add(out, "", 1);
}

/* "part=INDEX", and its rules as "part_denied=". */
static int launch_add_part(struct buf *out, size_t index, const struct launch_part *part)
{
	int rc = entries_add_u64(out, "part", index);
	for (size_t i = 0; rc == 0 && i < part->denied_count; i++)
		rc = launch_add_denied(out, "part_denied", &part->denied[i]);
	return rc;
}

static int launch_add_rules(struct buf *out, const struct launch *launch)
{
	int rc = 0;

	if (launch->spec.image[0])
		rc = entries_add(out, "container", launch->container);
	if (rc == 0 && launch->device_root[0])
		rc = entries_add(out, "device_root", launch->device_root);
	if (rc == 0 && launch->own_pids)
		rc = entries_add_u64(out, "own_pids", 1);
	if (rc == 0 && launch->minimum_isolation)
		rc = entries_add_u64(out, "minimum_isolation", launch->minimum_isolation);

	if (rc == 0 && launch->denied_why[0])
		rc = entries_add(out, "denied_why", launch->denied_why);

	for (size_t i = 0; rc == 0 && i < launch->denied_count; i++)
		rc = launch_add_denied(out, "denied", &launch->denied[i]);

	for (size_t i = 0; rc == 0 && i < launch->part_count; i++)
		rc = launch_add_part(out, i, &launch->parts[i]);

	return rc;
}

static int launch_add(struct buf *out, const struct launch *launch)
{
	int rc = entries_add_magic(out, LAUNCH_MAGIC);
	if (rc == 0)
		rc = entries_add_u64(out, "id", launch->id);
	if (rc == 0)
		rc = entries_add_u64(out, "attempt", launch->attempt);
	if (rc == 0)
		rc = entries_add(out, "instance", launch->instance);

	if (rc == 0)
		rc = entries_add(out, "runtime_dir", launch->runtime_dir);
	if (rc == 0)
		rc = entries_add(out, "sim_state", launch->sim_state);
	if (rc == 0)
		rc = entries_add(out, "cgroup_root", launch->cgroup_root);
	if (rc == 0 && launch->array_id > 0)
		rc = entries_add_u64(out, "array_id", launch->array_id);

	if (rc == 0 && launch->array_index > 0)
		rc = entries_add_u64(out, "array_index", launch->array_index);
	if (rc == 0 && launch->log_bytes > 0)
		rc = entries_add_u64(out, "log_bytes", launch->log_bytes);
	if (rc == 0 && launch->adapters[0])
		rc = entries_add(out, "adapters", launch->adapters);
	if (rc == 0 && launch->own_nodes[0])
		rc = entries_add(out, "own_nodes", launch->own_nodes);

	if (rc == 0 && launch->adapters_simulated)
		rc = entries_add_u64(out, "adapters_simulated", 1);
	if (rc == 0 && launch->rsh[0])
		rc = entries_add(out, "rsh", launch->rsh);

	for (size_t i = 0; rc == 0 && i < launch->grant_count; i++)
		rc = launch_add_grant(out, &launch->grants[i]);

	if (rc == 0)
		rc = launch_add_rules(out, launch);

	return rc;
}

void launch_cgroup_name(uint64_t id, const char *instance, char out[LAUNCH_CGROUP_MAX])
{
	(void)snprintf(out, LAUNCH_CGROUP_MAX, "job-%" PRIu64 "%s%.8s", id, instance[0] ? "-" : "",
		       instance); /* always fits */
}

int launch_format(const struct launch *launch, char **out_bytes, size_t *out_length,
		  struct err *err)
{
	char *spec = NULL;
	size_t spec_length = 0;
	int rc = spec_format(&launch->spec, &spec, &spec_length, err);
	if (rc < 0)
		return rc;

	struct buf text _cleanup_buf_;

	buf_init(&text, LAUNCH_BYTES_MAX);
	rc = launch_add(&text, launch);
	if (rc == 0)
		rc = entries_add_u64(&text, "spec", spec_length);
	if (rc == 0)
		rc = buf_add(&text, spec, spec_length);
	free(spec);

	if (rc == -ENOSPC)
		return err_set(err, -E2BIG, "the launch of job %" PRIu64 " is larger than %d bytes",
			       launch->id, LAUNCH_BYTES_MAX);

	size_t length = text.length;
	char *bytes = rc == 0 ? buf_take(&text) : NULL;
	if (!bytes)
		return err_set(err, -ENOMEM, "no memory for the launch of job %" PRIu64,
			       launch->id);

	*out_bytes = bytes;
	*out_length = length;
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The word at `*at`, and behind the blank that must follow. */
static int launch_word(const char **at, const char **out, size_t *out_length)
{
	size_t length = strcspn(*at, " ");
	if (length == 0 || (*at)[length] == '\0')
		return -EINVAL;
	*out = *at;
	*out_length = length;
	*at += length + 1;
	return 0;
}

static int launch_read_slots(const char *text, size_t length, struct launch_grant *grant)
{
	size_t words = (grant->slot_count + LAUNCH_WORD_BITS - 1) / LAUNCH_WORD_BITS;
	if (length != words * LAUNCH_WORD_DIGITS)
		return -EINVAL;

	uint64_t any = 0;

	for (size_t i = 0; i < words; i++) {
		uint64_t word;
		int rc = parse_hex_span(text + i * LAUNCH_WORD_DIGITS, LAUNCH_WORD_DIGITS,
					UINT64_MAX, &word);
		if (rc < 0)
			return rc;

		grant->slots[i] = word;
		any |= word;
	}

	size_t odd = grant->slot_count % LAUNCH_WORD_BITS;
	bool beyond = odd && grant->slots[words - 1] >> odd;

	return any && !beyond ? 0 : -EINVAL;
}

static int launch_read_grant(struct launch *launch, const struct entry *entry)
{
	if (launch->grant_count >= LAUNCH_GRANTS_MAX)
		return -E2BIG;

	struct launch_grant grant = {0};
	const char *at = entry->value, *word;
	size_t length;
	uint64_t number;
	int rc = launch_word(&at, &word, &length);
	if (rc < 0 || length >= sizeof(grant.uuid))
		return -EINVAL;

	memcpy(grant.uuid, word, length);
	rc = launch_word(&at, &word, &length);
	if (rc < 0 || parse_u64_span(word, length, 0, UINT32_MAX, &number) < 0)
		return -EINVAL;

	grant.index = (uint32_t)number;
	rc = launch_word(&at, &word, &length);
	if (rc < 0 || parse_u64_span(word, length, 1, LAUNCH_SLOTS_MAX, &number) < 0)
		return -EINVAL;

	grant.slot_count = (uint32_t)number;
	rc = launch_word(&at, &word, &length);
	if (rc < 0 || launch_read_slots(word, length, &grant) < 0)
		return -EINVAL;

	length = strlen(at);
	if (length >= sizeof(grant.label))
		return -EINVAL;

	memcpy(grant.label, at, length);

	struct launch_grant *more =
	    reallocarray(launch->grants, launch->grant_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;

	launch->grants = more;
	more[launch->grant_count++] = grant;
	return 0;
}

/* A number up to the first byte of `end`, and behind that; '\0' for the end of the text. */
static int launch_number(const char **at, char end, uint64_t max, uint32_t *out)
{
	const char stops[] = {end, '\0'};
	size_t length = strcspn(*at, stops);
	uint64_t number;

	if ((*at)[length] != end || parse_u64_span(*at, length, 0, max, &number) < 0)
		return -EINVAL;

	*at += length + (end != '\0');
	*out = (uint32_t)number;
	return 0;
}

static int launch_read_denied(struct devguard_rule **list, size_t *count, const struct entry *entry)
{
	if (*count >= LAUNCH_DENIED_MAX)
		return -E2BIG;

	const char *at = entry->value;
	struct devguard_rule rule = {.type = at[0]};

	if ((rule.type != 'c' && rule.type != 'b') || at[1] != ' ')
		return -EINVAL;

	at += 2;
	if (launch_number(&at, ':', DEVGUARD_MAJOR_MAX, &rule.major) < 0 ||
	    launch_number(&at, '-', DEVGUARD_MINOR_MAX, &rule.first) < 0 ||
	    launch_number(&at, ' ', DEVGUARD_MINOR_MAX, &rule.last) < 0 || rule.last < rule.first ||
	    launch_number(&at, '\0', DEVGUARD_ALL, &rule.access) < 0 || rule.access == 0)
		return -EINVAL;

	struct devguard_rule *more = reallocarray(*list, *count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;

	*list = more;
	more[(*count)++] = rule;
	return 0;
}

static int launch_read_part(struct launch *launch, const struct entry *entry)
{
	uint64_t index;

	if (launch->part_count >= LAUNCH_PARTS_MAX)
		return -E2BIG;
	if (entry_u64(entry, launch->part_count, launch->part_count, &index) < 0)
		return -EINVAL;

	struct launch_part *more =
	    reallocarray(launch->parts, launch->part_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;

	launch->parts = more;
	more[launch->part_count++] = (struct launch_part){.denied = NULL};
	return 0;
}

static int launch_read_part_denied(struct launch *launch, const struct entry *entry)
{
	if (launch->part_count == 0)
		return -EINVAL;
	struct launch_part *part = &launch->parts[launch->part_count - 1];
	return launch_read_denied(&part->denied, &part->denied_count, entry);
}

enum launch_seen {
	LAUNCH_SEEN_ID = 1 << 0,
	LAUNCH_SEEN_ATTEMPT = 1 << 1,
	LAUNCH_SEEN_INSTANCE = 1 << 2,
	LAUNCH_SEEN_RUNTIME_DIR = 1 << 3,
	LAUNCH_SEEN_SIM_STATE = 1 << 4,
	LAUNCH_SEEN_CGROUP_ROOT = 1 << 5,
	LAUNCH_SEEN_ALL = (1 << 6) - 1, /* those above must be there */
	LAUNCH_SEEN_CONTAINER = 1 << 6,
	LAUNCH_SEEN_DENIED_WHY = 1 << 7,
	LAUNCH_SEEN_ADAPTERS = 1 << 8,
	LAUNCH_SEEN_ADAPTERS_SIMULATED = 1 << 9,
	LAUNCH_SEEN_ARRAY_ID = 1 << 10,
	LAUNCH_SEEN_ARRAY_INDEX = 1 << 11,
	LAUNCH_SEEN_LOG_BYTES = 1 << 12,
	LAUNCH_SEEN_OWN_NODES = 1 << 13,
	LAUNCH_SEEN_RSH = 1 << 14,
	LAUNCH_SEEN_DEVICE_ROOT = 1 << 15,
	LAUNCH_SEEN_MINIMUM = 1 << 16,
	LAUNCH_SEEN_OWN_PIDS = 1 << 17,
};

/* The bit of an entry that there is once; 0: there is none of that name. */
static unsigned launch_bit(const struct entry *entry)
{
	static const char *const names[] = {
	    "id",	   "attempt",		"instance",   "runtime_dir", "sim_state",
	    "cgroup_root", "container",		"denied_why", "adapters",    "adapters_simulated",
	    "array_id",	   "array_index",	"log_bytes",  "own_nodes",   "rsh",
	    "device_root", "minimum_isolation", "own_pids"};

	for (unsigned i = 0; i < array_length(names); i++)
		if (entry_is(entry, names[i]))
			return 1U << i;

	return 0;
}

static int launch_read_entry(struct launch *launch, const struct entry *entry, unsigned *seen)
{
	if (entry_is(entry, "grant"))
		return launch_read_grant(launch, entry);
	if (entry_is(entry, "denied"))
		return launch_read_denied(&launch->denied, &launch->denied_count, entry);
	if (entry_is(entry, "part"))
		return launch_read_part(launch, entry);
	if (entry_is(entry, "part_denied"))
		return launch_read_part_denied(launch, entry);

	unsigned bit = launch_bit(entry);
	if (bit == 0 || (*seen & bit))
		return -EINVAL;

	*seen |= bit;
	uint64_t attempt, minimum; /* attempt: or an index */
	int rc;

	switch (bit) {
	case LAUNCH_SEEN_ID:
		return entry_u64(entry, 1, UINT64_MAX, &launch->id);
	case LAUNCH_SEEN_ATTEMPT:
		rc = entry_u64(entry, 1, UINT32_MAX, &attempt);
		if (rc == 0)
			launch->attempt = (uint32_t)attempt;
		return rc;
	case LAUNCH_SEEN_INSTANCE:
		return entry_copy(entry, launch->instance, sizeof(launch->instance));
	case LAUNCH_SEEN_RUNTIME_DIR:
		return entry_copy(entry, launch->runtime_dir, sizeof(launch->runtime_dir));
	case LAUNCH_SEEN_SIM_STATE:
		return entry_copy(entry, launch->sim_state, sizeof(launch->sim_state));
	case LAUNCH_SEEN_CONTAINER:
		return entry_copy(entry, launch->container, sizeof(launch->container));
	case LAUNCH_SEEN_OWN_NODES:
		return entry_copy(entry, launch->own_nodes, sizeof(launch->own_nodes));
	case LAUNCH_SEEN_RSH:
		return entry_copy(entry, launch->rsh, sizeof(launch->rsh));
	case LAUNCH_SEEN_ADAPTERS:
		return entry_copy(entry, launch->adapters, sizeof(launch->adapters));
	case LAUNCH_SEEN_ADAPTERS_SIMULATED:
		launch->adapters_simulated = true;
		return strcmp(entry->value, "1") == 0 ? 0 : -EINVAL;
	case LAUNCH_SEEN_ARRAY_ID:
		return entry_u64(entry, 1, UINT64_MAX, &launch->array_id);
	case LAUNCH_SEEN_ARRAY_INDEX:
		rc = entry_u64(entry, 1, UINT32_MAX, &attempt);
		if (rc == 0)
			launch->array_index = (uint32_t)attempt;
		return rc;
	case LAUNCH_SEEN_LOG_BYTES:
		return entry_u64(entry, 1, UINT64_MAX, &launch->log_bytes);
	case LAUNCH_SEEN_OWN_PIDS:
		launch->own_pids = true;
		return strcmp(entry->value, "1") == 0 ? 0 : -EINVAL;
	case LAUNCH_SEEN_DEVICE_ROOT:
		return entry_copy(entry, launch->device_root, sizeof(launch->device_root));
	case LAUNCH_SEEN_MINIMUM:
		rc = entry_u64(entry, 0, WANTS_ISOLATION_COUNT - 1, &minimum);
		if (rc == 0)
			launch->minimum_isolation = (uint32_t)minimum;
		return rc;
	case LAUNCH_SEEN_DENIED_WHY:
		return entry_copy(entry, launch->denied_why, sizeof(launch->denied_why));
	default:
		return entry_copy(entry, launch->cgroup_root, sizeof(launch->cgroup_root));
	}
}

static int launch_read_spec(struct entries *entries, const struct entry *entry,
			    struct launch *launch, struct err *err)
{
	uint64_t length;
	size_t left = (size_t)(entries->end - entries->at);
	if (entry_u64(entry, left, left, &length) < 0)
		return entries_error(entries, -EINVAL, "another length of the spec follows", err);

	int rc = spec_parse(entries->at, left, &launch->spec, err);
	if (rc < 0)
		(void)err_wrap(err, "the launch of job %" PRIu64, launch->id);

	return rc;
}

static int launch_read(struct entries *entries, struct launch *launch, struct err *err)
{
	unsigned seen = 0;
	struct entry entry;
	int more;

	while ((more = entries_next(entries, &entry, err)) > 0) {
		if (entry_is(&entry, "spec")) {
			if ((seen & LAUNCH_SEEN_ALL) != LAUNCH_SEEN_ALL)
				return entries_error(entries, -EINVAL, "something is missing", err);
			return launch_read_spec(entries, &entry, launch, err);
		}

		int rc = launch_read_entry(launch, &entry, &seen);
		if (rc == -ENOMEM)
			return err_set(err, -ENOMEM, "no memory for a job's launch");
		if (rc < 0)
			return entries_error(entries, -EINVAL, "it cannot be meant", err);
	}

	return more < 0 ? more : entries_error(entries, -EINVAL, "the spec is missing", err);
}

int launch_parse(const char *bytes, size_t length, struct launch *out, struct err *err)
{
	launch_init(out);
	if (length > LAUNCH_BYTES_MAX)
		return err_set(err, -EINVAL, "a launch of %zu bytes: %d are allowed", length,
			       LAUNCH_BYTES_MAX);

	struct entries entries;
	int rc = entries_init(&entries, bytes, length, LAUNCH_MAGIC, err);
	if (rc == 0)
		rc = launch_read(&entries, out, err);
	if (rc < 0)
		launch_done(out);

	return rc;
}

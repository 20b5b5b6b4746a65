/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "job/form.h"
#include "job/schema.h"

enum { LAUNCH_WORD_BITS = 64 };

#define LAUNCH(name_, kind_, max_) FORM_NUMBER(launch, Sluice__V1__Launch, name_, kind_, max_)
#define LAUNCH_CHARS(name_, kind_) FORM_CHARS(launch, Sluice__V1__Launch, name_, name_, kind_)

static const struct form_field launch_fields[] = {
    LAUNCH(id, FORM_U64, UINT64_MAX),
    LAUNCH(attempt, FORM_U32, UINT32_MAX),
    LAUNCH_CHARS(instance, FORM_TEXT),
    LAUNCH_CHARS(runtime_dir, FORM_BYTES),
    LAUNCH_CHARS(sim_state, FORM_BYTES),
    LAUNCH_CHARS(cgroup_root, FORM_BYTES),
    LAUNCH(array_id, FORM_U64, UINT64_MAX),
    LAUNCH(array_index, FORM_U32, UINT32_MAX),
    LAUNCH(log_bytes, FORM_U64, UINT64_MAX),
    LAUNCH_CHARS(adapters, FORM_TEXT),
    LAUNCH(adapters_simulated, FORM_BOOL, 1),
    LAUNCH_CHARS(own_nodes, FORM_BYTES),
    LAUNCH_CHARS(rsh, FORM_BYTES),
    LAUNCH_CHARS(container, FORM_BYTES),
    LAUNCH(own_pids, FORM_BOOL, 1),
    LAUNCH(minimum_isolation, FORM_U32, ISOLATION_ASKED_COUNT - 1),
    LAUNCH_CHARS(device_root, FORM_BYTES),
    LAUNCH_CHARS(denied_why, FORM_BYTES),
    LAUNCH(keeps_order, FORM_BOOL, 1),
};

static const struct form_field launch_grant_fields[] = {
    FORM_CHARS(launch_grant, Sluice__V1__LaunchGrant, uuid, uuid, FORM_TEXT),
    FORM_CHARS(launch_grant, Sluice__V1__LaunchGrant, label, label, FORM_TEXT),
    FORM_NUMBER(launch_grant, Sluice__V1__LaunchGrant, index, FORM_U32, UINT32_MAX),
    FORM_NUMBER(launch_grant, Sluice__V1__LaunchGrant, slot_count, FORM_U32, LAUNCH_SLOTS_MAX),
};

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

void launch_cgroup_name(uint64_t id, const char *instance, char out[LAUNCH_CGROUP_MAX])
{
	(void)snprintf(out, LAUNCH_CGROUP_MAX, "job-%" PRIu64 "%s%.8s", id, instance[0] ? "-" : "",
		       instance); /* always fits */
}

/* 64-bit words that hold so many slots. */
static size_t launch_words(uint32_t slots)
{
	return (slots + LAUNCH_WORD_BITS - 1) / LAUNCH_WORD_BITS;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* What the message points to beside the launch itself. */
struct launch_message {
	Sluice__V1__Launch launch;
	struct schema_spec_message spec;
	Sluice__V1__LaunchGrant *grant, **grants; /* owned */
	Sluice__V1__DeviceRule *rule, **rules;	  /* owned: the job's, then those of its parts */
	Sluice__V1__LaunchPart *part, **parts;	  /* owned */
};

static void launch_message_done(struct launch_message *message)
{
	schema_spec_message_done(&message->spec);
	free(message->grant);
	free((void *)message->grants);
	free(message->rule);
	free((void *)message->rules);
	free(message->part);
	free((void *)message->parts);
}

static int launch_from_grants(const struct launch *launch, struct launch_message *out)
{
	size_t count = launch->grant_count;

	out->grant = calloc(count + 1, sizeof(*out->grant));
	out->grants = calloc(count + 1, sizeof(*out->grants));
	if (!out->grant || !out->grants)
		return -ENOMEM;

	for (size_t i = 0; i < count; i++) {
		const struct launch_grant *grant = &launch->grants[i];
		Sluice__V1__LaunchGrant *message = out->grants[i] = &out->grant[i];

		sluice__v1__launch_grant__init(message);
		(void)form_to_message(launch_grant_fields, array_length(launch_grant_fields), grant,
				      &message->base); /* no list */
		message->slots = (uint64_t *)grant->slots;
		message->n_slots = launch_words(grant->slot_count);
	}

	out->launch.grants = out->grants;
	out->launch.n_grants = count;
	return 0;
}

/* `*at`: the first of the rules that are free; behind them afterwards. */
static Sluice__V1__DeviceRule **launch_from_rules(const struct devguard_rule *rules, size_t count,
						  struct launch_message *out, size_t *at)
{
	Sluice__V1__DeviceRule **list = &out->rules[*at];

	for (size_t i = 0; i < count; i++, (*at)++) {
		Sluice__V1__DeviceRule *message = out->rules[*at] = &out->rule[*at];
		sluice__v1__device_rule__init(message);
		message->type = (unsigned char)rules[i].type;
		message->major = rules[i].major;
		message->first = rules[i].first;
		message->last = rules[i].last;
		message->access = rules[i].access;
	}

	return list;
}

static int launch_from_denied(const struct launch *launch, struct launch_message *out)
{
	size_t count = launch->denied_count, at = 0;
	for (size_t i = 0; i < launch->part_count; i++)
		count += launch->parts[i].denied_count;

	out->rule = calloc(count + 1, sizeof(*out->rule));
	out->rules = calloc(count + 1, sizeof(*out->rules));
	out->part = calloc(launch->part_count + 1, sizeof(*out->part));
	out->parts = calloc(launch->part_count + 1, sizeof(*out->parts));
	if (!out->rule || !out->rules || !out->part || !out->parts)
		return -ENOMEM;

	out->launch.denied = launch_from_rules(launch->denied, launch->denied_count, out, &at);
	out->launch.n_denied = launch->denied_count;

	for (size_t i = 0; i < launch->part_count; i++) {
		const struct launch_part *part = &launch->parts[i];
		Sluice__V1__LaunchPart *message = out->parts[i] = &out->part[i];

		sluice__v1__launch_part__init(message);
		message->denied = launch_from_rules(part->denied, part->denied_count, out, &at);
		message->n_denied = part->denied_count;
	}

	out->launch.parts = out->parts;
	out->launch.n_parts = launch->part_count;
	return 0;
}

int launch_format(const struct launch *launch, char **out_bytes, size_t *out_length,
		  struct err *err)
{
	struct launch_message message = {.grant = NULL};

	sluice__v1__launch__init(&message.launch);
	(void)form_to_message(launch_fields, array_length(launch_fields), launch,
			      &message.launch.base); /* no list */
	int rc = schema_from_spec(&launch->spec, &message.spec);
	message.launch.spec = &message.spec.spec;
	if (rc == 0)
		rc = launch_from_grants(launch, &message);
	if (rc == 0)
		rc = launch_from_denied(launch, &message);
	if (rc == 0)
		rc = form_pack(&message.launch.base, LAUNCH_BYTES_MAX, out_bytes, out_length);
	launch_message_done(&message);

	if (rc == -E2BIG)
		return err_set(err, rc, "the launch of job %" PRIu64 " is larger than %d bytes",
			       launch->id, LAUNCH_BYTES_MAX);
	return rc < 0 ? err_set(err, rc, "no memory for the launch of job %" PRIu64, launch->id)
		      : 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int launch_to_slots(const Sluice__V1__LaunchGrant *message, struct launch_grant *grant)
{
	size_t words = launch_words(grant->slot_count);
	if (words == 0 || message->n_slots != words)
		return -EINVAL;

	uint64_t any = 0;

	for (size_t i = 0; i < words; i++) {
		grant->slots[i] = message->slots[i];
		any |= grant->slots[i];
	}

	size_t odd = grant->slot_count % LAUNCH_WORD_BITS;
	bool beyond = odd && grant->slots[words - 1] >> odd;

	return any && !beyond ? 0 : -EINVAL;
}

static int launch_to_grants(const Sluice__V1__Launch *message, struct launch *out, struct err *err)
{
	if (message->n_grants > LAUNCH_GRANTS_MAX)
		return err_set(err, -EINVAL, "%zu grants: %d are possible", message->n_grants,
			       LAUNCH_GRANTS_MAX);

	out->grants = calloc(message->n_grants + 1, sizeof(*out->grants));
	if (!out->grants)
		return err_set(err, -ENOMEM, "no memory for a job's launch");

	for (size_t i = 0; i < message->n_grants; i++) {
		const Sluice__V1__LaunchGrant *from = message->grants[i];
		struct launch_grant *grant = &out->grants[out->grant_count++];
		int rc = form_from_message(launch_grant_fields, array_length(launch_grant_fields),
					   &from->base, grant, err);
		if (rc == 0 && (grant->uuid[0] == '\0' || launch_to_slots(from, grant) < 0))
			rc =
			    err_set(err, -EINVAL, "it has no device, or slots that are none of it");
		if (rc < 0)
			return err_wrap(err, "grant %zu", i);
	}

	return 0;
}

static int launch_to_rules(Sluice__V1__DeviceRule *const *rules, size_t count,
			   struct devguard_rule **out, size_t *out_count, struct err *err)
{
	if (count > LAUNCH_DENIED_MAX)
		return err_set(err, -EINVAL, "%zu rules of devices: %d are possible", count,
			       LAUNCH_DENIED_MAX);

	*out = calloc(count + 1, sizeof(**out));
	if (!*out)
		return err_set(err, -ENOMEM, "no memory for a job's launch");

	for (size_t i = 0; i < count; i++) {
		const Sluice__V1__DeviceRule *rule = rules[i];
		bool is_good = (rule->type == 'c' || rule->type == 'b') &&
			       rule->major <= DEVGUARD_MAJOR_MAX &&
			       rule->last <= DEVGUARD_MINOR_MAX && rule->first <= rule->last &&
			       rule->access > 0 && rule->access <= DEVGUARD_ALL;
		if (!is_good)
			return err_set(err, -EINVAL, "rule %zu of devices cannot be meant", i);

		(*out)[(*out_count)++] = (struct devguard_rule){.type = (char)rule->type,
								.major = rule->major,
								.first = rule->first,
								.last = rule->last,
								.access = rule->access};
	}

	return 0;
}

static int launch_to_parts(const Sluice__V1__Launch *message, struct launch *out, struct err *err)
{
	if (message->n_parts > LAUNCH_PARTS_MAX)
		return err_set(err, -EINVAL, "%zu parts: %d are possible", message->n_parts,
			       LAUNCH_PARTS_MAX);

	out->parts = calloc(message->n_parts + 1, sizeof(*out->parts));
	if (!out->parts)
		return err_set(err, -ENOMEM, "no memory for a job's launch");

	int rc = 0;

	for (size_t i = 0; rc == 0 && i < message->n_parts; i++) {
		struct launch_part *part = &out->parts[out->part_count++];
		rc = launch_to_rules(message->parts[i]->denied, message->parts[i]->n_denied,
				     &part->denied, &part->denied_count, err);
	}

	return rc;
}

static int launch_read(const Sluice__V1__Launch *message, struct launch *out, struct err *err)
{
	int rc =
	    form_from_message(launch_fields, array_length(launch_fields), &message->base, out, err);
	if (rc == 0 && (out->id == 0 || out->attempt == 0 || !message->spec))
		rc = err_set(err, -EINVAL, "the launch has no job, no attempt or no specification");
	if (rc == 0)
		rc = launch_to_grants(message, out, err);
	if (rc == 0)
		rc = launch_to_rules(message->denied, message->n_denied, &out->denied,
				     &out->denied_count, err);
	if (rc == 0)
		rc = launch_to_parts(message, out, err);
	if (rc == 0)
		rc = schema_to_owned_spec(message->spec, &out->spec, err);
	if (rc == 0)
		rc = spec_check(&out->spec, err);
	return rc < 0 && rc != -ENOMEM ? err_wrap(err, "the launch of job %" PRIu64, out->id) : rc;
}

int launch_parse(const char *bytes, size_t length, struct launch *out, struct err *err)
{
	launch_init(out);
	if (length > LAUNCH_BYTES_MAX)
		return err_set(err, -EINVAL, "a launch of %zu bytes: %d are allowed", length,
			       LAUNCH_BYTES_MAX);

	Sluice__V1__Launch *message =
	    sluice__v1__launch__unpack(NULL, length, (const uint8_t *)bytes);
	if (!message)
		return err_set(err, -EINVAL, "these bytes are no launch of a job");

	int rc = launch_read(message, out, err);
	sluice__v1__launch__free_unpacked(message, NULL);
	if (rc < 0)
		launch_done(out);

	return rc < 0 && rc != -ENOMEM ? -EINVAL : rc;
}

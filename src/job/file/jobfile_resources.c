/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/jobfile_reader.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/yaml.h"
#include "job/file/jobfile_fields.h"
#include "job/file/quantity.h"

static const char mig_prefix[] = "nvidia.com/mig-";

enum resource_kind {
	RESOURCE_CPU,
	RESOURCE_MEMORY,
	RESOURCE_IGNORED,
	RESOURCE_GPU,
	RESOURCE_SHARED,
	RESOURCE_MIG,
	RESOURCE_OTHER, /* an extended resource, as "rdma/hca" */
	RESOURCE_UNKNOWN,
};

static enum resource_kind resource_kind_of(const char *name)
{
	static const struct {
		const char *name;
		enum resource_kind kind;
	} known[] = {
	    {"cpu", RESOURCE_CPU},
	    {"memory", RESOURCE_MEMORY},
	    {"ephemeral-storage", RESOURCE_IGNORED},
	    {"nvidia.com/gpu", RESOURCE_GPU},
	    {"nvidia.com/gpu.shared", RESOURCE_SHARED},
	};

	for (size_t i = 0; i < array_length(known); i++)
		if (strcmp(name, known[i].name) == 0)
			return known[i].kind;

	if (text_starts_with(name, "hugepages-"))
		return RESOURCE_IGNORED;
	if (text_starts_with(name, mig_prefix))
		return name[strlen(mig_prefix)] ? RESOURCE_MIG : RESOURCE_UNKNOWN;
	if (text_starts_with(name, "nvidia.com/"))
		return RESOURCE_UNKNOWN;

	const char *slash = strchr(name, '/');
	return slash && slash != name && slash[1] ? RESOURCE_OTHER : RESOURCE_UNKNOWN;
}

static int resource_unknown(const struct jobreader *reader, const struct yaml_node *key)
{
	static const char *const names[] = {"cpu", "memory", "nvidia.com/gpu",
					    "nvidia.com/gpu.shared"};
	const char *best = suggest_nearest(key->text, names, array_length(names));
	return objschema_fail(&reader->schema, key, NULL, "unknown resource '%.64s'%s%s%s",
			      key->text, best ? "; did you mean '" : "", best ? best : "",
			      best ? "'?" : "");
}

static int resource_quantity(const struct jobreader *reader, const struct yaml_entry *entry,
			     enum resource_kind kind, uint64_t *out)
{
	int rc = objschema_check_octal(&reader->schema, entry->value, entry->key->text);
	if (rc < 0)
		return rc;

	rc = objschema_is_quantity(entry->value)
		 ? quantity_parse(entry->value->text, kind == RESOURCE_CPU ? 1000 : 1, out)
		 : -EINVAL;
	char found[80];

	if (rc == -ERANGE)
		return objschema_fail(&reader->schema, entry->value, NULL,
				      "%.64s: %s is out of range", entry->key->text,
				      yaml_describe(entry->value, found, sizeof(found)));

	if (rc < 0)
		return objschema_fail(&reader->schema, entry->value, NULL,
				      "%.64s: %s is no quantity such as 2, 500m or 16Gi",
				      entry->key->text,
				      yaml_describe(entry->value, found, sizeof(found)));

	return 0;
}

/* A number of things: "1e1" is one, and "1500m" is none. */
static int resource_units(const struct jobreader *reader, const struct yaml_entry *entry,
			  uint32_t *out)
{
	uint64_t units = 0, milli;
	int rc = resource_quantity(reader, entry, RESOURCE_OTHER, &units);
	if (rc < 0)
		return rc;

	if (units > JOBFILE_UNITS_MAX || quantity_parse(entry->value->text, 1000, &milli) < 0 ||
	    milli % 1000 != 0)
		return objschema_fail(&reader->schema, entry->value, NULL,
				      "%.64s: '%.32s' is no whole number up to %d",
				      entry->key->text, entry->value->text, JOBFILE_UNITS_MAX);

	*out = (uint32_t)units;
	return 0;
}

/* One kind of GPU for a container: more cannot be said to the queue. */
static int resource_gpus(struct jobreader *reader, const struct yaml_entry *entry,
			 enum resource_kind kind, uint32_t units, struct jobfile_task *out)
{
	if (units == 0)
		return 0;
	if (out->gpus > 0)
		return objschema_fail(&reader->schema, entry->key, NULL,
				      "%.64s: a container gets one kind of GPU", entry->key->text);

	out->gpus = units;
	out->is_shared = kind == RESOURCE_SHARED;
	if (kind == RESOURCE_MIG)
		out->mig_profile = entry->key->text + strlen(mig_prefix);

	return 0;
}

static int resource_limit(struct jobreader *reader, const struct yaml_entry *entry,
			  struct jobfile_task *out)
{
	enum resource_kind kind = resource_kind_of(entry->key->text);
	uint32_t units = 0;
	uint64_t unused;

	switch (kind) {
	case RESOURCE_CPU:
		return resource_quantity(reader, entry, kind, &out->cpu_milli);
	case RESOURCE_MEMORY:
		return resource_quantity(reader, entry, kind, &out->mem_bytes);
	case RESOURCE_IGNORED:
		return resource_quantity(reader, entry, kind, &unused);
	case RESOURCE_UNKNOWN:
		return resource_unknown(reader, entry->key);
	default:
		break;
	}

	int rc = resource_units(reader, entry, &units);
	if (rc < 0 || kind != RESOURCE_OTHER)
		return rc < 0 ? rc : resource_gpus(reader, entry, kind, units, out);
	if (units > 0)
		out->resources[out->resource_count++] =
		    (struct jobfile_resource){.name = entry->key->text, .units = units};

	return 0;
}

/* What Kubernetes asks of a request beside its limit. */
static int resource_request(struct jobreader *reader, const struct yaml_entry *entry,
			    const struct yaml_node *limits)
{
	enum resource_kind kind = resource_kind_of(entry->key->text);
	const struct yaml_node *limit = limits ? yaml_get(limits, entry->key->text) : NULL;
	uint64_t requested, limited = 0;

	if (kind == RESOURCE_UNKNOWN)
		return resource_unknown(reader, entry->key);

	int rc = resource_quantity(reader, entry, kind, &requested);
	const struct yaml_entry other = {.key = entry->key, .value = limit};

	if (rc == 0 && limit)
		rc = resource_quantity(reader, &other, kind, &limited);
	if (rc < 0)
		return rc;

	bool is_extended = kind >= RESOURCE_GPU;
	if (is_extended && (!limit || requested != limited))
		return objschema_fail(&reader->schema, entry->value, NULL, "%.64s: %s",
				      entry->key->text,
				      limit ? "the request is not the limit; leave the request out"
					    : "it has to stand in limits as well");

	if (limit && requested > limited)
		return objschema_fail(&reader->schema, entry->value, NULL,
				      "%.64s: the request is more than the limit",
				      entry->key->text);

	if (!limit && requested > 0 && (kind == RESOURCE_CPU || kind == RESOURCE_MEMORY))
		return jobreader_note(
		    reader, entry->key->line,
		    "a request of %s without a limit sets nothing aside here; write "
		    "it into limits",
		    entry->key->text);

	return 0;
}

int jobreader_resources(struct jobreader *reader, const struct raw_resources *raw,
			struct jobfile_task *out)
{
	size_t count = raw->limits ? raw->limits->entry_count : 0;
	out->resources = jobfile_arena_take(reader->arena, (count + 1) * sizeof(*out->resources));
	if (!out->resources)
		return jobreader_no_memory(reader);

	int rc = 0;
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = resource_limit(reader, &raw->limits->entries[i], out);

	for (size_t i = 0; rc == 0 && raw->requests && i < raw->requests->entry_count; i++)
		rc = resource_request(reader, &raw->requests->entries[i], raw->limits);

	return rc;
}

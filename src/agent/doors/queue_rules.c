/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/queue_rules.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "agent/groups.h"
#include "doors/queue/rules.h"
#include "job/isolation.h"
#include "policy/config.h"
#include "policy/schema.h"

void queue_rules_read_machine(struct queue_rules_machine *out)
{
	struct sysinfo info;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	out->cpus = cpus > 0 ? (uint32_t)cpus : 1;
	out->mem_bytes = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
	if (out->mem_bytes == 0)
		out->mem_bytes = QUEUE_RULES_RESERVE_MIN;
}

uint64_t queue_rules_memory(uint64_t mem_bytes)
{
	uint64_t reserve = mem_bytes / QUEUE_RULES_RESERVE_PART;
	if (reserve < QUEUE_RULES_RESERVE_MIN)
		reserve = QUEUE_RULES_RESERVE_MIN;
	if (reserve > QUEUE_RULES_RESERVE_MAX)
		reserve = QUEUE_RULES_RESERVE_MAX;
	if (reserve > mem_bytes / 2)
		reserve = mem_bytes / 2;

	return mem_bytes - reserve;
}

static void rules_warn(struct queue_rules_warnings *warnings, const char *text)
{
	if (warnings->count == QUEUE_RULES_WARNINGS_MAX) {
		(void)snprintf(
		    warnings->text[warnings->count - 1], QUEUE_RULES_WARNING_MAX,
		    "sluice.jobs: more groups are not known ('sluice config show' has all)");
		return;
	}
	(void)snprintf(warnings->text[warnings->count++], QUEUE_RULES_WARNING_MAX, "%s", text);
}

static bool rules_group(struct groups *groups, const char *key, const char *name,
			const char *effect, gid_t *out, struct queue_rules_warnings *warnings)
{
	char text[QUEUE_RULES_WARNING_MAX];
	bool is_asked = false;

	if (groups_find(groups, name, out, &is_asked))
		return true;

	(void)snprintf(text, sizeof(text), "sluice.jobs.%s: there is no group '%s'%s: %s", key,
		       name, is_asked ? " so far (the user database is being asked)" : "", effect);
	rules_warn(warnings, text);
	return false;
}

static uint32_t rules_isolation(const struct config *config)
{
	char word[32]; /* each of them fits */
	uint32_t asked;

	if (schema_format(config, SCHEMA_JOBS_MINIMUM_ISOLATION, word, sizeof(word)) == 0 &&
	    isolation_asked_from_string(word, &asked) == 0)
		return asked;

	return ISOLATION_ENV;
}

static enum rules_outsiders rules_outsiders(uint32_t outsiders)
{
	switch (outsiders) {
	case CONFIG_OUTSIDERS_IGNORE:
		return RULES_OUTSIDERS_IGNORE;
	case CONFIG_OUTSIDERS_SHARE:
		return RULES_OUTSIDERS_SHARE;
	default:
		return RULES_OUTSIDERS_WAIT;
	}
}

void queue_rules_make(const struct config *config, const struct queue_rules_machine *machine,
		      struct groups *groups, struct queue_rules *out,
		      struct queue_rules_warnings *warnings)
{
	const struct config_jobs *jobs = &config->jobs;

	_Static_assert((int)CONFIG_GROUPS_MAX <= (int)RULES_GROUPS_MAX, "each has its place");
	_Static_assert((int)CONFIG_TEXT_MAX <= (int)RULES_PREFER_MAX, "the list fits");
	_Static_assert((int)CONFIG_GROUP_MAX <= (int)GROUPS_NAME_MAX, "a name fits");
	warnings->count = 0;
	*out = (struct queue_rules){
	    .order = jobs->order == CONFIG_ORDER_SHORTEST ? RULES_ORDER_SHORTEST : RULES_ORDER_FIFO,
	    .outsiders = rules_outsiders(jobs->busy_outsiders),
	    .limit = {.pending = jobs->limit_pending, .gpus = jobs->limit_gpus},
	    .minimum_isolation = rules_isolation(config),
	    .weights = {.age = jobs->weight_age,
			.size = jobs->weight_size,
			.priority = jobs->weight_priority,
			.usage = jobs->weight_usage},
	    .half_life_ns = jobs->half_life_ns ? jobs->half_life_ns : 1, /* 0: at once */
	    .reserve_after_ns =
		jobs->reserve_after_ns == SCHEMA_FOREVER ? 0 : jobs->reserve_after_ns,
	    .default_time_ns = jobs->default_time_ns == SCHEMA_FOREVER ? 0 : jobs->default_time_ns,
	    .max_time_ns = jobs->max_time_ns == SCHEMA_FOREVER ? 0 : jobs->max_time_ns,
	    .retention_ns =
		jobs->retention_ns > INT64_MAX ? INT64_MAX : (int64_t)jobs->retention_ns,
	    .retention_jobs = jobs->retention_jobs,
	    .log_bytes = jobs->log_bytes,
	    .cpu_milli = jobs->cpu_milli ? jobs->cpu_milli : machine->cpus * 1000,
	    .mem_bytes = jobs->mem_bytes ? jobs->mem_bytes : queue_rules_memory(machine->mem_bytes),
	    .is_enforced = jobs->enforce,
	};
	memcpy(out->prefer, jobs->prefer, strlen(jobs->prefer) + 1);

	if (jobs->admin_group[0])
		out->has_admin_group =
		    rules_group(groups, "adminGroup", jobs->admin_group,
				"root alone administers the queue", &out->admin_group, warnings);

	for (size_t i = 0; i < jobs->group_count; i++) {
		const struct config_group *from = &jobs->groups[i];
		struct rules_group *group = &out->groups[out->group_count];

		if (!rules_group(groups, "groups", from->name, "its limits are nobody's",
				 &group->group, warnings))
			continue;

		group->limit = (struct rules_limit){.pending = from->pending, .gpus = from->gpus};
		out->group_count++;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/service/config_rdma.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/table.h"
#include "hardware/pci.h"
#include "hardware/rdma.h"
#include "policy/config.h"
#include "policy/rdma.h"

static json_t *entry_words(const struct rdma_config_words *words)
{
	json_t *list = json_array();
	for (size_t i = 0; i < words->count; i++)
		(void)json_array_append_new(list, table_json_text(words->items[i]));
	return list;
}

static json_t *entry_needs(uint32_t needs)
{
	json_t *list = json_array();
	for (uint32_t kind = 0; kind < RDMA_NODE_KINDS; kind++) {
		if (needs & RDMA_KIND_BIT(kind))
			(void)json_array_append_new(list,
						    json_string(rdma_node_kind_to_string(kind)));
	}
	return list;
}

/* In the words of the file, with every default written out. */
static json_t *entry_json(const struct rdma_config_entry *entry)
{
	json_t *selectors = json_object();
	for (size_t i = 0; i < RDMA_SELECT_COUNT; i++) {
		if (entry->selectors[i].count > 0)
			(void)json_object_set_new(selectors, rdma_config_selector_to_string(i),
						  entry_words(&entry->selectors[i]));
	}

	json_t *out = json_pack(
	    "{s:s, s:s, s:I, s:o, s:s, s:b, s:b, s:o, s:b, s:b}", "resourceName", entry->name,
	    "resourcePrefix", entry->prefix, "rdmaHcaMax", (json_int_t)entry->units, "selectors",
	    selectors, "healthCheck", entry->health == RDMA_CONFIG_HEALTH_PORT ? "port" : "off",
	    "topology", entry->topology, "management", entry->management, "require",
	    entry_needs(entry->needs), "setLinkUp", entry->sets_link_up, "softwareAdapters",
	    entry->takes_software);
	if (out && entry->memlock_bytes == UINT64_MAX)
		(void)json_object_set_new(out, "memlock", json_string("unlimited"));
	else if (out && entry->memlock_bytes > 0)
		(void)json_object_set_new(out, "memlock",
					  json_sprintf("%" PRIu64, entry->memlock_bytes));

	if (out && entry->memlock_bytes > 0)
		(void)json_object_set_new(out, "memlockOnError",
					  json_string(entry->memlock_warns ? "warn" : "fail"));

	return out;
}

json_t *config_rdma_json(const struct config *config)
{
	if (!config->rdma.is_set)
		return NULL;
	json_t *list = json_array();
	for (size_t i = 0; i < config->rdma.count; i++)
		(void)json_array_append_new(list, entry_json(&config->rdma.entries[i]));
	return json_pack("{s:I, s:o}", "periodicUpdateInterval", (json_int_t)config->rdma.period_s,
			 "configList", list);
}

void config_rdma_print(const struct config *config)
{
	if (!config->rdma.is_set)
		return;

	printf("  rdma:\n    periodicUpdateInterval: %" PRIu32 "\n    configList:\n",
	       config->rdma.period_s);

	for (size_t i = 0; i < config->rdma.count; i++) {
		json_t *entry = entry_json(&config->rdma.entries[i]);
		char *text = entry ? json_dumps(entry, 0) : NULL;
		printf("    - %s\n", text ? text : "{}");
		free(text);
		json_decref(entry);
	}
}

/* --- what this machine would hand out -----------------------------------------------------------
 */

enum { NOTE_MAX = 512 };

/* Everything that the answer is made of. */
struct rdma_machine {
	struct config *file; /* owned; NULL: what is below sluice.rdma counts */
	struct rdma_inventory *inventory;
	struct rdma_policy policy;
	bool is_configured;
};

static void rdma_machine_done(struct rdma_machine *machine)
{
	rdma_policy_done(&machine->policy);
	(void)config_free(machine->file);
	free(machine->inventory);
}

/* As the agent finds it: the file that was named, or that of the other plugin if it is there. */
static int rdma_machine_file(const struct config *config, struct rdma_machine *out, struct err *err)
{
	char path[FILE_PATH_MAX];
	bool is_named = config->source[SCHEMA_RDMA_FILE] != CONFIG_DEFAULT;

	if (config->rdma.is_set || config->rdma_file[0] == '\0')
		return 0;

	int rc = file_path(path, err, "%s%s", is_named ? "" : pci_root(), config->rdma_file);
	if (rc < 0 || (!is_named && !file_exists(path)))
		return rc;

	return config_load_rdma(path, false, &out->file, err);
}

static int rdma_machine_read(const struct config *config, struct rdma_machine *out, struct err *err)
{
	int rc = rdma_machine_file(config, out, err);
	const struct rdma_config *rdma = out->file ? &out->file->rdma : &config->rdma;

	out->is_configured = rc == 0 && rdma->is_set;
	if (!out->is_configured)
		return rc;

	out->inventory = calloc(1, sizeof(*out->inventory));
	if (!out->inventory)
		return err_set(err, -ENOMEM, "out of memory");

	rc = rdma_read(pci_root(), out->inventory, err);
	return rc < 0 ? rc : rdma_policy_make(rdma, out->inventory, &out->policy, err);
}

/* The names of those whose nodes a container would get. A new reference. */
static json_t *offered(const struct rdma_machine *machine, const struct rdma_resource *resource)
{
	json_t *out = json_array();

	for (uint32_t i = 0; i < resource->candidate_count; i++) {
		const struct rdma_function *function =
		    &machine->inventory->function[resource->candidates[i].function];
		for (uint32_t k = 0;
		     resource->candidates[i].reason_count == 0 && k < function->device_count; k++)
			(void)json_array_append_new(
			    out,
			    table_json_text(machine->inventory->device[function->devices[k]].name));
	}

	return out;
}

/* "mlx5_0, mlx5_1". */
static void add_adapters(struct table *table, json_t *names)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, TABLE_CELL_MAX);
	for (size_t i = 0; i < json_array_size(names); i++)
		(void)buf_printf(&text, "%s%s", i ? ", " : "",
				 json_string_value(json_array_get(names, i)));
	table_add(table, buf_text(&text));
	json_decref(names);
}

/* Why not. Returns how many; `tell` is called for each. */
static void each_note(const struct rdma_machine *machine,
		      void (*tell)(const char *text, void *context), void *context)
{
	for (size_t i = 0; i < machine->policy.count; i++) {
		const struct rdma_resource *resource = &machine->policy.resources[i];
		char text[NOTE_MAX], problem[RDMA_POLICY_REASON_MAX];
		for (uint32_t k = 0; k < resource->candidate_count; k++) {
			rdma_policy_explain(resource, machine->inventory, &resource->candidates[k],
					    text, sizeof(text));
			if (resource->candidates[k].reason_count > 0)
				tell(text, context);
		}

		rdma_policy_problem(resource, machine->inventory, NULL, problem);
		(void)snprintf(text, sizeof(text), "%s: %s", resource->name, problem);
		if (resource->candidate_count == 0)
			tell(text, context);
	}
}

static void print_note(const char *text, void *context)
{
	(void)context;
	cmd_print(stdout, text);
	putchar('\n');
}

static int print_resources(const struct rdma_machine *machine, struct err *err)
{
	static const struct table_column columns[] = {
	    {"RESOURCE", TABLE_LEFT, false},
	    {"UNITS", TABLE_RIGHT, false},
	    {"ADAPTERS", TABLE_LEFT, true},
	};
	_cleanup_table_ struct table *table = table_new(columns, array_length(columns));
	if (!table)
		return err_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0; i < machine->policy.count; i++) {
		const struct rdma_resource *resource = &machine->policy.resources[i];
		table_add(table, resource->name);
		table_addf(table, "%" PRIu32, resource->entry->units);
		add_adapters(table, offered(machine, resource));
	}

	putchar('\n');
	int rc = table_print(table, stdout, table_width(stdout), err);

	each_note(machine, print_note, NULL);
	return rc;
}

int config_rdma_resources_print(const struct config *config, struct err *err)
{
	struct rdma_machine machine = {.file = NULL};
	int rc = rdma_machine_read(config, &machine, err);
	if (rc == 0 && machine.is_configured)
		rc = print_resources(&machine, err);
	rdma_machine_done(&machine);
	return rc;
}

static void append_note(const char *text, void *context)
{
	(void)json_array_append_new(context, table_json_text(text));
}

int config_rdma_resources_json(const struct config *config, json_t **out, struct err *err)
{
	struct rdma_machine machine = {.file = NULL};
	int rc = rdma_machine_read(config, &machine, err);

	*out = NULL;
	if (rc == 0 && machine.is_configured) {
		json_t *resources = json_array(), *notes = json_array();

		for (size_t i = 0; i < machine.policy.count; i++) {
			const struct rdma_resource *resource = &machine.policy.resources[i];
			(void)json_array_append_new(
			    resources, json_pack("{s:s, s:I, s:o}", "name", resource->name, "units",
						 (json_int_t)resource->entry->units, "adapters",
						 offered(&machine, resource)));
		}

		each_note(&machine, append_note, notes);
		*out = json_pack("{s:o, s:o}", "resources", resources, "notes", notes);
	}

	rdma_machine_done(&machine);
	return rc;
}

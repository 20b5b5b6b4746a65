/* SPDX-License-Identifier: Apache-2.0 */
/* sluice devices: the GPUs and MIG devices of this machine, and who holds them. */
#include "cmd/machine/devices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "cmd/service/agent_call.h"
#include "cmd/cmd.h"
#include "cmd/jobs/admin/claim_show.h"
#include "cmd/jobs/job_text.h"
#include "cmd/machine/devices_rdma.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "sluice.pb-c.h"

struct devices_options {
	enum option_output output;
	uint64_t timeout_ns;
	const char *socket;
	bool info, csv, files, rdma;
	const char *driver_root;
	struct devices_files wanted;
};

static const struct option_row rows[] = {
    OPTION_OUTPUT(struct devices_options, output),
    MACHINE_TIMEOUT_ROW(struct devices_options),
    AGENT_CALL_SOCKET_ROW(struct devices_options),
    {.name = "info",
     .kind = OPTION_FLAG,
     .help = "print what 'nvidia-container-cli info' prints: lines for scripts",
     OPTION_FIELD(struct devices_options, info)},
    {.name = "csv",
     .kind = OPTION_FLAG,
     .help = "with --info: comma-separated values",
     OPTION_FIELD(struct devices_options, csv)},
    {.name = "rdma",
     .kind = OPTION_FLAG,
     .help = "list the network adapters instead, with their RDMA devices, ports and nodes, and why "
	     "one cannot be handed out",
     OPTION_FIELD(struct devices_options, rdma)},
    {.name = "files",
     .kind = OPTION_FLAG,
     .help = "print what 'nvidia-container-cli list' prints: the paths of nodes and of the "
	     "driver's files, one on each line; all, or those that the following options name",
     OPTION_FIELD(struct devices_options, files)},
    DEVICES_FILES_ROWS(struct devices_options, wanted, 0, 0, 0, 0, 0),
    {.name = "driver-root",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "with --files: the directory below which the driver is installed (default /)",
     OPTION_FIELD(struct devices_options, driver_root)},
    {.name = NULL},
};

static const struct devices_options defaults = {.timeout_ns = MACHINE_TIMEOUT_NS};

/* ---- who holds them, if a service knows ---- */

/* What a service says. Members are NULL where none answers, or one of before that does not know the
 * question. */
struct devices_service {
	ProtobufCMessage *holders; /* Sluice__V1__HoldersReply */
	ProtobufCMessage *claims;  /* Sluice__V1__Claims */
};

static void service_done(struct devices_service *service)
{
	agent_call_free(service->holders);
	agent_call_free(service->claims);
}

static void ask_service(const struct devices_options *options, struct devices_service *out)
{
	const struct agent_call_options how = {.socket = options->socket};
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__HoldersRequest holders = SLUICE__V1__HOLDERS_REQUEST__INIT;
	Sluice__V1__ClaimsRequest claims = SLUICE__V1__CLAIMS_REQUEST__INIT;

	if (agent_call_open(&agent, &how, NULL) < 0 ||
	    agent_call_ask(&agent, AGENT_HOLDERS, &holders.base, &out->holders, NULL) < 0)
		return;

	(void)agent_call_ask(&agent, AGENT_CLAIMS, &claims.base, &out->claims, NULL);
}

static void add_since(struct table *table, int64_t unix_ns)
{
	char text[32] = "";
	time_t seconds = (time_t)(unix_ns / (int64_t)CLOCK_NS_PER_S);
	struct tm local;
	if (unix_ns > 0 && localtime_r(&seconds, &local))
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
	table_add(table, *text ? text : NULL);
}

static int print_holders(const Sluice__V1__HoldersReply *holders, struct err *err)
{
	static const struct table_column columns[] = {
	    {.title = "UNIT"},
	    {.title = "RESOURCE"},
	    {.title = "HELD BY"},
	    {.title = "SINCE"},
	};

	if (*holders->problem) {
		fputs("\nWhich container holds which device is not known: ", stdout);
		cmd_print(stdout, holders->problem);
		putchar('\n');
	}

	for (size_t i = 0; i < holders->n_outside; i++) {
		char text[JOB_TEXT_MAX];
		putchar('\n');
		cmd_print(stdout, job_text_outside(holders->outside[i], text));
	}

	if (holders->n_outside > 0)
		putchar('\n');
	if (holders->n_holders == 0)
		return 0;

	_cleanup_table_ struct table *table =
	    table_new(columns, sizeof(columns) / sizeof(columns[0]));
	if (!table)
		return err_set(err, -ENOMEM, "printing the holders: no memory");

	for (size_t i = 0; i < holders->n_holders; i++) {
		const Sluice__V1__Holder *holder = holders->holders[i];
		table_add(table, holder->unit);
		table_add(table, *holder->resource ? holder->resource : NULL);

		if (holder->job > 0)
			table_addf(table, "job %" PRIu64, holder->job);
		else if (!*holder->pod)
			table_add(table, "a container that is being started");
		else
			table_addf(table, "%s/%s/%s", holder->name_space, holder->pod,
				   holder->container);

		add_since(table, holder->since_unix_ns);
	}

	putchar('\n');
	return table_print(table, stdout, 0, err);
}

static void print_claims(const Sluice__V1__Claims *claims)
{
	size_t shown = 0;

	for (size_t i = 0; i < claims->n_claims; i++) {
		char text[CLAIM_SHOW_LINE_MAX];
		if (!claim_show_line(claims->claims[i], text))
			continue;

		putchar('\n');
		cmd_print(stdout, text);
		shown++;
	}

	if (shown > 0)
		putchar('\n');
}

static json_t *json_text(const char *text)
{
	return *text ? table_json_text(text) : json_null();
}

static json_t *json_holders(const Sluice__V1__HoldersReply *holders)
{
	if (!holders)
		return json_null();

	json_t *list = json_array();

	for (size_t i = 0; i < holders->n_holders; i++) {
		const Sluice__V1__Holder *holder = holders->holders[i];
		(void)json_array_append_new(
		    list,
		    json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "unit",
			      table_json_text(holder->unit), "resource",
			      json_text(holder->resource), "door", table_json_text(holder->door),
			      "namespace", json_text(holder->name_space), "pod",
			      json_text(holder->pod), "container", json_text(holder->container),
			      "job",
			      holder->job ? json_integer((json_int_t)holder->job) : json_null(),
			      "since_unix_ns", (json_int_t)holder->since_unix_ns));
	}

	return list;
}

static json_t *json_outside(const Sluice__V1__HoldersReply *holders)
{
	if (!holders)
		return json_null();

	json_t *list = json_array();

	for (size_t i = 0; i < holders->n_outside; i++)
		(void)json_array_append_new(list, job_text_outside_json(holders->outside[i]));

	return list;
}

static json_t *json_claims(const Sluice__V1__Claims *claims)
{
	if (!claims)
		return json_null();

	json_t *list = json_array();

	for (size_t i = 0; i < claims->n_claims; i++)
		(void)json_array_append_new(list, claim_show_json(claims->claims[i]));

	return list;
}

/* ---- the table ---- */

static void add_mib(struct table *table, bool known, uint64_t bytes)
{
	if (known)
		table_addf(table, "%llu MiB", (unsigned long long)(bytes >> 20));
	else
		table_add(table, NULL);
}

static void add_reading(struct table *table, const struct snapshot_gpu *gpu, uint32_t value,
			const char *unit, int64_t divisor)
{
	int64_t number;
	if (gpu && snapshot_get(gpu, value, &number))
		table_addf(table, "%lld%s", (long long)(number / divisor), unit);
	else
		table_add(table, NULL);
}

static void add_gpu(struct table *table, const struct gpu *gpu, const struct snapshot_gpu *now)
{
	char bus[PCI_TEXT_MAX];
	int64_t used = 0;

	table_addf(table, "%u", gpu->index);
	table_add(table, gpu->name);
	table_add(table, machine_bus(gpu, bus));

	bool known = now && snapshot_get(now, SNAPSHOT_MEMORY_USED, &used);
	add_mib(table, known, (uint64_t)used);
	add_mib(table, gpu->memory_bytes != GPU_U64_UNKNOWN, gpu->memory_bytes);
	add_reading(table, now, SNAPSHOT_UTIL_GPU, " %", 1);
	add_reading(table, now, SNAPSHOT_TEMPERATURE, " C", 1);
	add_reading(table, now, SNAPSHOT_POWER, " W", 1000);
	table_add(table, gpu_state_to_string(gpu->state));

	if (now && gpu->state == GPU_STATE_OK)
		table_addf(table, "%u", now->process_total);
	else
		table_add(table, NULL);

	table_add(table, gpu->uuid);
}

static const struct snapshot_mig *find_mig(const struct snapshot_gpu *gpu, const char *uuid)
{
	for (uint32_t i = 0; gpu && i < gpu->mig_count; i++) {
		if (strcmp(gpu->mig[i].uuid, uuid) == 0)
			return &gpu->mig[i];
	}
	return NULL;
}

static uint32_t count_processes(const struct snapshot_gpu *gpu, const struct mig_device *mig)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < gpu->process_count; i++)
		count += gpu->process[i].gi == mig->gi && gpu->process[i].ci == mig->ci;
	return count;
}

static void add_mig(struct table *table, const struct mig_device *mig,
		    const struct snapshot_gpu *now, const char *state)
{
	const struct snapshot_mig *memory = find_mig(now, mig->uuid);

	table_add(table, NULL);
	table_addf(table, "  MIG %s", mig->profile);
	table_addf(table, "gi %u ci %u", mig->gi, mig->ci);

	bool known = memory && memory->memory_used != SNAPSHOT_U64_ABSENT;
	add_mib(table, known, known ? memory->memory_used : 0);
	add_mib(table, mig->memory_bytes != GPU_U64_UNKNOWN, mig->memory_bytes);
	table_add(table, NULL);
	table_add(table, NULL);
	table_add(table, NULL);
	table_add(table, state);

	if (now)
		table_addf(table, "%u", count_processes(now, mig));
	else
		table_add(table, NULL);

	table_add(table, mig->uuid);
}

static int print_table(const struct machine *machine, struct err *err)
{
	static const struct table_column columns[] = {
	    {.title = "GPU", .align = TABLE_RIGHT},
	    {.title = "NAME", .may_shrink = true},
	    {.title = "BUS"},
	    {.title = "USED", .align = TABLE_RIGHT},
	    {.title = "MEMORY", .align = TABLE_RIGHT},
	    {.title = "BUSY", .align = TABLE_RIGHT},
	    {.title = "TEMP", .align = TABLE_RIGHT},
	    {.title = "POWER", .align = TABLE_RIGHT},
	    {.title = "STATE"},
	    {.title = "PROCESSES", .align = TABLE_RIGHT},
	    {.title = "UUID"},
	};
	const struct inventory *inventory = &machine->inventory;

	machine_headline(inventory);
	_cleanup_table_ struct table *table =
	    table_new(columns, sizeof(columns) / sizeof(columns[0]));
	if (!table)
		return err_set(err, -12, "printing the devices: no memory");

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		const struct snapshot_gpu *now = snapshot_find(machine->snapshot, gpu->uuid);

		add_gpu(table, gpu, now);

		for (uint32_t m = 0; m < inventory->mig_count; m++) {
			if (inventory->migs[m].parent == i)
				add_mig(table, &inventory->migs[m], now,
					gpu_state_to_string(gpu->state));
		}
	}

	int rc = table_print(table, stdout, table_width(stdout), err);

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		if (gpu->state != GPU_STATE_OK)
			printf("\nGPU %u is not well: %s", gpu->index, gpu->reason);
	}

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		if (inventory->gpus[i].state == GPU_STATE_OK)
			continue;
		printf("\n'sluice health' says what to do.\n");
		break;
	}

	return rc;
}

/* ---- JSON ---- */

static json_t *json_processes(const struct snapshot_gpu *now)
{
	json_t *list = json_array();

	for (uint32_t i = 0; now && i < now->process_count; i++) {
		const struct snapshot_process *process = &now->process[i];
		bool whole = process->gi == SNAPSHOT_WHOLE_GPU;
		json_t *entry = json_pack(
		    "{s:I, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "pid",
		    (json_int_t)process->pid, "compute",
		    (process->type & SNAPSHOT_PROCESS_COMPUTE) != 0, "graphics",
		    (process->type & SNAPSHOT_PROCESS_GRAPHICS) != 0, "mps",
		    (process->type & SNAPSHOT_PROCESS_MPS) != 0, "gi",
		    whole ? json_null() : json_integer(process->gi), "ci",
		    process->ci == SNAPSHOT_WHOLE_GPU ? json_null() : json_integer(process->ci),
		    "memory_bytes", machine_json_u64(process->memory_bytes),
		    "utilization_sm_percent", machine_json_u32(process->util_sm),
		    "utilization_memory_percent", machine_json_u32(process->util_memory));

		(void)json_array_append_new(list, entry); /* shows below as a missing entry */
	}

	return list;
}

/* Every reading that is there, by its name. */
static json_t *json_readings(const struct snapshot_gpu *now)
{
	json_t *object = json_object();
	for (uint32_t i = 0; now && i < SNAPSHOT_VALUE_COUNT; i++) {
		int64_t number;
		if (snapshot_get(now, i, &number))
			(void)json_object_set_new(object, snapshot_value_to_string(i),
						  json_integer(number));
	}

	return object;
}

static json_t *json_migs(const struct inventory *inventory, uint32_t parent,
			 const struct snapshot_gpu *now)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		if (mig->parent != parent)
			continue;

		const struct snapshot_mig *memory = find_mig(now, mig->uuid);
		(void)json_array_append_new(
		    list, json_pack("{s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "uuid",
				    table_json_text(mig->uuid), "index", (json_int_t)mig->index,
				    "gi", (json_int_t)mig->gi, "ci", (json_int_t)mig->ci, "profile",
				    table_json_text(mig->profile), "memory_total_bytes",
				    machine_json_u64(mig->memory_bytes), "memory_used_bytes",
				    machine_json_u64(memory ? memory->memory_used : UINT64_MAX),
				    "sm_count", machine_json_u32(mig->sm_count)));
	}

	return list;
}

static json_t *json_gpu(const struct machine *machine, uint32_t place)
{
	const struct inventory *inventory = &machine->inventory;
	const struct gpu *gpu = &inventory->gpus[place];
	const struct snapshot_gpu *now = snapshot_find(machine->snapshot, gpu->uuid);
	char bus[PCI_TEXT_MAX], capability[32] = "";

	if (gpu->cc_major != GPU_U32_UNKNOWN)
		(void)snprintf(capability, sizeof(capability), "%u.%u", gpu->cc_major,
			       gpu->cc_minor);

	machine_bus(gpu, bus);
	json_t *object =
	    json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "index",
		      (json_int_t)gpu->index, "minor", machine_json_u32(gpu->minor), "uuid",
		      table_json_text(gpu->uuid), "name", table_json_text(gpu->name), "serial",
		      table_json_text(gpu->serial[0] ? gpu->serial : NULL), "bus",
		      table_json_text(bus[0] ? bus : NULL), "numa_node",
		      gpu->numa_node == GPU_NUMA_NONE ? json_null() : json_integer(gpu->numa_node),
		      "state", gpu_state_to_string(gpu->state), "reason",
		      table_json_text(gpu->reason[0] ? gpu->reason : NULL));
	json_t *more = json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "memory_total_bytes",
				 machine_json_u64(gpu->memory_bytes), "compute_capability",
				 table_json_text(capability[0] ? capability : NULL), "architecture",
				 gpu_architecture_to_string(gpu->architecture), "power_limit_mw",
				 machine_json_u32(gpu->power_limit_mw), "power_min_mw",
				 machine_json_u32(gpu->power_min_mw), "power_max_mw",
				 machine_json_u32(gpu->power_max_mw), "readings",
				 json_readings(now), "processes", json_processes(now));
	json_t *mig = json_pack("{s:s, s:s, s:o}", "mode", gpu_mig_mode_to_string(gpu->mig_current),
				"pending", gpu_mig_mode_to_string(gpu->mig_pending), "devices",
				json_migs(inventory, place, now));

	(void)json_object_update(object, more);
	(void)json_object_set_new(object, "mig", mig);
	json_decref(more);

	return object;
}

static int print_json(const struct machine *machine, const struct devices_service *service,
		      struct err *err)
{
	const Sluice__V1__HoldersReply *holders =
	    (const Sluice__V1__HoldersReply *)service->holders;
	json_t *root = machine_json(&machine->inventory);
	json_t *gpus = json_array();
	for (uint32_t i = 0; i < machine->inventory.gpu_count; i++)
		(void)json_array_append_new(gpus, json_gpu(machine, i));

	(void)json_object_set_new(root, "gpus", gpus);
	(void)json_object_set_new(root, "holders", json_holders(holders));
	(void)json_object_set_new(root, "outside", json_outside(holders));
	(void)json_object_set_new(root, "reservations",
				  json_claims((const Sluice__V1__Claims *)service->claims));

	int rc = table_print_json(root, stdout, err);
	json_decref(root);
	return rc;
}

static int check_usage(const struct cmd_call *call, const struct devices_options *options)
{
	if (options->info + options->files + options->rdma > 1)
		return cmd_usage(call, "--info, --files and --rdma are questions: ask one");
	if ((options->info || options->files) && options->output == OPTION_OUTPUT_JSON)
		return cmd_usage(call, "%s prints lines; JSON has all of it without that option",
				 options->info ? "--info" : "--files");
	if (options->csv && !options->info)
		return cmd_usage(call, "--csv goes with --info");
	if ((devices_files_is_set(&options->wanted) || options->driver_root) && !options->files)
		return cmd_usage(call, "options that pick files go with --files");

	return 0;
}

static int run(const struct cmd_call *call)
{
	const struct devices_options *options = call->options;
	int usage = check_usage(call, options);
	if (usage != 0)
		return usage;
	if (options->rdma)
		return devices_rdma(call, options->output);

	if (options->info)
		return devices_info(call, options->timeout_ns, options->csv);
	if (options->files)
		return devices_files(call, &options->wanted, options->driver_root,
				     options->timeout_ns);

	_cleanup_machine_ struct machine machine = {.snapshot = NULL};
	int code = machine_read(call, options->timeout_ns, &machine, NULL, NULL);
	if (code != 0)
		return code;

	struct err err = {.code = 0};
	struct devices_service service = {.holders = NULL};
	int rc;

	ask_service(options, &service);
	if (options->output == OPTION_OUTPUT_JSON) {
		rc = print_json(&machine, &service, &err);
	} else {
		rc = print_table(&machine, &err);
		if (rc == 0 && service.claims)
			print_claims((const Sluice__V1__Claims *)service.claims);
		if (rc == 0 && service.holders)
			rc = print_holders((const Sluice__V1__HoldersReply *)service.holders, &err);
	}

	service_done(&service);
	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

static const struct cmd_example examples[] = {
    {"sluice devices", "lists the GPUs, their MIG devices and how busy they are"},
    {"sluice devices --output json", "the same and every reading, for programs"},
    {"sluice devices --files --device 0 --libraries",
     "the nodes of GPU 0 and the driver's libraries, one path on each line"},
    {"sluice devices --rdma", "lists the RDMA adapters, their ports and nodes"},
    {"sluice sim exec -- sluice devices", "the same for a simulated machine"},
    {NULL, NULL},
};

const struct command cmd_devices = {
    .name = "devices",
    .summary = "List the GPUs of this machine and their MIG devices",
    .description =
	"Asks the driver once and needs no service. One that runs adds which container (by "
	"namespace, pod and name) or job holds which device, and which GPUs are drained or "
	"reserved. A GPU that is lost or whose driver hangs is listed with its state, and never "
	"hides the others. A reading that the GPU does not give is '-' in the table and absent in "
	"JSON; it is never shown as 0.",
    .group = CMD_GROUP_MACHINE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct devices_options),
    .exits = devices_exits,
    .examples = examples,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_validations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/answer.h"
#include "agent/doors/door_cdi.h"
#include "agent/doors/door_kubelet.h"
#include "agent/doors/doors.h"
#include "agent/filewatch.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "agent/uninstall.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "cdi/check.h"
#include "cdi/gather.h"
#include "cdi/scan.h"
#include "doors/kubelet/injection.h"
#include "doors/kubelet/kubelet.h"
#include "doors/kubelet/podresources.h"
#include "doors/kubelet/resource.h"
#include "doors/validations/ready_files.h"
#include "doors/validations/ready_record.h"
#include "hardware/gpu.h"
#include "hardware/minors.h"
#include "hardware/pci.h"
#include "policy/config.h"
#include "wire/arena.h"

/* A run, with copies of all that it is about: the loop goes on meanwhile. */
struct door_validations_run {
	struct door_validations *door; /* borrowed */
	struct storage_job job;
	struct inventory inventory;
	bool has_inventory;
	char driver_root[FILE_PATH_MAX], state_path[FILE_PATH_MAX];
	char device[SCAN_KIND_MAX + 8]; /* of the CDI specification: "VENDOR/gpu=all" */
	struct ready_files_wish wish;
	struct filewatch_plan plan;
	struct ready_files_report report;
	struct err err;
};

struct door_validations {
	struct door_validations_options options;
	char off[READY_WHY_MAX];	  /* why it is, for ever; "" */
	struct filewatch *watch;	  /* owned; NULL: there is none */
	struct loop_timer *look;	  /* owned */
	struct door_validations_run *run; /* owned; NULL: none is under way */
	bool run_again, is_stopping;
	/* Of the last run's question. */
	uint64_t generation; /* of the node */
	uint32_t mode;	     /* enum config_validations */
	struct ready_fact toolkit, plugin;
	/* The registration: when it was last seen (loop time), and asked for. */
	uint64_t seen_ns, asked_ns;
	bool was_ready;
	/* Of the last run. */
	bool is_known;
	int code;
	char text[ERR_TEXT_MAX];
	struct ready_fact facts[READY_COUNT];
	struct ready_files_report report;
};

static void door_validations_look(struct door_validations *door);

/* --- what only the agent knows: the loop's --------------------------------------------------- */

static void door_validations_judge(struct ready_fact *out, enum ready_state state, const char *why)
{
	out->state = state;
	(void)snprintf(out->why, sizeof(out->why), "%.*s", READY_WHY_MAX - 1, why);
}

/* That containers get a GPU: by CDI, or by NVIDIA's own toolkit where that is. The specifications
 * themselves the run looks at. */
static void door_validations_toolkit(const struct door_validations *door, struct ready_fact *out)
{
	const struct door_kubelet *kubelet = door->options.kubelet;
	const struct injection *injection = kubelet ? door_kubelet_injection(kubelet) : NULL;
	enum injection_way way = injection ? injection_now(injection) : INJECTION_UNKNOWN;
	const char *state = door_cdi_state(door->options.cdi);
	if (strcmp(state, "failed") == 0)
		door_validations_judge(out, READY_NO, door_cdi_text(door->options.cdi));
	else if (way == INJECTION_NONE)
		door_validations_judge(out, READY_NO, injection_reason(injection));
	else if (strcmp(state, "waiting") == 0)
		door_validations_judge(out, READY_UNKNOWN, "CDI specifications wait for a driver");
	else if (way == INJECTION_UNKNOWN)
		door_validations_judge(out, READY_UNKNOWN,
				       injection ? injection_reason(injection)
						 : "no kubelet, and so no container runtime");
	else
		door_validations_judge(out, READY_YES, "");
}

/* Whether a resource is attached and the kubelet has it to give away. */
static bool door_validations_is_served(const struct door_kubelet *door, const char **out_why)
{
	const struct kubelet *kubelet = door ? door_kubelet_kubelet(door) : NULL;
	const struct podresources *pods = door ? door_kubelet_pods(door) : NULL;
	struct kubelet_view view;

	*out_why = "no GPU is registered with the kubelet";
	for (size_t i = 0; kubelet && pods && kubelet_resource_at(kubelet, i, &view); i++) {
		int64_t devices = podresources_allocatable(pods, view.name);
		if (view.state != KUBELET_ATTACHED || view.devices == 0)
			continue;

		*out_why = devices == -ENODATA ? "the kubelet has not said yet what pods may have"
					       : "the kubelet does not offer our devices to pods";
		if (devices > 0 || devices == -ENOSYS)
			return true;
	}

	return false;
}

static void door_validations_plugin(struct door_validations *door, struct ready_fact *out)
{
	uint64_t now_ns = loop_now_ns(door->options.loop);
	struct door_kubelet *kubelet = door->options.kubelet;
	const char *why;
	bool is_served = door_validations_is_served(kubelet, &why);
	if (is_served)
		door->seen_ns = now_ns;

	if (is_served || (door->was_ready && now_ns - door->seen_ns < DOOR_VALIDATIONS_LOST_NS))
		door_validations_judge(out, READY_YES, "");
	else
		door_validations_judge(
		    out,
		    now_ns - door->seen_ns < DOOR_VALIDATIONS_LOST_NS ? READY_UNKNOWN : READY_NO,
		    why);

	door->was_ready = out->state == READY_YES;
	if (is_served || !kubelet || now_ns - door->asked_ns < DOOR_VALIDATIONS_ASK_NS)
		return;

	door->asked_ns = now_ns;
	door_kubelet_ask(kubelet);
}

/* --- a run: the storage thread's ------------------------------------------------------------- */

static void door_validations_plan(const struct door_validations *door,
				  struct door_validations_run *run)
{
	char path[FILE_PATH_MAX];
	const char *root = door->options.root;

	if (!door->watch)
		return;
	if (file_path(path, NULL, "%s" READY_DIRECTORY, root) == 0)
		filewatch_plan_contents(door->watch, path, &run->plan);
	if (file_path(path, NULL, "%s/dev", root) == 0)
		filewatch_plan_prefix(door->watch, path, "nvidia", &run->plan);
	if (file_path(path, NULL, "%s/run/mellanox/drivers", root) == 0)
		filewatch_plan_contents(door->watch, path, &run->plan);
}

struct door_validations_answer {
	const struct inventory *inventory;
	const struct minors *minors;
};

static int door_validations_ask(void *context, struct check_machine *out, struct err *err)
{
	const struct door_validations_answer *answer = context;
	if (!answer->inventory)
		return err_set(err, -ENODEV, "the driver does not answer");
	*out = (struct check_machine){.inventory = answer->inventory, .minors = answer->minors};
	return 0;
}

/* What `sluice cdi check` would say of the device that the kubelet names. */
static void door_validations_check(struct door_validations_run *run, struct ready_fact *out)
{
	const char *root = run->wish.root, *names[] = {run->device};
	char version[GPU_VERSION_MAX] = "";
	struct minors *minors = NULL;
	_cleanup_scan_ struct scan scan = {.count = 0};
	_cleanup_check_ struct cdi_check check = {.count = 0};
	struct err err = {0};

	(void)pci_read_nvidia_version(root, version);
	(void)gather_minors(root, &minors, NULL); /* NULL: not known */

	struct door_validations_answer answer = {
	    .inventory = run->has_inventory ? &run->inventory : NULL, .minors = minors};
	const struct cdi_check_options options = {
	    .root = root,
	    .names = names,
	    .name_count = 1,
	    .module_version = version,
	    .ask = door_validations_ask,
	    .context = &answer,
	};
	int rc = scan_read(root, &scan, &err);
	if (rc == 0)
		rc = check_scan(&scan, &options, &check, &err);

	if (rc < 0)
		door_validations_judge(out, READY_UNKNOWN, err.text);

	for (uint32_t i = 0; rc == 0 && check.worst >= CHECK_STALE && i < check.count; i++) {
		if (check.findings[i].severity < CHECK_STALE)
			continue;
		door_validations_judge(out, READY_NO, check.findings[i].text);
		break;
	}

	(void)minors_free(minors);
}

static int door_validations_work(void *context)
{
	struct door_validations_run *run = context;
	struct ready_files_wish *wish = &run->wish;
	const struct ready_question question = {
	    .root = wish->root,
	    .inventory = run->has_inventory ? &run->inventory : NULL,
	    .driver_root = run->driver_root,
	};

	door_validations_plan(run->door, run);
	ready_look(&question, wish->facts, &wish->driver);
	if (wish->facts[READY_TOOLKIT].state == READY_YES)
		door_validations_check(run, &wish->facts[READY_TOOLKIT]);

	return ready_files_run(wish, &run->report, &run->err);
}

/* --- what came of it: the loop's ------------------------------------------------------------- */

static void door_validations_tell(const struct door_validations *door,
				  const struct door_validations_run *run, int code)
{
	struct log *log = door->options.log;
	const struct ready_files_report *report = &run->report;

	if (code < 0 && (code != door->code || strcmp(run->err.text, door->text) != 0))
		log_write(log, LOG_LEVEL_ERROR, NULL, "validations: %s", run->err.text);
	if (report->record_was_damaged && !door->report.record_was_damaged)
		log_write(log, LOG_LEVEL_WARNING, NULL,
			  "validations: the record of our files is damaged: those that are there "
			  "count as another program's");

	if (*report->foreign && strcmp(report->foreign, door->report.foreign) != 0 &&
	    !run->wish.insists)
		log_write(log, LOG_LEVEL_NOTICE, NULL,
			  "validations: another program has written '%s" READY_DIRECTORY
			  "/%s': ours are not there",
			  run->wish.root, report->foreign);

	for (enum ready_what what = 0; what < READY_COUNT; what++) {
		bool is_there = report->is_there[what];
		if (code == 0 && is_there != door->report.is_there[what])
			log_write(log, LOG_LEVEL_INFO, NULL, "validations: %s is %s%s%s",
				  ready_name(what), is_there ? "there" : "gone",
				  is_there || !*run->wish.facts[what].why ? "" : ": ",
				  is_there ? "" : run->wish.facts[what].why);
	}
}

static struct door_validations_run *door_validations_run_free(struct door_validations_run *run)
{
	inventory_done(&run->inventory);
	free(run);
	return NULL;
}

static void door_validations_on_done(void *context, int code)
{
	struct door_validations_run *run = context;
	struct door_validations *door = run->door;

	if (door->watch)
		filewatch_set(door->watch, &run->plan);
	door->run = NULL;
	door_validations_tell(door, run, code);
	door->is_known = true;
	door->code = code;
	(void)snprintf(door->text, sizeof(door->text), "%s", code < 0 ? run->err.text : "");
	memcpy(door->facts, run->wish.facts, sizeof(door->facts));
	door->report = run->report;
	(void)door_validations_run_free(run);

	if (door->run_again)
		door_validations_look(door);
}

/* --- when --------------------------------------------------------------------------------------
 */

/* Whether anything is to be done on this machine: a workstation without a kubelet has nobody who
 * waits. What was written there before stays, as over an update. */
static bool door_validations_is_wanted(const struct door_validations *door)
{
	if (*door->off || door->is_stopping) /* then the node may be gone */
		return false;
	uint32_t mode = node_config(door->options.node)->validations;
	return node_is_known(door->options.node) &&
	       (mode != CONFIG_VALIDATIONS_AUTO || node_has_kubelet(door->options.node));
}

static int door_validations_fill(struct door_validations *door, struct door_validations_run *run)
{
	const struct node *node = door->options.node;
	const struct config *config = node_config(node);
	const struct inventory *inventory = node_inventory(node);

	inventory_init(&run->inventory);
	if (inventory && inventory_copy(inventory, &run->inventory) < 0)
		return -ENOMEM;

	run->has_inventory = inventory != NULL;
	run->wish = (struct ready_files_wish){
	    .root = door->options.root,
	    .state_path = run->state_path,
	    .withdraws = config->validations == CONFIG_VALIDATIONS_NEVER,
	    .insists = config->validations == CONFIG_VALIDATIONS_ALWAYS,
	};
	run->wish.facts[READY_TOOLKIT] = door->toolkit;
	run->wish.facts[READY_PLUGIN] = door->plugin;
	(void)snprintf(run->device, sizeof(run->device), "%.*s/gpu=all", SCAN_KIND_MAX - 8,
		       resource_cdi_vendor(config, inventory && inventory->simulated));

	int rc = file_path(run->driver_root, NULL, "%s", config->driver_root);
	return rc < 0 ? rc
		      : file_path(run->state_path, NULL, "%s/" READY_RECORD_NAME,
				  door->options.paths->state_dir);
}

/* What cannot even be begun is tried again with the timer. */
static void door_validations_look(struct door_validations *door)
{
	door->run_again = door->run != NULL && !door->is_stopping;
	if (door->run || !door_validations_is_wanted(door))
		return;

	struct door_validations_run *run = calloc(1, sizeof(*run));
	if (!run)
		return;

	run->door = door;
	run->job = (struct storage_job){
	    .work = door_validations_work, .done = door_validations_on_done, .context = run};
	door->generation = node_generation(door->options.node);
	door->mode = node_config(door->options.node)->validations;
	if (door_validations_fill(door, run) < 0 ||
	    storage_submit(door->options.storage, &run->job, NULL) < 0)
		run = door_validations_run_free(run);

	door->run = run;
}

/* Returns whether what the agent knows is another. */
static bool door_validations_renew(struct door_validations *door)
{
	struct ready_fact toolkit, plugin;
	door_validations_toolkit(door, &toolkit);
	door_validations_plugin(door, &plugin);
	bool is_new = toolkit.state != door->toolkit.state || plugin.state != door->plugin.state;
	door->toolkit = toolkit;
	door->plugin = plugin;
	return is_new;
}

void door_validations_update(void *context)
{
	struct door_validations *door = context;
	if (!door || !door_validations_is_wanted(door))
		return;
	bool is_new = door_validations_renew(door);
	if (is_new || door->generation != node_generation(door->options.node) ||
	    door->mode != node_config(door->options.node)->validations)
		door_validations_look(door);
}

static void door_validations_on_files(void *context)
{
	door_validations_look(context);
}

static void door_validations_on_look(void *context)
{
	struct door_validations *door = context;
	if (door_validations_is_wanted(door)) {
		(void)door_validations_renew(door);
		door_validations_look(door);
	}
	loop_timer_start(door->look, DOOR_VALIDATIONS_LOOK_NS);
}

/* --- its life -------------------------------------------------------------------------------- */

static int door_validations_begin(struct door_validations *door, struct err *err)
{
	const struct door_validations_options *options = &door->options;
	struct err unwatched = {0};

	door->look = loop_timer_new(options->loop, door_validations_on_look, door, err);
	if (!door->look)
		return -ENOMEM;
	if (filewatch_new(options->loop, door_validations_on_files, door, &door->watch,
			  &unwatched) < 0)
		log_write(options->log, LOG_LEVEL_WARNING, NULL,
			  "validations: files of others are noticed late: %s", unwatched.text);

	door->seen_ns = loop_now_ns(options->loop);
	door_validations_update(door);
	loop_timer_start(door->look, DOOR_VALIDATIONS_LOOK_NS);

	return 0;
}

int door_validations_new(const struct door_validations_options *options,
			 struct door_validations **out, struct err *err)
{
	struct door_validations *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for validation files");

	door->options = *options;
	if (options->root[0] == '\0' && !options->paths->is_system)
		(void)snprintf(door->off, sizeof(door->off),
			       "only root's agent writes validation files");
	else if (strcmp(options->root, PCI_NO_ROOT) == 0)
		(void)snprintf(door->off, sizeof(door->off),
			       "a simulated machine without files has no validation files");

	int rc = *door->off ? 0 : door_validations_begin(door, err);
	if (rc < 0) {
		(void)door_validations_free(door);
		return rc;
	}

	*out = door;
	return 0;
}

int door_validations_open(struct doors *doors, void **out, struct err *err)
{
	const struct doors_parts *parts = doors_parts(doors);
	const struct door_validations_options options = {
	    DOORS_OPTIONS(parts),
	    .cdi = doors_at(doors, DOOR_CDI),
	    .kubelet = doors_at(doors, DOOR_KUBELET),
	};
	struct door_validations *door = NULL;

	int rc = door_validations_new(&options, &door, err);
	*out = door;

	return rc;
}

void door_validations_stop(void *context)
{
	struct door_validations *door = context;
	if (!door)
		return;
	door->is_stopping = true;
	if (door->look)
		loop_timer_stop(door->look);
}

void *door_validations_free(void *context)
{
	struct door_validations *door = context;
	if (!door)
		return NULL;
	(void)filewatch_free(door->watch);
	(void)loop_timer_free(door->look);
	free(door);
	return NULL;
}

/* --- what it says ----------------------------------------------------------------------------- */

static bool door_validations_is_off(const struct door_validations *door)
{
	if (!door || *door->off)
		return true;
	uint32_t mode = node_config(door->options.node)->validations;
	return mode == CONFIG_VALIDATIONS_NEVER ||
	       (mode == CONFIG_VALIDATIONS_AUTO && !node_has_kubelet(door->options.node));
}

const char *door_validations_state(const struct door_validations *door)
{
	if (door_validations_is_off(door))
		return "off";
	if (door->code < 0)
		return door->code == -ELOOP || door->code == -ENOTDIR ? "off" : "failed";
	return *door->report.foreign && door->mode != CONFIG_VALIDATIONS_ALWAYS ? "foreign"
										: "kept";
}

const char *door_validations_text(const struct door_validations *door)
{
	if (!door)
		return "";
	if (*door->off)
		return door->off;
	if (node_config(door->options.node)->validations == CONFIG_VALIDATIONS_NEVER)
		return "sluice.validations.write is never";
	if (door_validations_is_off(door))
		return "there is no kubelet here whose pods could wait for them";

	return door->code < 0 ? door->text : door->report.foreign;
}

enum ready_state door_validations_fact(const struct door_validations *door, enum ready_what what)
{
	return door && door->is_known ? door->facts[what].state : READY_UNKNOWN;
}

bool door_validations_has(const struct door_validations *door, enum ready_what what,
			  const char **out_why)
{
	*out_why = "";
	if (!door || !door->is_known)
		return false;
	*out_why = door->report.is_there[what] ? "" : door->facts[what].why;
	return door->report.is_there[what];
}

void door_validations_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out)
{
	out->validations = answer_text(arena, door_validations_state(door));
	out->validations_reason = answer_text(arena, door_validations_text(door));
	out->validation = arena_alloc(arena, READY_COUNT * sizeof(*out->validation));

	bool is_off = strcmp(out->validations, "off") == 0;

	for (enum ready_what what = 0; out->validation && !is_off && what < READY_COUNT; what++) {
		Sluice__V1__Validation *one = arena_alloc(arena, sizeof(*one));
		const char *why;

		if (!one)
			return;

		sluice__v1__validation__init(one);
		one->is_ready = door_validations_has(door, what, &why);
		one->name = answer_text(arena, ready_name(what));
		one->reason = answer_text(arena, why);
		out->validation[out->n_validation++] = one;
	}
}

int door_validations_cleanup(const struct uninstall_options *options, struct err *err)
{
	char path[FILE_PATH_MAX];
	const struct ready_files_wish wish = {
	    .root = options->root, .state_path = path, .withdraws = true};
	struct ready_files_report report;
	int rc = file_path(path, err, "%s/" READY_RECORD_NAME, options->paths->state_dir);
	if (rc == 0)
		rc = ready_files_run(&wish, &report, err);

	if (rc < 0 && rc != -ELOOP && rc != -ENOTDIR)
		return rc;

	if (rc == 0 && report.removed > 0)
		uninstall_tell(options, "removed: %u validation file%s in '%s" READY_DIRECTORY "'",
			       report.removed, report.removed == 1 ? "" : "s", options->root);

	(void)unlink(path); /* it may never have been there */
	return 0;
}

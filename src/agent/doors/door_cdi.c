/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_cdi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/answer.h"
#include "agent/doors/doors.h"
#include "agent/filewatch.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "agent/uninstall.h"
#include "base/cleanup.h"
#include "base/domain.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "base/text.h"
#include "doors/cdi/keep.h"
#include "doors/cdi/state.h"
#include "doors/kubelet/resource.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"
#include "policy/config.h"

enum { DOOR_CDI_MODES = 4 };

/* The bit of each is its place. */
static const char *const door_cdi_modes_of[DOOR_CDI_MODES] = {"gdrcopy=all", "gds=all", "mofed=all",
							      "imex-channel=0"};
_Static_assert(RESOURCE_CDI_GDRCOPY == 1 && RESOURCE_CDI_GDS == 2 && RESOURCE_CDI_MOFED == 4 &&
		   RESOURCE_CDI_IMEX == 8,
	       "the places of door_cdi_modes_of");

/* A run, with copies of all that it is about: the loop goes on meanwhile. */
struct door_cdi_run {
	struct door_cdi *door; /* borrowed */
	struct storage_job job;
	struct inventory inventory;
	bool has_inventory;
	char kinds[KEEP_KINDS_MAX][SCAN_KIND_MAX];
	uint32_t kind_count;
	char driver_root[FILE_PATH_MAX], dev_root[FILE_PATH_MAX], container_root[FILE_PATH_MAX];
	char names[DOOR_CDI_MODES][SCAN_KIND_MAX];
	char asked_kind[SCAN_KIND_MAX];
	bool asked_by_index, mig_whole;
	struct filewatch_plan plan;
	struct keep_report report;
	struct err err;
};

struct door_cdi {
	struct door_cdi_options options;
	bool is_off, is_stopping, is_pod;
	struct keep *keep;	  /* owned; the storage thread's during a run */
	struct filewatch *watch;  /* owned; NULL: there is none */
	struct loop_timer *look;  /* owned */
	struct door_cdi_run *run; /* owned; NULL: none is under way */
	bool run_again;
	uint64_t generation; /* of the node, when it was last looked at */
	bool had_inventory;

	/* Of the last run. */
	bool is_known, is_simulated;
	bool is_resolved;
	uint32_t modes, kind_count;
	char (*missing)[GPU_UUID_MAX]; /* owned */
	uint32_t missing_count;
	struct keep_kind kinds[KEEP_KINDS_MAX];
	int code;
	char text[ERR_TEXT_MAX];   /* of what is wrong */
	char others[ERR_TEXT_MAX]; /* who provides which kind */
	uint64_t notes;		   /* hash of what was logged */
};

static void door_cdi_look(struct door_cdi *door);

/* --- what there is to be: the loop's --------------------------------------------------------- */

static void door_cdi_add_kind(struct door_cdi_run *run, const char *vendor, const char *class)
{
	char *kind = run->kinds[run->kind_count];
	(void)snprintf(kind, SCAN_KIND_MAX, "%.*s/%s", SCAN_KIND_MAX - 16, vendor, class);
	for (uint32_t i = 0; i < run->kind_count; i++) {
		if (strcmp(run->kinds[i], kind) == 0)
			return;
	}
	run->kind_count++;
}

/* Ours always. NVIDIA's, or the one that the kubelet is told, only of real GPUs: a simulation never
 * shadows them, unless the configuration says so. */
static void door_cdi_add_kinds(const struct config *config, bool is_simulated,
			       struct door_cdi_run *run)
{
	door_cdi_add_kind(run, is_simulated ? "sluice.sim" : SLUICE_DOMAIN, "gpu");
	if (!is_simulated)
		door_cdi_add_kind(run, "nvidia.com", "gpu");
	door_cdi_add_kind(run, resource_cdi_vendor(config, is_simulated), "gpu");
	if (config->imex_channel)
		door_cdi_add_kind(run, resource_cdi_vendor(config, is_simulated), "imex-channel");
}

static int door_cdi_fill(struct door_cdi *door, struct door_cdi_run *run)
{
	const struct config *config = node_config(door->options.node);
	const struct inventory *inventory = node_inventory(door->options.node);
	const char *vendor;

	inventory_init(&run->inventory);
	if (inventory && inventory_copy(inventory, &run->inventory) < 0)
		return -ENOMEM;

	run->has_inventory = inventory != NULL;
	if (inventory)
		door->is_simulated = inventory->simulated;
	if (config->cdi_write)
		door_cdi_add_kinds(config, door->is_simulated, run);
	vendor = resource_cdi_vendor(config, door->is_simulated);

	for (size_t i = 0; i < DOOR_CDI_MODES; i++)
		(void)snprintf(run->names[i], sizeof(run->names[i]), "%.*s/%s", SCAN_KIND_MAX - 16,
			       vendor, door_cdi_modes_of[i]);

	(void)snprintf(run->asked_kind, sizeof(run->asked_kind), "%.*s/gpu", SCAN_KIND_MAX - 16,
		       vendor);
	run->asked_by_index = config->id_strategy == 1;
	run->mig_whole = config->mig_strategy == CONFIG_MIG_NONE;

	int rc = file_path(run->driver_root, NULL, "%s", config->driver_root);
	if (rc == 0)
		rc = file_path(run->dev_root, NULL, "%s", config->dev_root);

	return rc < 0 ? rc
		      : file_path(run->container_root, NULL, "%s", config->container_driver_root);
}

static struct door_cdi_run *door_cdi_run_free(struct door_cdi_run *run)
{
	inventory_done(&run->inventory);
	keep_report_done(&run->report);
	free(run);
	return NULL;
}

/* --- a run: the storage thread's ------------------------------------------------------------- */

/* Watched before it is looked at, so that nothing happens in between. */
static void door_cdi_plan(const struct door_cdi *door, struct door_cdi_run *run)
{
	const char *root = door->options.root;
	const char *driver = root[0] ? root : door->is_pod ? run->container_root : run->driver_root;
	char path[FILE_PATH_MAX];

	if (!door->watch)
		return;
	if (file_path(path, NULL, "%s/etc/cdi", root) == 0)
		filewatch_plan_contents(door->watch, path, &run->plan);
	if (file_path(path, NULL, "%s" KEEP_DIRECTORY, root) == 0)
		filewatch_plan_contents(door->watch, path, &run->plan);
	if (file_path(path, NULL, "%s/dev/nvidia-caps", root) == 0)
		filewatch_plan_directory(door->watch, path, &run->plan);

	if (file_path(path, NULL, "%s/dev", root) == 0)
		filewatch_plan_prefix(door->watch, path, "nvidia", &run->plan);

	/* What puts libraries there runs ldconfig at its end. */
	if (file_path(path, NULL, "%s/etc/ld.so.cache", strcmp(driver, "/") == 0 ? "" : driver) ==
	    0)
		filewatch_plan_file(door->watch, path, &run->plan);
}

static int door_cdi_work(void *context)
{
	struct door_cdi_run *run = context;
	struct keep_wish wish = {
	    .inventory = run->has_inventory ? &run->inventory : NULL,
	    .kind_count = run->kind_count,
	    .driver_root = run->driver_root,
	    .dev_root = run->dev_root,
	    .container_root = run->container_root,
	    .name_count = DOOR_CDI_MODES,
	    .mig_whole = run->mig_whole,
	    .asked_kind = run->asked_kind,
	    .asked_by_index = run->asked_by_index,
	};
	for (uint32_t i = 0; i < run->kind_count; i++)
		wish.kinds[i] = run->kinds[i];

	for (uint32_t i = 0; i < DOOR_CDI_MODES; i++)
		wish.names[i] = run->names[i];

	door_cdi_plan(run->door, run);
	return keep_run(run->door->keep, &wish, &run->report, &run->err);
}

/* --- what came of it: the loop's ------------------------------------------------------------- */

static const struct keep_kind *door_cdi_before(const struct door_cdi *door, const char *kind)
{
	for (uint32_t i = 0; i < door->kind_count; i++) {
		if (strcmp(door->kinds[i].kind, kind) == 0)
			return &door->kinds[i];
	}
	return NULL;
}

/* Returns whether it is another than before. */
static bool door_cdi_tell_kind(const struct door_cdi *door, const struct keep_kind *kind)
{
	const struct keep_kind *before = door_cdi_before(door, kind->kind);
	enum keep_state was = before ? before->state : KEEP_ABSENT;
	struct log *log = door->options.log;

	if (was == kind->state && (!before || strcmp(before->foreign, kind->foreign) == 0))
		return false;

	if (kind->state == KEEP_FOREIGN)
		log_write(log, LOG_LEVEL_NOTICE, NULL,
			  "CDI: ours of %s %s: '%s' provides it, and the same device twice makes "
			  "both unusable",
			  kind->kind, was == KEEP_WRITTEN ? "is withdrawn" : "is not written",
			  kind->foreign);
	else if (was == KEEP_FOREIGN && kind->state == KEEP_WRITTEN)
		log_write(log, LOG_LEVEL_NOTICE, NULL,
			  "CDI: %s is ours again: no other file provides it any more", kind->kind);

	return true;
}

/* What is not what it should be, once. */
static void door_cdi_tell_problem(struct door_cdi *door, const struct door_cdi_run *run, int code)
{
	char text[ERR_TEXT_MAX];
	(void)snprintf(text, sizeof(text), "%s", code < 0 ? run->err.text : "");
	if (code == door->code && strcmp(text, door->text) == 0)
		return;

	/* The driver's absence is told by whoever misses it. */
	enum log_level level = code == -ENXIO || code == -EBUSY ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR;

	if (code == -ENODEV && door->options.root[0] != '\0')
		level = LOG_LEVEL_INFO; /* who is not root simulates nodes by files */

	if (code < 0)
		log_write(door->options.log, level, NULL, "CDI: %s%s", text,
			  run->report.removed ? ": ours are removed, for containers would not work"
					      : "");
	else if (door->code < 0 && door->code != -ENXIO)
		log_write(door->options.log, LOG_LEVEL_NOTICE, NULL,
			  "CDI: the specifications are kept again");

	door->code = code;
	memcpy(door->text, text, sizeof(text));
}

static void door_cdi_tell_notes(struct door_cdi *door, const struct buf *notes)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const char *at = buf_text(notes);
	for (size_t i = 0; i < notes->length; i++)
		hash = (hash ^ (unsigned char)at[i]) * UINT64_C(0x100000001b3);

	if (hash == door->notes)
		return;

	door->notes = hash;
	for (size_t length; *at != '\0'; at += length + (at[length] == '\n')) {
		length = strcspn(at, "\n");
		log_write(door->options.log, LOG_LEVEL_INFO, NULL, "CDI: %.*s", (int)length, at);
	}
}

static bool door_cdi_stays(const struct keep_report *report)
{
	for (uint32_t i = 0; i < report->kind_count; i++) {
		if (report->kinds[i].state == KEEP_STAYS)
			return true;
	}
	return false;
}

static void door_cdi_list_others(struct door_cdi *door)
{
	size_t used = 0;

	(void)snprintf(door->others, sizeof(door->others), "%s",
		       door->kind_count > 0 ? "" : "sluice.cdi.write is false");

	for (uint32_t i = 0; i < door->kind_count && used < sizeof(door->others) - 1; i++) {
		const struct keep_kind *kind = &door->kinds[i];
		if (kind->state == KEEP_FOREIGN) /* may be cut */
			used += (size_t)snprintf(door->others + used, sizeof(door->others) - used,
						 "%s'%.160s' provides %.80s", used ? ", " : "",
						 kind->foreign, kind->kind);
	}
}

/* Which devices nobody has. Returns whether they are others than before; where that is not known,
 * because the driver or a disk is away, what was known before holds. */
static bool door_cdi_take_missing(struct door_cdi *door, struct keep_report *report)
{
	if (!report->is_resolved)
		return false;

	bool is_new = !door->is_resolved || door->missing_count != report->missing_count ||
		      memcmp(door->missing, report->missing,
			     report->missing_count * sizeof(*report->missing)) != 0;

	free(door->missing);
	door->missing = report->missing;
	door->missing_count = report->missing_count;
	report->missing = NULL;
	door->is_resolved = true;

	return is_new;
}

static void door_cdi_take(struct door_cdi *door, struct door_cdi_run *run, int code)
{
	struct keep_report *report = &run->report;
	bool is_new = door_cdi_take_missing(door, report);

	is_new |= !door->is_known || report->written > 0 || report->removed > 0 ||
		  report->names != door->modes;
	for (uint32_t i = 0; i < report->kind_count; i++)
		is_new |= door_cdi_tell_kind(door, &report->kinds[i]);

	if (report->written > 0)
		log_write(door->options.log, LOG_LEVEL_INFO, NULL,
			  "CDI: %u specification%s written in '%s" KEEP_DIRECTORY "'",
			  report->written, report->written == 1 ? "" : "s", door->options.root);

	if (!run->has_inventory && door->had_inventory && door_cdi_stays(report))
		log_write(door->options.log, LOG_LEVEL_NOTICE, NULL,
			  "CDI: the specifications stay as they were until the driver is back");

	door_cdi_tell_problem(door, run, code);
	door_cdi_tell_notes(door, &report->notes);
	door->had_inventory = run->has_inventory;
	door->is_known = true;
	door->modes = report->names;
	door->kind_count = report->kind_count;
	memcpy(door->kinds, report->kinds, sizeof(door->kinds));
	door_cdi_list_others(door);

	if (is_new && door->options.changed)
		door->options.changed(door->options.context);
}

static void door_cdi_on_done(void *context, int code)
{
	struct door_cdi_run *run = context;
	struct door_cdi *door = run->door;

	if (door->watch)
		filewatch_set(door->watch, &run->plan);
	door->run = NULL;
	if (!door->is_stopping)
		door_cdi_take(door, run, code);
	(void)door_cdi_run_free(run);

	if (door->run_again)
		door_cdi_look(door);
}

/* What cannot even be begun is tried again with the timer. */
static void door_cdi_look(struct door_cdi *door)
{
	door->run_again = door->run != NULL && !door->is_stopping;
	if (door->run || door->is_stopping || !node_is_known(door->options.node))
		return;

	struct door_cdi_run *run = calloc(1, sizeof(*run));
	if (!run)
		return;

	run->door = door;
	run->job =
	    (struct storage_job){.work = door_cdi_work, .done = door_cdi_on_done, .context = run};
	door->generation = node_generation(door->options.node);
	if (door_cdi_fill(door, run) < 0 ||
	    storage_submit(door->options.storage, &run->job, NULL) < 0)
		run = door_cdi_run_free(run);

	door->run = run;
}

static void door_cdi_on_files(void *context)
{
	door_cdi_look(context);
}

static void door_cdi_on_look(void *context)
{
	struct door_cdi *door = context;
	if (!door->watch || !filewatch_is_busy(door->watch))
		door_cdi_look(door);
	loop_timer_start(door->look, DOOR_CDI_LOOK_NS);
}

void door_cdi_update(void *context)
{
	struct door_cdi *door = context;
	if (door && !door->is_off && node_is_known(door->options.node) &&
	    door->generation != node_generation(door->options.node))
		door_cdi_look(door);
}

/* --- its life -------------------------------------------------------------------------------- */

static int door_cdi_begin(struct door_cdi *door, struct err *err)
{
	char state_path[FILE_PATH_MAX];
	const struct door_cdi_options *options = &door->options;
	struct err unwatched = {0};
	const char *service = getenv("KUBERNETES_SERVICE_HOST");
	int rc = file_path(state_path, err, "%s/" STATE_NAME, options->paths->runtime_dir);
	if (rc < 0)
		return rc;

	door->is_pod = service && *service;
	const struct keep_options keep = {
	    .root = options->root,
	    .state_path = state_path,
	    .makes_nodes = options->root[0] == '\0',
	    .is_pod = door->is_pod,
	};
	rc = keep_new(&keep, &door->keep, err);
	if (rc < 0)
		return rc;

	door->look = loop_timer_new(options->loop, door_cdi_on_look, door, err);
	if (!door->look)
		return -ENOMEM;
	if (filewatch_new(options->loop, door_cdi_on_files, door, &door->watch, &unwatched) < 0)
		log_write(options->log, LOG_LEVEL_WARNING, NULL,
			  "CDI: files of others are noticed late: %s", unwatched.text);

	door->is_simulated = options->root[0] != '\0';
	door_cdi_look(door);
	loop_timer_start(door->look, DOOR_CDI_LOOK_NS);

	return 0;
}

int door_cdi_new(const struct door_cdi_options *options, struct door_cdi **out, struct err *err)
{
	struct door_cdi *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for CDI specifications");

	door->options = *options;
	bool is_real = options->root[0] == '\0';
	const char *why = NULL;

	if (is_real && !options->paths->is_system)
		why = "only root's agent writes CDI specifications, in " KEEP_DIRECTORY;
	else if (strcmp(options->root, PCI_NO_ROOT) == 0)
		why = "a simulated machine without files has no CDI specifications";

	int rc = 0;

	if (why) {
		door->is_off = true;
		(void)snprintf(door->text, sizeof(door->text), "%s", why);
		log_write(options->log, LOG_LEVEL_INFO, NULL, "CDI: %s", why);
	} else {
		rc = door_cdi_begin(door, err);
	}

	if (rc < 0) {
		(void)door_cdi_free(door);
		return rc;
	}

	*out = door;
	return 0;
}

int door_cdi_open(struct doors *doors, void **out, struct err *err)
{
	const struct doors_parts *parts = doors_parts(doors);
	const struct door_cdi_options options = {
	    DOORS_OPTIONS(parts),
	    .changed = doors_on_specifications,
	    .context = doors,
	};
	struct door_cdi *door = NULL;

	int rc = door_cdi_new(&options, &door, err);
	*out = door;

	return rc;
}

void door_cdi_stop(void *context)
{
	struct door_cdi *door = context;
	if (!door)
		return;
	door->is_stopping = true;
	if (door->look)
		loop_timer_stop(door->look);
}

void *door_cdi_free(void *context)
{
	struct door_cdi *door = context;
	if (!door)
		return NULL;

	(void)filewatch_free(door->watch);
	(void)loop_timer_free(door->look);
	(void)keep_free(door->keep);
	free(door->missing);
	free(door);

	return NULL;
}

void door_cdi_found(const struct door_cdi *door, struct resource_cdi *out)
{
	*out = (struct resource_cdi){.is_known = false};
	if (door)
		*out = (struct resource_cdi){.is_known = door->is_resolved,
					     .modes = door->modes,
					     .missing = (const char(*)[GPU_UUID_MAX])door->missing,
					     .missing_count = door->missing_count};
}

const char *door_cdi_state(const struct door_cdi *door)
{
	if (!door || door->is_off)
		return "off";
	if (door->is_known && door->code < 0 && door->code != -ENXIO)
		return "failed";
	if (door->is_known && door->kind_count == 0)
		return "off";
	return door->had_inventory && door->code == 0 ? "kept" : "waiting";
}

const char *door_cdi_text(const struct door_cdi *door)
{
	return !door ? "" : door->text[0] ? door->text : door->others;
}

void door_cdi_status(const void *door, struct arena *arena, Sluice__V1__StatusReply *out)
{
	out->cdi = answer_text(arena, door_cdi_state(door));
	out->cdi_reason = answer_text(arena, door_cdi_text(door));
}

static bool door_cdi_is_specification(int directory, const char *name)
{
	static const char begin[] = "sluice", end[] = ".json";
	size_t length = strlen(name);
	struct stat status;
	return text_starts_with(name, begin) && length > sizeof(end) - 1 &&
	       strcmp(name + length - (sizeof(end) - 1), end) == 0 &&
	       fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

/* By their names, which are the agent's alone: the note of what was written lies in the runtime
 * directory, which a pod takes with it. */
int door_cdi_cleanup(const struct uninstall_options *options, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = 0;

	if (file_path(path, NULL, "%s" KEEP_DIRECTORY, options->root) < 0)
		return 0;

	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	if (!entries) {
		if (fd >= 0)
			(void)close(fd);
		return 0; /* there is none of ours in it */
	}

	for (const struct dirent *entry; (entry = readdir(entries));) {
		if (!door_cdi_is_specification(dirfd(entries), entry->d_name))
			continue;
		if (unlinkat(dirfd(entries), entry->d_name, 0) == 0) {
			uninstall_tell(options, "removed: '%s/%s'", path, entry->d_name);
			continue;
		}

		int code = -errno;
		if (rc == 0)
			rc = err_set(err, code, "cannot remove '%s/%s': %s", path, entry->d_name,
				     err_describe(code));
	}

	(void)unlinkat(dirfd(entries), KEEP_LOCK, 0); /* it may not be there */
	return rc;
}

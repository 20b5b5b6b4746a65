/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice cdi check`: whether the CDI files of this machine would work now. */
#include "cmd/service/cdi.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "cdi/check.h"
#include "cdi/gather.h"
#include "cdi/image.h"
#include "cdi/scan.h"
#include "cdi/version.h"
#include "hardware/minors.h"
#include "hardware/pci.h"
#include "probe/client.h"

#define CHECK_TIMEOUT_NS UINT64_C(10000000000)

enum check_command_limits {
	CHECK_RUNTIME_MAX = VERSION_TEXT_MAX + 16,
	CHECK_RUNTIME_TIMEOUT_MS = 5000,
};

struct check_call {
	enum option_output output;
	struct option_list directories, devices;
	const char *apply, *image, *image_env;
	const char *runtime_version;
	bool without_driver;
	uint64_t timeout_ns;
};

static const struct option_row rows[] = {
    {.name = "no-driver",
     .kind = OPTION_FLAG,
     .help = "do not ask the driver which GPUs there are; everything else is compared",
     OPTION_FIELD(struct check_call, without_driver)},
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .min = 100000000,
     .max = UINT64_C(3600000000000),
     .help = "how long to wait for the driver at most (default 10s)",
     OPTION_FIELD(struct check_call, timeout_ns)},
    {.name = "cdi-version",
     .kind = OPTION_TEXT,
     .value = "VERSION",
     .help = "the newest cdiVersion that your runtime reads (default: that of podman, if it is an "
	     "old one)",
     OPTION_FIELD(struct check_call, runtime_version)},
    {.name = "apply",
     .kind = OPTION_PATH,
     .value = "CONFIG.json",
     .help = "compare nothing: print this OCI configuration with the devices of --device in it",
     OPTION_FIELD(struct check_call, apply)},
    {.name = "device",
     .kind = OPTION_LIST,
     .value = "NAME",
     .help = "a device for --apply, such as nvidia.com/gpu=0; may be given again",
     OPTION_FIELD(struct check_call, devices)},
    {.name = "image-root",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "look at the unpacked image in DIR instead: whether its programs would find the "
	     "driver's libraries",
     OPTION_FIELD(struct check_call, image)},
    {.name = "image-env",
     .kind = OPTION_PATH,
     .help = "compare nothing: say whether all GPUs, or those of NAME, meet the NVIDIA_REQUIRE_ "
	     "variables in this file, lines of NAME=VALUE or what podman image inspect prints",
     OPTION_FIELD(struct check_call, image_env)},
    CDI_DIRECTORY_ROW(struct check_call, directories),
    OPTION_OUTPUT(struct check_call, output),
    {.name = NULL},
};

static const struct check_call defaults = {.timeout_ns = CHECK_TIMEOUT_NS};

/* --- the machine ----------------------------------------------------------------------------- */

/* What the driver said, kept as long as the check needs it. */
struct check_facts {
	const struct check_call *options;
	struct inventory inventory;
	struct minors *minors; /* owned */
	bool was_asked, has_answered;
};

static void facts_done(struct check_facts *facts)
{
	inventory_done(&facts->inventory);
	facts->minors = minors_free(facts->minors);
}

/* Where there are MIG devices: their capabilities. Without the file they are not compared. */
static void facts_minors(struct check_facts *facts)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;
	buf_init(&text, MINORS_SIZE_MAX);
	if (facts->inventory.mig_count > 0 &&
	    file_path(path, NULL, "%s" MINORS_PATH, pci_root()) == 0 &&
	    file_read(path, &text, NULL) == 0)
		(void)minors_parse(buf_text(&text), text.length, &facts->minors, NULL);
}

static int facts_ask(void *context, struct check_machine *out, struct err *err)
{
	struct check_facts *facts = context;
	const struct probe_options how = {.kernel_log = false};

	facts->was_asked = true;
	int rc = probe_collect(&how, facts->options->timeout_ns, &facts->inventory, NULL, err);
	if (rc < 0)
		return rc;

	facts->has_answered = true;
	facts_minors(facts);
	*out = (struct check_machine){.inventory = &facts->inventory, .minors = facts->minors};

	return 0;
}

/* Which runtime is too old for some of the files, if it can be told: a podman before 4.6. It is not
 * asked where all files are old enough, because that takes longer than all the rest. NULL: none. */
static const char *facts_runtime(const struct scan *scan, char out[CHECK_RUNTIME_MAX])
{
	const int oldest = document_version_rank(CHECK_VERSION_OLDEST);
	bool is_newer = false;
	for (uint32_t i = 0; i < scan->count; i++)
		is_newer |= scan->files[i].document.yaml &&
			    document_version_rank(scan->files[i].document.version) > oldest;

	char program[FILE_PATH_MAX];
	struct version version;

	if (!is_newer || version_find_program("podman", program, NULL) < 0 ||
	    version_ask(program, CHECK_RUNTIME_TIMEOUT_MS, &version, NULL) < 0 ||
	    version_is_at_least(&version, 4, 6, 0))
		return NULL;

	(void)snprintf(out, CHECK_RUNTIME_MAX, "podman %s", version.text); /* fits */
	return out;
}

static int facts_look(void *context, struct err *err)
{
	(void)context;
	_cleanup_gather_ struct gather gather = {.has_driver = false};
	const struct gather_options how = {.root = pci_root()};
	int rc = gather_read(&how, &gather, err);
	return rc < 0 ? rc : gather_check(&gather, "", err);
}

/* --- printing -------------------------------------------------------------------------------- */

static const char *verdict(const struct cdi_check *check)
{
	return check->worst == CHECK_NOTE ? "fresh" : check_severity_to_string(check->worst);
}

/* Where there is no file, whether the machine is. */
static bool is_simulated(const struct scan *scan)
{
	if (scan->count == 0)
		return pci_root()[0] != '\0';
	for (uint32_t i = 0; i < scan->count; i++)
		if (scan->files[i].is_simulated)
			return true;
	return false;
}

static void print_finding(const struct check_finding *finding)
{
	printf("%s: ", check_severity_to_string(finding->severity));
	if (finding->file && !strstr(finding->text, finding->file->path)) {
		cmd_print(stdout, finding->file->path);
		fputs(": ", stdout);
	}

	if (finding->device && !strstr(finding->text, finding->device)) {
		cmd_print(stdout, finding->device);
		fputs(": ", stdout);
	}

	cmd_print(stdout, finding->text);
	if (finding->count > 1)
		printf(" (and %" PRIu32 " more like it)", finding->count - 1);
	putchar('\n');

	if (finding->fix) {
		fputs("    to mend it: ", stdout);
		cmd_print(stdout, finding->fix);
		putchar('\n');
	}
}

static void print_text(const struct scan *scan, const struct cdi_check *check,
		       const struct check_facts *facts)
{
	for (uint32_t i = 0; i < check->count; i++)
		print_finding(&check->findings[i]);

	if (check->total > check->count)
		printf("and %" PRIu32 " more differences\n", check->total - check->count);
	printf("%s: %" PRIu32 "%s device%s in %" PRIu32 " file%s looked at%s\n", verdict(check),
	       check->device_count, is_simulated(scan) ? " simulated" : "",
	       check->device_count == 1 ? "" : "s", check->file_count,
	       check->file_count == 1 ? "" : "s",
	       facts->has_answered || check->gpu_file_count == 0
		   ? ""
		   : ", and not compared with the driver's list of GPUs");
}

static json_t *json_finding(const struct check_finding *finding)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I}", "id",
			 check_id_to_string(finding->id), "severity",
			 check_severity_to_string(finding->severity), "file",
			 table_json_text(finding->file ? finding->file->path : NULL), "device",
			 table_json_text(finding->device), "path", table_json_text(finding->path),
			 "text", table_json_text(finding->text), "fix",
			 table_json_text(finding->fix), "count", (json_int_t)finding->count);
}

static json_t *json_findings(const struct cdi_check *check)
{
	json_t *findings = json_array();
	for (uint32_t i = 0; i < check->count; i++)
		(void)json_array_append_new(findings, json_finding(&check->findings[i]));
	return findings;
}

static int print_json(const struct scan *scan, const struct cdi_check *check,
		      const struct check_facts *facts, const char *module_version, struct err *err)
{
	json_t *root =
	    json_pack("{s:s, s:b, s:I, s:I, s:o, s:b, s:b, s:I, s:o}", "verdict", verdict(check),
		      "simulated", is_simulated(scan), "file_count", (json_int_t)check->file_count,
		      "device_count", (json_int_t)check->device_count, "module_version",
		      table_json_text(module_version[0] ? module_version : NULL), "driver_asked",
		      facts->was_asked, "driver_answered", facts->has_answered, "finding_count",
		      (json_int_t)check->total, "findings", json_findings(check));
	int rc = table_print_json(root, stdout, err);

	json_decref(root);
	return rc;
}

/* --- an image -------------------------------------------------------------------------------- */

static int exit_of(const struct cdi_check *check)
{
	return check->worst == CHECK_NOTE    ? CMD_EXIT_OK
	       : check->worst == CHECK_STALE ? CDI_EXIT_STALE
					     : CDI_EXIT_UNREADABLE;
}

static int print_image(const struct check_call *options, const struct cdi_image *image,
		       const struct cdi_check *check, struct err *err)
{
	const char *libc = image_libc_to_string(image->libc),
		   *layout = image_layout_to_string(image->layout);

	if (options->output == OPTION_OUTPUT_JSON) {
		json_t *root = json_pack(
		    "{s:s, s:o, s:s, s:s, s:I, s:o}", "verdict", verdict(check), "image",
		    table_json_text(options->image), "libc", libc, "layout", layout,
		    "finding_count", (json_int_t)check->total, "findings", json_findings(check));
		int rc = table_print_json(root, stdout, err);

		json_decref(root);
		return rc;
	}

	for (uint32_t i = 0; i < check->count; i++)
		print_finding(&check->findings[i]);

	cmd_print(stdout, options->image);
	printf(": C library %s, layout %s: programs %s the driver's libraries\n", libc, layout,
	       check->worst == CHECK_NOTE ? "would find" : "would not all find");
	return 0;
}

static int run_image(const struct cmd_call *call)
{
	const struct check_call *options = call->options;
	_cleanup_check_ struct cdi_check check = {.count = 0};
	struct cdi_image image;
	struct err err = {0};
	int rc = image_check(options->image, NULL, &image, &check, &err);
	if (rc == 0)
		rc = print_image(options, &image, &check, &err);

	return rc < 0 ? cmd_fail(call, CDI_EXIT_UNREADABLE, &err) : exit_of(&check);
}

/* --- the command ----------------------------------------------------------------------------- */

static int run_with(const struct cmd_call *call, const struct scan *scan, struct check_facts *facts)
{
	const struct check_call *options = call->options;
	char module_version[GPU_VERSION_MAX] = "", root[PATH_MAX] = "";
	_cleanup_check_ struct cdi_check check = {.count = 0};
	struct err err = {0};

	(void)pci_read_nvidia_version(pci_root(), module_version); /* "": none is loaded */
	/* Files that were made on a simulated machine name it without links. */
	if (pci_root()[0] && !realpath(pci_root(), root))
		(void)file_path(root, NULL, "%s", pci_root()); /* fits: it is no longer */

	char name[CHECK_RUNTIME_MAX];
	const char *version = options->runtime_version, *runtime = "the runtime";

	if (!version && (runtime = facts_runtime(scan, name)))
		version = CHECK_VERSION_OLDEST;

	const struct cdi_check_options how = {
	    .root = root,
	    .names = (const char *const *)call->argv,
	    .name_count = (size_t)call->argc,
	    .runtime = runtime,
	    .runtime_version = version,
	    .module_version = module_version,
	    .ask = options->without_driver ? NULL : facts_ask,
	    .look = facts_look,
	    .context = facts,
	};
	int rc = check_scan(scan, &how, &check, &err);
	if (rc == 0 && options->output == OPTION_OUTPUT_JSON)
		rc = print_json(scan, &check, facts, module_version, &err);
	else if (rc == 0)
		print_text(scan, &check, facts);

	if (rc < 0)
		return cmd_fail(call, CDI_EXIT_UNREADABLE, &err);

	return exit_of(&check);
}

/* Each of three options is a question of its own. 0, or the exit code after it was said. */
static int check_question(const struct cmd_call *call)
{
	const struct check_call *options = call->options;
	int count = !!options->image + !!options->image_env + !!options->apply;

	if (count > 1)
		return cmd_usage(call, "--image-root, --image-env and --apply are different "
				       "questions: ask one");
	if (options->devices.count > 0 && !options->apply)
		return cmd_usage(call, "--device needs --apply");
	if (options->apply && call->argc > 0)
		return cmd_usage(call, "--apply takes no NAME: its devices are given by --device");
	if (options->image && call->argc > 0)
		return cmd_usage(call, "--image-root: looks at the image alone, without names");

	return 0;
}

static int run(const struct cmd_call *call)
{
	const struct check_call *options = call->options;
	int rc = check_question(call);
	if (rc != 0)
		return rc;
	if (options->runtime_version && document_version_rank(options->runtime_version) < 0)
		return cmd_usage(call, "--cdi-version: '%s' is none: 0.3.0 to 1.1.0",
				 options->runtime_version);

	if (options->image)
		return run_image(call);
	if (options->image_env)
		return cdi_image_env(call, options->image_env, options->timeout_ns);

	_cleanup_scan_ struct scan scan = {0};
	struct err err = {0};

	if (cdi_scan(&options->directories, &scan, &err) < 0)
		return cmd_fail(call, CDI_EXIT_UNREADABLE, &err);
	if (options->apply)
		return cdi_apply(call, &scan, options->apply, &options->devices);

	struct check_facts facts = {.options = options};
	inventory_init(&facts.inventory);

	int code = run_with(call, &scan, &facts);
	facts_done(&facts);
	return code;
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "fresh: what was asked for would work now"},
    {CDI_EXIT_STALE, "stale: it would not, or a name leads nowhere, or there is nothing"},
    {CDI_EXIT_UNREADABLE, "unreadable: a directory, a file or what it names; stale as well, "
			  "perhaps"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice cdi check", "compares every CDI file with the machine as it is now"},
    {"sluice cdi check --image-root /tmp/image",
     "whether CUDA programs of an image that was unpacked there would find the driver"},
    {"sluice cdi check nvidia.com/gpu=0", "why podman --device nvidia.com/gpu=0 does not work"},
    {"sluice cdi check --apply config.json --device nvidia.com/gpu=0",
     "what runc or crun would have to be told"},
    {"podman image inspect IMAGE | sluice cdi check --image-env /dev/stdin",
     "whether driver and GPUs are new enough for an image"},
    {NULL, NULL},
};

const struct command cmd_cdi_check = {
    .name = "check",
    .summary = "Say whether the CDI files would work now, and what mends them",
    .description =
	"Looks at every node, mount and hook that the CDI files name, and compares the files with "
	"the loaded kernel module, the installed driver and the GPUs and MIG devices that the "
	"driver lists. For a NAME that runtimes call unresolvable it says why: no such kind, no "
	"such device and which are near, a file that is refused, a directory that this user may "
	"not read, a specification that is newer than the runtime.\n\n"
	"Without NAME everything that lies in the CDI directories is checked, whoever wrote it. "
	"Each difference is printed with the command that mends it. Nothing is changed.",
    .group = CMD_GROUP_SERVICE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct check_call),
    .positional = "[NAME...]",
    .positional_max = CMD_ARGUMENTS_ANY,
    .exits = exits,
    .examples = examples,
};

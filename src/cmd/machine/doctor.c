/* SPDX-License-Identifier: Apache-2.0 */
/* sluice doctor: what is wrong with this node, and what mends it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/machine/doctor_print.h"
#include "cmd/helper.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "doctor/buildneeds.h"
#include "doctor/doctor.h"
#include "doctor/migrate.h"
#include "hardware/pci.h"
#include "policy/config.h"

enum doctor_command_limits {
	DOCTOR_VERSION_TIMEOUT_MS = 500, /* for PROGRAM --version */
	DOCTOR_CLUSTER_TIMEOUT_MS = 120000,
	DOCTOR_VALUES_MAX = 4 << 20,
	DOCTOR_NAMESPACE_MAX = 63,
	DOCTOR_PACKAGES_TIMEOUT_MS = 300000, /* for the index of a repository far away */
};

/* Where the manifests of the agent mount the host's root. */
#define DOCTOR_HOST_ROOT "/host"
/* What the simulator leaves in a root that it has made. */
#define DOCTOR_SIMULATED_MARK "/.sluice-sim"

struct doctor_call {
	enum option_output output;
	struct option_list only, skip;
	uint32_t purpose;
	bool all, list;
	const char *root;
	struct option_list packages;
	const char *kernel;
	uint32_t system; /* enum buildneeds_system */
	bool cluster, migrate;
	const char *kubeconfig, *namespace_;
};

static const struct option_row rows[] = {
    {.name = "all",
     .letter = 'a',
     .kind = OPTION_FLAG,
     .help = "show what is well and what was skipped, too",
     OPTION_FIELD(struct doctor_call, all)},
    {.name = "only",
     .kind = OPTION_LIST,
     .value = "ID",
     .words = "@checks",
     .help = "run this check, or the checks of this group (driver), and no other; may be repeated",
     OPTION_FIELD(struct doctor_call, only)},
    {.name = "skip",
     .kind = OPTION_LIST,
     .value = "ID",
     .words = "@checks",
     .help = "leave this check or group out; may be repeated",
     OPTION_FIELD(struct doctor_call, skip)},
    {.name = "for",
     .kind = OPTION_CHOICE,
     .words = "everything|job|agent|driver-container|rdma",
     .help = "what the machine is to be good for: only what matters for that is looked at, and "
	     "more strictly (default everything)",
     OPTION_FIELD(struct doctor_call, purpose)},
    {.name = "list",
     .kind = OPTION_FLAG,
     .help = "list the checks and do nothing",
     OPTION_FIELD(struct doctor_call, list)},
    {.name = "root",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "look at the machine whose / is there (default: $SLUICE_ROOT, else /host in a "
	     "container that has it, else /)",
     OPTION_FIELD(struct doctor_call, root)},
    {.name = "packages",
     .kind = OPTION_LIST,
     .value = "DIR|URL",
     .help = "say whether this package repository has what a driver container builds from: a "
	     "directory of packages or of a repository, an address, or \"ADDRESS SUITE "
	     "COMPONENT...\" of Debian's; those that are named are used together",
     OPTION_FIELD(struct doctor_call, packages)},
    {.name = "kernel",
     .kind = OPTION_TEXT,
     .value = "RELEASE",
     .help = "the kernel that a driver is for, as uname -r says it (default: the one that runs)",
     OPTION_FIELD(struct doctor_call, kernel)},
    {.name = "system",
     .kind = OPTION_CHOICE,
     .words = "auto|rhel|ubuntu|debian",
     .help = "whose packages are needed (default auto: this machine's)",
     OPTION_FIELD(struct doctor_call, system)},
    {.name = "cluster",
     .kind = OPTION_FLAG,
     .help = "look at a Kubernetes cluster in place of this machine: what its API server says of "
	     "sluice, of its rivals and of the nodes",
     OPTION_FIELD(struct doctor_call, cluster)},
    {.name = "migrate",
     .kind = OPTION_FLAG,
     .help = "print values for the Helm chart of sluice that do what the policies of NVIDIA's "
	     "operators in the cluster do, and check nothing",
     OPTION_FIELD(struct doctor_call, migrate)},
    {.name = "kubeconfig",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "how the cluster is reached (default: the first file of $KUBECONFIG that is there, in "
	     "a pod its service account, else "
	     "~/.kube/config)",
     OPTION_FIELD(struct doctor_call, kubeconfig)},
    {.name = "namespace",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "the namespace of sluice, where its DaemonSet is not found (default sluice)",
     OPTION_FIELD(struct doctor_call, namespace_)},
    OPTION_OUTPUT(struct doctor_call, output),
    {.name = NULL},
};

/* --- which checks ---------------------------------------------------------------------------- */

/* Marks what the words of an option mean. 0 or an exit code. */
static int mark_words(const struct cmd_call *call, const char *option,
		      const struct option_list *words, bool *marks)
{
	for (size_t i = 0; i < words->count; i++) {
		const char *nearest;
		if (doctor_mark(words->items[i], marks, &nearest) > 0)
			continue;

		return cmd_usage(call, "--%s: there is no check '%s'%s%s%s (--list shows all)",
				 option, words->items[i], nearest ? "; did you mean '" : "",
				 nearest ? nearest : "", nearest ? "'?" : "");
	}

	return 0;
}

/* What --only, --skip and --for leave. 0 or an exit code. */
static int choose(const struct cmd_call *call, uint32_t purpose, bool *marks, bool *named)
{
	const struct doctor_call *options = call->options;
	bool skipped[DOCTOR_CHECKS_MAX] = {false};
	int code = mark_words(call, "only", &options->only, named);
	if (code == 0)
		code = mark_words(call, "skip", &options->skip, skipped);

	for (size_t i = 0; i < doctor_check_count; i++) {
		bool of_cluster = doctor_checks[i].purposes == DOCTOR_FOR_CLUSTER;
		bool fits =
		    of_cluster == options->cluster &&
		    (of_cluster || purpose == 0 || (doctor_checks[i].purposes & purpose) != 0);
		marks[i] = (options->only.count > 0 ? named[i] : fits) && !skipped[i];
	}

	return code;
}

static int print_list(const struct cmd_call *call, const bool *marks)
{
	const struct doctor_call *options = call->options;
	static const struct table_column columns[] = {{.title = "ID"}, {.title = "LOOKS AT"}};
	_cleanup_table_ struct table *table = table_new(columns, 2);
	json_t *json = json_array();

	for (size_t i = 0; table && i < doctor_check_count; i++) {
		const struct doctor_check *check = &doctor_checks[i];

		if (!marks[i])
			continue;

		table_add(table, check->id);
		table_add(table, check->help);
		(void)json_array_append_new(json, json_pack("{s:s, s:s, s:s, s:o}", "id", check->id,
							    "help", check->help, "why", check->why,
							    "url", table_json_text(check->url)));
	}

	struct err err = {0};
	int rc = -ENOMEM;

	if (options->output == OPTION_OUTPUT_JSON)
		rc = table_print_json(json, stdout, &err);
	else if (table)
		rc = table_print(table, stdout, table_width(stdout), &err);

	json_decref(json);
	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

/* --- which machine --------------------------------------------------------------------------- */

static int ask_version(const char *program, struct version *out, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = version_find_program(program, path, err);
	return rc < 0 ? rc : version_ask(path, DOCTOR_VERSION_TIMEOUT_MS, out, err);
}

static int list_packages(const char *location, const char *deb_arch, const char *const *patterns,
			 struct buf *out, struct err *err)
{
	const char *arguments[BUILDNEEDS_PATTERNS_MAX + 3] = {location, deb_arch};
	for (size_t i = 0; i < BUILDNEEDS_PATTERNS_MAX && patterns[i]; i++)
		arguments[i + 2] = patterns[i];
	return helper_run("sluice-packages", "packages", arguments, NULL,
			  DOCTOR_PACKAGES_TIMEOUT_MS, out, err);
}

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);
	return value && value[0] != '\0';
}

/* The first file of a list that is there, or else the first; kubectl would put all together. */
static int first_of_list(const char *list, char out[FILE_PATH_MAX], struct err *err)
{
	for (const char *at = list;; at++) {
		size_t length = strcspn(at, ":");
		int rc = file_path(out, err, "%.*s", (int)length, at);
		if (rc < 0 || (length > 0 && file_exists(out)))
			return rc;

		at += length;
		if (*at == '\0')
			return file_path(out, err, "%.*s", (int)strcspn(list, ":"), list);
	}
}

/* The file that says how the cluster is reached; "": in a pod, by its service account. */
static int find_kubeconfig(const struct doctor_call *call, char out[FILE_PATH_MAX], struct err *err)
{
	const char *home = getenv("HOME");

	out[0] = '\0';
	if (call->kubeconfig)
		return file_path(out, err, "%s", call->kubeconfig);
	if (is_set("KUBECONFIG"))
		return first_of_list(getenv("KUBECONFIG"), out, err);
	if (is_set("KUBERNETES_SERVICE_HOST"))
		return 0;

	if (home && *home)
		return file_path(out, err, "%s/.kube/config", home);

	return err_set(err, -ENOENT, "name the cluster with --kubeconfig");
}

static int ask_cluster(const void *context, struct buf *out, struct err *err)
{
	const struct doctor_call *call = context;
	char kubeconfig[FILE_PATH_MAX];
	const char *arguments[8] = {NULL};
	size_t count = 0;
	int rc = find_kubeconfig(call, kubeconfig, err);
	if (rc < 0)
		return rc;

	if (kubeconfig[0] != '\0') {
		arguments[count++] = "--kubeconfig";
		arguments[count++] = kubeconfig;
	}

	if (call->namespace_) {
		arguments[count++] = "--namespace";
		arguments[count++] = call->namespace_;
	}

	return helper_run("sluice-cluster", "cluster", arguments, NULL, DOCTOR_CLUSTER_TIMEOUT_MS,
			  out, err);
}

/* What becomes a part of paths and of commands. */
static bool is_release(const char *text)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.+-_~";
	size_t length = strlen(text);
	return length > 0 && length < DOCTOR_WORD_MAX && text[0] != '.' && text[0] != '-' &&
	       strspn(text, allowed) == length;
}

/* A label of DNS: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ */
static bool is_namespace(const char *text)
{
	size_t length = strlen(text);
	return length > 0 && length <= DOCTOR_NAMESPACE_MAX &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/* How the agent's configuration has labels published, where that is through the API; else NULL. A
 * configuration that is not understood is for 'sluice config check'. */
static const char *find_labels_mode(void)
{
	char path[FILE_PATH_MAX];
	struct config_overrides overrides = {0};
	struct config *config = NULL;
	const char *mode = NULL;

	if (agent_paths_config(NULL, path, NULL) < 0 || path[0] == '\0')
		return NULL;

	config_overrides_environment(&overrides);
	if (config_load_any(path, &overrides, false, &config, NULL) < 0)
		return NULL;
	if (config->labels.mode == CONFIG_LABELS_DIRECT)
		mode = "direct";
	else if (config->labels.mode == CONFIG_LABELS_NODEFEATURE)
		mode = "nodefeature";

	(void)config_free(config);
	return mode;
}

static void find_machine(const struct doctor_call *call, struct doctor_options *out)
{
	const char *root = call->root ? call->root : pci_root();
	bool is_container = root[0] == '\0' && file_exists(DOCTOR_HOST_ROOT "/etc") &&
			    (is_set("KUBERNETES_SERVICE_HOST") ||
			     file_exists("/run/.containerenv") || file_exists("/.dockerenv"));
	char mark[FILE_PATH_MAX];

	if (is_container)
		root = DOCTOR_HOST_ROOT;

	bool is_own = root[0] == '\0' || strcmp(root, "/") == 0;

	out->root = root;
	out->own_kernel = is_container;
	out->is_privileged = geteuid() == 0;
	out->is_simulated =
	    is_set("SLUICE_SIM_STATE") ||
	    (file_path(mark, NULL, "%s" DOCTOR_SIMULATED_MARK, root) == 0 && file_exists(mark));
	out->labels_mode = find_labels_mode();

	/* Programs below another root are not ours to start. */
	out->ask_version = is_own ? ask_version : NULL;
}

/* --- the command ----------------------------------------------------------------------------- */

static int report(const struct cmd_call *call, const struct doctor *doctor)
{
	const struct doctor_call *options = call->options;
	struct err err = {0};

	if (options->output == OPTION_OUTPUT_JSON) {
		if (doctor_print_json(doctor, stdout, &err) < 0)
			return cmd_fail(call, CMD_EXIT_FAILED, &err);
	} else {
		bool colours = isatty(STDOUT_FILENO) && !is_set("NO_COLOR");
		doctor_print_text(doctor, options->all, colours, stdout);
	}

	return doctor_exit(doctor);
}

/* --migrate: the values, and nothing else. */
static int print_values(const struct cmd_call *call)
{
	_cleanup_buf_ struct buf facts, values;
	struct err err = {0};

	buf_init(&facts, DOCTOR_VALUES_MAX);
	buf_init(&values, DOCTOR_VALUES_MAX);

	int rc = ask_cluster(call->options, &facts, &err);
	json_t *json = rc == 0 ? json_loadb(buf_text(&facts), facts.length, 0, NULL) : NULL;
	if (rc == 0)
		rc = migrate_values(json, &values, &err);
	json_decref(json);

	if (rc < 0)
		return cmd_fail(call, FINDINGS_EXIT_WRONG, &err);

	(void)fputs(buf_text(&values), stdout); /* cmd_main() sees to the stream */
	return CMD_EXIT_OK;
}

static int run(const struct cmd_call *call)
{
	const struct doctor_call *options = call->options;
	bool marks[DOCTOR_CHECKS_MAX] = {false}, named[DOCTOR_CHECKS_MAX] = {false};
	struct doctor_options how = {
	    .purpose = options->purpose > 0 ? 1U << (options->purpose - 1) : 0,
	    .kernel = options->kernel,
	    .system = options->system,
	    .repositories = options->packages.items,
	    .repository_count = options->packages.count,
	    .list_packages = list_packages,
	    .ask_cluster = options->cluster ? ask_cluster : NULL,
	    .context = options,
	};
	int code = choose(call, how.purpose, marks, named);
	if (code != 0)
		return code;

	if (options->list)
		return print_list(call, marks);
	if (options->kernel && !is_release(options->kernel))
		return cmd_usage(call, "no kernel has such a name: '%s'", options->kernel);
	if (options->namespace_ && !is_namespace(options->namespace_))
		return cmd_usage(call, "no namespace has such a name: '%s'", options->namespace_);
	if (options->migrate)
		return print_values(call);

	find_machine(options, &how);
	struct err err = {0};

	if (strcmp(how.root, PCI_NO_ROOT) == 0) {
		(void)err_set(&err, -ENOENT,
			      "the simulated machine has no files to look at; set SLUICE_ROOT");
		return cmd_fail(call, FINDINGS_EXIT_NOTHING, &err);
	}

	if (how.root[0] != '\0' && how.root[0] != '/')
		return cmd_usage(call, "--root has to be an absolute path");

	_cleanup_doctor_ struct doctor *doctor = NULL;
	if (doctor_new(&how, &doctor, &err) < 0)
		return cmd_fail(call, options->root ? CMD_EXIT_USAGE : CMD_EXIT_FAILED, &err);

	doctor_run(doctor, marks, named);
	return report(call, doctor);
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "nothing to mend"},
    {FINDINGS_EXIT_POOR, "warnings: it works, but not well, or not for long"},
    {FINDINGS_EXIT_WRONG, "failures: something does not work"},
    {FINDINGS_EXIT_NOTHING, "nothing could be looked at: no NVIDIA GPU here, or everything was "
			    "skipped"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice doctor", "what is wrong with this node, and the commands that mend it"},
    {"sluice doctor --only driver --all", "everything about the driver, what is well included"},
    {"sluice doctor --for driver-container", "whether a driver can be built, loaded and replaced"},
    {"sluice doctor --for driver-container --packages /srv/mirror/baseos --packages "
     "/srv/mirror/appstream",
     "whether these repositories have what a driver for this kernel is built from"},
    {"sluice doctor --cluster", "what stands in the way in a Kubernetes or OpenShift cluster"},
    {"kubectl exec POD -- sluice doctor --output json", "the same of a node of a cluster"},
    {NULL, NULL},
};

const struct command cmd_doctor = {
    .name = "doctor",
    .summary = "Say what is wrong with this node, and what mends it",
    .description =
	"Looks at the GPUs, the driver, the container runtime, the kubelet, cgroups and SELinux, "
	"and prints what is not as it has to be: what was found, what is needed, the command that "
	"mends it, and why it matters. Changes nothing, asks no driver, and is done in a "
	"second.\n\n"
	"Needs no privileges: what this user may not see is not known, which is no failure. In the "
	"agent's container it looks at the host, which is mounted at /host.\n\n"
	"Each check has an id that stays the same in every release; --list shows them.",
    .group = CMD_GROUP_MACHINE,
    .run = run,
    .options = rows,
    .options_size = sizeof(struct doctor_call),
    .exits = exits,
    .examples = examples,
};

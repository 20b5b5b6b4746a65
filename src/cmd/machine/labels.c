/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice labels`: the labels of this node, printed once, or kept in a feature file as GPU feature
 * discovery does. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/paths.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cmd/settings.h"
#include "cmd/table.h"
#include "doors/labels/facts.h"
#include "doors/labels/feature_file.h"
#include "doors/labels/held.h"
#include "doors/labels/label.h"
#include "doors/labels/labels.h"
#include "hardware/pci.h"
#include "policy/config.h"
#include "policy/policy.h"
#include "probe/client.h"

enum labels_internals {
	WARNINGS_MAX = 8192,
};

#define MISS_WAIT_NS  (10 * CLOCK_NS_PER_S) /* while a GPU is missing */
#define RETRY_WAIT_NS (30 * CLOCK_NS_PER_S) /* while there is no driver */

struct labels_options {
	struct settings settings;
	const char *config_file, *output, *unused;
	uint64_t timeout_ns;
};

#define SETTING(id) OPTION_FIELD(struct labels_options, settings.text[SCHEMA_##id])
#define SETTING_BOOL(id)                                                                           \
	.kind = OPTION_TEXT, .value = "true|false", .bare = "true", .words = "true|false",         \
	SETTING(id)
#define UNUSED_ROW(name_)                                                                          \
	{                                                                                          \
		.name = name_, .kind = OPTION_TEXT,                                                \
		.help = "accepted and not used: 'sluice agent' speaks to the cluster's API",       \
		OPTION_FIELD(struct labels_options, unused)                                        \
	}

static const struct option_row rows[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .value = "table|json|FILE",
     .words = "table|json",
     .help = "how to print: KEY=VALUE lines (table, the default) or JSON for programs; what has a "
	     "'/' is a file, as --output-file",
     OPTION_FIELD(struct labels_options, output)},
    {.name = "output-file",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "write this feature file of node feature discovery, if it changes "
	     "($GFD_OUTPUT_FILE; default: print)",
     SETTING(GFD_OUTPUT)},
    {.name = "oneshot",
     .help = "false: look again and again, until a signal ends it ($GFD_ONESHOT; default true)",
     SETTING_BOOL(GFD_ONESHOT)},
    {.name = "sleep-interval",
     .kind = OPTION_TEXT,
     .value = "DURATION",
     .help = "how long to wait between two looks: 60s (default), infinite "
	     "($GFD_SLEEP_INTERVAL)",
     SETTING(GFD_SLEEP)},
    {.name = "no-timestamp",
     .help = "leave nvidia.com/gfd.timestamp out ($GFD_NO_TIMESTAMP)",
     SETTING_BOOL(GFD_NO_TIMESTAMP)},
    {.name = "config-file",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "the configuration, that of the device plugin ($GFD_CONFIG_FILE; default: the "
	     "service's)",
     OPTION_FIELD(struct labels_options, config_file)},
    {.name = "mig-strategy",
     .kind = OPTION_TEXT,
     .value = "none|single|mixed",
     .words = "none|single|mixed",
     .help = "how MIG devices are offered ($GFD_MIG_STRATEGY, $MIG_STRATEGY; default none)",
     SETTING(MIG_STRATEGY)},
    {.name = "machine-type-file",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "file with the machine's name ($GFD_MACHINE_TYPE_FILE; default "
	     "/sys/class/dmi/id/product_name)",
     SETTING(GFD_MACHINE_TYPE)},
    {.name = "fail-on-init-error",
     .help = "false: without a driver, give what can be said and go on ($GFD_FAIL_ON_INIT_ERROR, "
	     "$FAIL_ON_INIT_ERROR; default true)",
     SETTING_BOOL(FAIL_ON_INIT_ERROR)},
    {.name = "use-node-feature-api",
     .help = "true is refused: 'sluice agent' does that; here labels are printed or written "
	     "to a file "
	     "($GFD_USE_NODE_FEATURE_API, $USE_NODE_FEATURE_API; default false)",
     SETTING_BOOL(USE_NODE_FEATURE_API)},
    {.name = "device-discovery-strategy",
     .kind = OPTION_TEXT,
     .value = "auto|nvml",
     .words = "auto|nvml",
     .help = "how GPUs are found ($DEVICE_DISCOVERY_STRATEGY; default auto)",
     SETTING(DISCOVERY)},
    {.name = "driver-root-ctr-path",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "accepted and not used: the loader finds the driver's library",
     SETTING(CONTAINER_DRIVER_ROOT)},
    {.name = "container-driver-root",
     .kind = OPTION_PATH,
     .help = "the same",
     .hidden = true,
     SETTING(CONTAINER_DRIVER_ROOT)},
    UNUSED_ROW("kubeconfig"),
    UNUSED_ROW("kube-api-qps"),
    UNUSED_ROW("kube-api-burst"),
    UNUSED_ROW("namespace"),
    UNUSED_ROW("node-name"),
    UNUSED_ROW("pod-name"),
    MACHINE_TIMEOUT_ROW(struct labels_options),
    {.name = NULL},
};

static const struct labels_options defaults = {.timeout_ns = MACHINE_TIMEOUT_NS};

/* One run of the command, with what it remembers from look to look. */
struct labels_session {
	const struct cmd_call *call;
	struct config *config; /* owned */
	struct policy_surroundings surroundings;
	bool oneshot, json;
	const char *path; /* of the feature file; "" for standard output. Borrowed: of the config */
	char machine_file[FILE_PATH_MAX];
	int64_t start_s;

	struct held held;
	uint64_t wait_ns; /* at most, until the next look */
	struct label_set set;
	struct buf plain; /* its lines, as they were last printed */
	struct feature_keep file;
	struct buf warnings;	    /* as they were last told */
	char failure[ERR_TEXT_MAX]; /* the same; "" once it is over */
};

static void session_done(struct labels_session *session)
{
	session->config = config_free(session->config);
	held_done(&session->held);
	label_set_done(&session->set);
	buf_done(&session->plain);
	feature_keep_done(&session->file);
	buf_done(&session->warnings);
}

/* --- configuration -------------------------------------------------------------------------- */

/* An empty variable is not set, as the peer's flag library has it. */
static const char *environment(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

/* Variables of GPU feature discovery that go before those of the device plugin. */
static void environment_add(struct config_overrides *overrides)
{
	static const struct {
		const char *name;
		enum schema_id id;
	} variables[] = {
	    {"GFD_MIG_STRATEGY", SCHEMA_MIG_STRATEGY},
	    {"GFD_FAIL_ON_INIT_ERROR", SCHEMA_FAIL_ON_INIT_ERROR},
	    {"GFD_USE_NODE_FEATURE_API", SCHEMA_USE_NODE_FEATURE_API},
	};
	config_overrides_environment(overrides);

	for (size_t i = 0; i < array_length(variables); i++) {
		const char *value = environment(variables[i].name);
		if (value)
			overrides->environment[variables[i].id] = value;
	}
}

static bool output_is_format(const char *output)
{
	return !output || strcmp(output, "table") == 0 || strcmp(output, "json") == 0;
}

static int load_config(const struct cmd_call *call, struct config **out, struct err *err)
{
	const struct labels_options *options = call->options;
	struct settings_words words;
	struct config_overrides overrides = {0};
	int rc = settings_overrides(&options->settings, &words, &overrides, err);
	if (rc < 0)
		return rc;

	if (!output_is_format(options->output) && !overrides.flag[SCHEMA_GFD_OUTPUT])
		overrides.flag[SCHEMA_GFD_OUTPUT] = options->output;
	environment_add(&overrides);

	const char *file = options->config_file;
	if (!file)
		file = environment("GFD_CONFIG_FILE");
	if (file)
		return config_load(file, &overrides, false, out, err);

	/* That of the service, whose labels are to be the same. */
	char path[FILE_PATH_MAX];
	rc = agent_paths_config(NULL, path, err);
	if (rc < 0)
		return rc;

	return path[0] ? config_load_any(path, &overrides, false, out, err)
		       : config_parse(NULL, 0, "defaults", &overrides, false, out, err);
}

/* What is not built is refused, not left out silently. */
static int check_config(const struct config *config, bool publishes, struct err *err)
{
	char text[32] = "";
	(void)schema_format(config, SCHEMA_DISCOVERY, text, sizeof(text));

	if (strcmp(text, "auto") != 0 && strcmp(text, "nvml") != 0)
		return err_set(
		    err, -EINVAL,
		    "the device discovery strategy %s is not built yet; use auto or nvml", text);

	/* Printing once is right in any mode, unless this very call asks for the API. */
	bool wants_api = config->source[SCHEMA_USE_NODE_FEATURE_API] != CONFIG_DEFAULT &&
			 config->use_node_feature_api && config->labels.mode == CONFIG_LABELS_AUTO;
	bool asked = wants_api && config->source[SCHEMA_USE_NODE_FEATURE_API] != CONFIG_FILE;

	if (asked || (publishes && (wants_api || config->labels.mode >= CONFIG_LABELS_NODEFEATURE)))
		return err_set(err, -EINVAL,
			       "labels by the cluster's API (the modes nodefeature and direct) are "
			       "kept by 'sluice agent', not by this command; use "
			       "--use-node-feature-api=false, and sluice.labels.mode auto or file, "
			       "for a feature file");

	if (config->gfd_sleep_ns == 0)
		return err_set(err, -EINVAL,
			       "invalid duration: the sleep interval must be longer than 0s");

	return 0;
}

/* Takes the configuration into use. The session is as it was on failure. */
static int configure(struct labels_session *session, struct err *err)
{
	struct config *config = NULL;
	const char *root = pci_root();
	int rc = load_config(session->call, &config, err);
	if (rc < 0)
		return rc;

	/* Other defaults than the peer's: without options the labels are printed, once. */
	bool oneshot = config->source[SCHEMA_GFD_ONESHOT] == CONFIG_DEFAULT || config->gfd_oneshot;
	const char *path =
	    config->source[SCHEMA_GFD_OUTPUT] == CONFIG_DEFAULT ? "" : config->gfd_output;

	rc = check_config(config, path[0] != '\0' || !oneshot, err);
	if (rc == 0)
		rc =
		    file_path(session->machine_file, err, "%s%s",
			      config->source[SCHEMA_GFD_MACHINE_TYPE] == CONFIG_DEFAULT ? root : "",
			      config->gfd_machine_type);

	if (rc < 0) {
		(void)config_free(config);
		return rc;
	}

	(void)config_free(session->config);
	session->config = config;
	session->oneshot = oneshot;
	session->path = path;
	session->start_s = config->gfd_no_timestamp ? 0 : clock_unix_ns() / (int64_t)CLOCK_NS_PER_S;

	return 0;
}

/* --- looking -------------------------------------------------------------------------------- */

static void policy_cleanup(struct policy **policy)
{
	*policy = policy_free(*policy);
}

static int make_labels(struct labels_session *session, struct err *err)
{
	_cleanup_(policy_cleanup) struct policy *policy = NULL;
	_cleanup_free_ struct labels_facts *facts = calloc(1, sizeof(*facts));
	if (!facts)
		return err_set(err, -ENOMEM, "out of memory");

	int rc = policy_make(&session->held.inventory, session->config, &session->surroundings,
			     &policy, err);
	if (rc < 0)
		return rc;

	facts->start_s = session->start_s;
	facts_read(pci_root(), session->machine_file, &session->held.inventory, facts);
	return labels_make(&session->held.inventory, session->config, &session->surroundings,
			   policy, facts, &session->set, err);
}

/* Tells what goes on failing once. */
static void complain(struct labels_session *session, const struct err *err)
{
	if (strcmp(session->failure, err->text) == 0)
		return;
	(void)cmd_fail(session->call, 0, err);
	memcpy(session->failure, err->text, sizeof(session->failure));
}

static void wait_at_most(struct labels_session *session, uint64_t wait_ns)
{
	if (wait_ns < session->wait_ns)
		session->wait_ns = wait_ns;
}

/* Asks the driver and makes the labels. -errno when nothing can be said. */
static int look(struct labels_session *session, struct err *err)
{
	const struct clock clock = {0};
	const struct labels_options *options = session->call->options;
	const struct probe_options how = {0};
	_cleanup_inventory_ struct inventory now;
	struct err why = {0};
	bool is_first = !session->held.has;

	inventory_init(&now);
	session->wait_ns = session->config->gfd_sleep_ns;

	int rc = probe_collect(&how, options->timeout_ns, &now, NULL, &why);
	if (rc < 0 && is_first && session->config->fail_on_init_error)
		return err_set(err, rc, "%s", why.text);

	if (rc < 0) {
		complain(session, &why);
		wait_at_most(session, RETRY_WAIT_NS);
	} else {
		session->failure[0] = '\0';
		if (now.simulated && is_first)
			fprintf(stderr, "%s: the GPUs are simulated\n", session->call->path);
	}

	/* There is nothing to keep at first. */
	uint64_t now_ns = clock_now_ns(&clock);
	rc = held_look(&session->held, rc < 0 ? NULL : &now,
		       is_first ? 0 : session->config->labels.keep_on_error_ns,
		       session->config->gfd_sleep_ns, now_ns, err);
	if (rc < 0)
		return rc;
	if (held_due_ns(&session->held) != UINT64_MAX)
		wait_at_most(session, MISS_WAIT_NS);

	if (held_due_ns(&session->held) > now_ns)
		wait_at_most(session, held_due_ns(&session->held) - now_ns);

	return make_labels(session, err);
}

/* --- giving out ----------------------------------------------------------------------------- */

/* Tells the warnings when they are others than before. */
static void tell_warnings(struct labels_session *session)
{
	const struct label_set *set = &session->set;
	_cleanup_buf_ struct buf text;

	buf_init(&text, WARNINGS_MAX);

	for (uint32_t i = 0; i < set->warning_count && i < LABEL_WARNINGS_MAX; i++)
		(void)buf_printf(&text, "%s\n", set->warning[i]);

	if (strcmp(buf_text(&text), buf_text(&session->warnings)) == 0)
		return;

	for (uint32_t i = 0; i < set->warning_count && i < LABEL_WARNINGS_MAX; i++) {
		fprintf(stderr, "%s: warning: ", session->call->path);
		cmd_print(stderr, set->warning[i]);
		fputc('\n', stderr);
	}

	if (set->warning_count > LABEL_WARNINGS_MAX)
		fprintf(stderr, "%s: %u more warnings\n", session->call->path,
			set->warning_count - LABEL_WARNINGS_MAX);

	buf_clear(&session->warnings);
	(void)buf_add_text(&session->warnings, buf_text(&text));
}

static int print_json(const struct labels_session *session, struct err *err)
{
	json_t *root = machine_json(&session->held.inventory);
	json_t *labels = json_object(), *warnings = json_array();
	for (size_t i = 0; i < session->set.count; i++)
		(void)json_object_set_new(labels, session->set.items[i].key,
					  table_json_text(session->set.items[i].value));

	for (uint32_t i = 0; i < session->set.warning_count && i < LABEL_WARNINGS_MAX; i++)
		(void)json_array_append_new(warnings, table_json_text(session->set.warning[i]));

	(void)json_object_set_new(root, "labels", labels);
	(void)json_object_set_new(root, "warnings", warnings);

	int rc = table_print_json(root, stdout, err);
	json_decref(root);
	return rc;
}

static int put_file(struct labels_session *session, const struct buf *plain, struct err *err)
{
	uint64_t expiry_ns = session->config->labels.expiry_ns;
	bool expires = expiry_ns > 0 && expiry_ns != SCHEMA_FOREVER;

	if (expires)
		wait_at_most(session, expiry_ns / FEATURE_FILE_EXPIRY_PARTS + 1);

	int rc = feature_keep_put(&session->file, session->path, plain,
				  expires ? (int64_t)(expiry_ns / CLOCK_NS_PER_S) : 0,
				  clock_unix_ns() / (int64_t)CLOCK_NS_PER_S, err);
	return rc < 0 ? rc : 0;
}

static int put_stdout(const struct labels_session *session, const struct buf *plain,
		      struct err *err)
{
	if (session->json)
		return print_json(session, err);
	if (fwrite(buf_text(plain), 1, plain->length, stdout) != plain->length ||
	    fflush(stdout) != 0)
		return err_set(err, -errno, "cannot print: %s", err_describe(-errno));
	return 0;
}

static int publish(struct labels_session *session, struct err *err)
{
	_cleanup_buf_ struct buf plain;
	buf_init(&plain, FEATURE_FILE_MAX);
	tell_warnings(session);

	int rc = feature_file_text(&session->set, 0, &plain, err);
	if (rc == 0 && session->path[0] != '\0')
		return put_file(session, &plain, err);
	if (rc == 0 && strcmp(buf_text(&plain), buf_text(&session->plain)) != 0)
		rc = put_stdout(session, &plain, err);
	if (rc < 0)
		return rc;

	buf_clear(&session->plain);
	return buf_add(&session->plain, buf_text(&plain), plain.length);
}

/* --- again and again ------------------------------------------------------------------------ */

/* The next signal, or 0 after `wait_ns`. */
static int wait_signal(const sigset_t *signals, uint64_t wait_ns)
{
	const struct timespec wait = {.tv_sec = (time_t)(wait_ns / CLOCK_NS_PER_S),
				      .tv_nsec = (long)(wait_ns % CLOCK_NS_PER_S)};
	int number;
	do {
		number = wait_ns == SCHEMA_FOREVER ? sigwaitinfo(signals, NULL)
						   : sigtimedwait(signals, NULL, &wait);
	} while (number < 0 && errno == EINTR);
	return number < 0 ? 0 : number;
}

/* The peer takes its labels away at the end, unless it would have slept for ever. */
static bool removes_file(const struct labels_session *session)
{
	const struct config *config = session->config;
	if (session->path[0] == '\0')
		return false;
	if (config->source[SCHEMA_LABELS_ON_EXIT] == CONFIG_DEFAULT)
		return config->gfd_sleep_ns != SCHEMA_FOREVER;
	return config->labels.on_exit == CONFIG_EXIT_REMOVE;
}

static int finish(struct labels_session *session)
{
	struct err err = {0};
	if (removes_file(session) && feature_file_remove(session->path, &err) < 0)
		return cmd_fail(session->call, CMD_EXIT_FAILED, &err);
	return CMD_EXIT_OK;
}

/* The file may lie elsewhere now: the old one must not stay as a second source. */
static void reload(struct labels_session *session)
{
	char before[FILE_PATH_MAX];
	struct err err = {0};

	if (file_path(before, &err, "%s", session->path) < 0 || configure(session, &err) < 0) {
		(void)cmd_fail(session->call, 0, &err);
		return;
	}

	if (before[0] != '\0' && strcmp(before, session->path) != 0 &&
	    feature_file_remove(before, &err) < 0)
		(void)cmd_fail(session->call, 0, &err);
}

static int loop(struct labels_session *session)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
	sigset_t signals;

	(void)sigemptyset(&signals);

	for (size_t i = 0; i < array_length(numbers); i++)
		(void)sigaddset(&signals, numbers[i]);

	(void)sigprocmask(SIG_BLOCK, &signals, NULL);

	for (bool first = true;; first = false) {
		struct err err = {0};
		if (look(session, &err) < 0 || publish(session, &err) < 0) {
			if (first || session->path[0] == '\0')
				return cmd_fail(session->call, CMD_EXIT_FAILED, &err);
			complain(session, &err);
		}

		int number = wait_signal(&signals, session->wait_ns);
		if (number == SIGHUP)
			reload(session);
		else if (number != 0)
			return finish(session);
	}
}

/* --- the command ---------------------------------------------------------------------------- */

static int run_session(struct labels_session *session)
{
	const struct labels_options *options = session->call->options;
	struct err err = {0};

	if (configure(session, &err) < 0)
		return cmd_fail(session->call, CMD_EXIT_FAILED, &err);

	session->json = options->output && strcmp(options->output, "json") == 0;
	if (session->json && (session->path[0] != '\0' || !session->oneshot))
		return cmd_usage(session->call,
				 "--output: json is for labels that are printed once");
	if (!session->oneshot)
		return loop(session);

	return look(session, &err) < 0 || publish(session, &err) < 0
		   ? cmd_fail(session->call, CMD_EXIT_FAILED, &err)
		   : CMD_EXIT_OK;
}

static int run(const struct cmd_call *call)
{
	const struct labels_options *options = call->options;
	if (!output_is_format(options->output) && !strchr(options->output, '/'))
		return cmd_usage(call,
				 "--output: '%s' is neither table nor json nor a path with a '/'",
				 options->output);

	struct labels_session session = {
	    .call = call,
	    .surroundings = {.has_kubelet = true,
			     .visible_devices = getenv("NVIDIA_VISIBLE_DEVICES")},
	};
	const struct clock clock = {0};

	held_init(&session.held, clock_now_ns(&clock));
	label_set_init(&session.set);
	buf_init(&session.plain, FEATURE_FILE_MAX);
	feature_keep_init(&session.file);
	buf_init(&session.warnings, WARNINGS_MAX);

	int code = run_session(&session);
	session_done(&session);
	return code;
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "the labels were given out; in a loop: a signal ended it"},
    {CMD_EXIT_FAILED, "no driver, the configuration was refused, or the file cannot be written"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice labels", "prints the labels of this node"},
    {"sluice labels --mig-strategy mixed --output json", "the same for programs, each MIG profile "
							 "with labels of its own"},
    {"sluice labels --oneshot=false --output-file "
     "/etc/kubernetes/node-feature-discovery/features.d/gfd",
     "keeps the feature file right, in place of GPU feature discovery"},
    {NULL, NULL},
};

const struct command cmd_labels = {
    .name = "labels",
    .summary = "Print the Kubernetes labels of this node, or keep them in a file",
    .description =
	"Gives the labels of NVIDIA's GPU feature discovery, under the same names and with the "
	"same "
	"values, from the driver, /sys and the configuration. Without options they are printed "
	"once, in the order of their bytes: the same machine gives the same output.\n\n"
	"With its flags and variables it takes the place of gpu-feature-discovery: with "
	"--oneshot=false it looks again and again and keeps a feature file of node feature "
	"discovery. It writes only what has changed.\n\n"
	"On a node with several GPU models nvidia.com/gpu.* describes one of them, always the "
	"same.",
    .group = CMD_GROUP_MACHINE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct labels_options),
    .exits = exits,
    .examples = examples,
};

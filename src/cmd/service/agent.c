/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice agent`: the service itself, and status, reload and stop of one that runs. */
#include "agent/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/cluster/cluster.h"
#include "agent/uninstall.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "cmd/service/agent_call.h"
#include "cmd/service/agent_status.h"
#include "cmd/cmd.h"
#include "cmd/helper.h"
#include "cmd/options.h"
#include "cmd/settings.h"
#include "cmd/table.h"
#include "hardware/pci.h"
#include "policy/config.h"
#include "sluice.pb-c.h"

enum { AGENT_NOT_NEEDED = 5, AGENT_SAID_MAX = 4096, AGENT_WITHDRAW_MS = 30000 };

#define AGENT_STOP_TIMEOUT_NS UINT64_C(20000000000)
#define AGENT_FD_NONE	      UINT32_MAX
#define AGENT_NODE_LABEL      "nvidia.com/device-plugin.config"
#define AGENT_FALLBACKS	      "named,single,empty"

/* --- the service ----------------------------------------------------------------------------- */

struct agent_command {
	const char *config, *socket, *runtime_dir, *state_dir, *kubelet_socket;
	enum log_level level;
	uint32_t level_index, format;
	uint64_t exit_idle_ns, period_ns, call_timeout_ns;
	uint32_t ready_fd;
	struct settings settings;
	bool strict, cleanup, purge;
	const char *node_name, *node_label, *namespace_, *pod, *kubeconfig, *srcdir,
	    *default_config, *fallbacks;
	struct option_list hooks, hook_features;
	const char *not_needed[AGENT_NOT_NEEDED];
};

/* Of NVIDIA's config-manager, a process that tells another one to start anew. */
#define AGENT_NOT_NEEDED_ROW(i, flag, bare_)                                                       \
	{                                                                                          \
		.name = flag, .kind = OPTION_TEXT, .hidden = true, .bare = bare_,                  \
		.help = "not needed: sluice reloads by itself",                                    \
		OPTION_FIELD(struct agent_command, not_needed[i])                                  \
	}

#define SETTINGS_TYPE struct agent_command
static const struct option_row agent_rows[] = {
    {.name = "config",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "the configuration (default: $SLUICE_CONFIG, /etc/sluice/config.yaml, of a user "
	     "~/.config/sluice/config.yaml before it)",
     OPTION_FIELD(struct agent_command, config)},
    {.name = "socket",
     .kind = OPTION_PATH,
     .value = "PATH",
     .help = "where to listen (default: agent.sock in the runtime directory)",
     OPTION_FIELD(struct agent_command, socket)},
    {.name = "runtime-dir",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "for locks and the socket (default: /run/sluice, of a user $XDG_RUNTIME_DIR/sluice)",
     OPTION_FIELD(struct agent_command, runtime_dir)},
    {.name = "state-dir",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "for jobs and their output (default: /var/lib/sluice, of a user "
	     "~/.local/state/sluice)",
     OPTION_FIELD(struct agent_command, state_dir)},
    {.name = "kubelet-socket",
     .kind = OPTION_PATH,
     .value = "PATH",
     .help = "where the kubelet takes registrations; \"\": register nowhere (default: "
	     "$KUBELET_SOCKET, /var/lib/kubelet/device-plugins/kubelet.sock)",
     OPTION_FIELD(struct agent_command, kubelet_socket)},
    {.name = "log-level",
     .kind = OPTION_CHOICE,
     .words = "error|warning|notice|info|debug",
     .help = "the least important messages that are written (default: info)",
     OPTION_FIELD(struct agent_command, level_index)},
    {.name = "log-format",
     .kind = OPTION_CHOICE,
     .words = "auto|text|json|journal",
     .help = "how: for the journal, as text on a terminal, else as JSON lines (default: auto)",
     OPTION_FIELD(struct agent_command, format)},
    {.name = "exit-idle",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "end when there was no job and no question for this long (default: never)",
     .max = UINT64_C(8640000000000000),
     OPTION_FIELD(struct agent_command, exit_idle_ns)},
    {.name = "period",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "between looks at the GPUs (default: 1s)",
     .min = 10000000,
     .max = UINT64_C(3600000000000),
     OPTION_FIELD(struct agent_command, period_ns)},
    {.name = "call-timeout",
     .kind = OPTION_DURATION,
     .help = "for tests: when a driver call counts as hung",
     .hidden = true,
     .max = UINT64_C(3600000000000),
     OPTION_FIELD(struct agent_command, call_timeout_ns)},
    {.name = "ready-fd",
     .kind = OPTION_U32,
     .value = "N",
     .help = "write a byte to this descriptor when it serves, and close it",
     .min = 3,
     .max = 65535,
     OPTION_FIELD(struct agent_command, ready_fd)},
    {.name = "config-file",
     .kind = OPTION_PATH,
     .hidden = true,
     .help = "another name of --config",
     OPTION_FIELD(struct agent_command, config)},
    {.name = "config-strict",
     .kind = OPTION_FLAG,
     .help = "refuse a configuration with keys that are not known, instead of warning",
     OPTION_FIELD(struct agent_command, strict)},
    {.name = "config-file-srcdir",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "choose one of the configurations in this directory, and take no other "
	     "($CONFIG_FILE_SRCDIR)",
     OPTION_FIELD(struct agent_command, srcdir)},
    {.name = "default-config",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "the one for a node without a label ($DEFAULT_CONFIG)",
     OPTION_FIELD(struct agent_command, default_config)},
    {.name = "fallback-strategies",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .words = "named|single|empty",
     .help = "without label and default: the file 'default', the only file, the built-in defaults, "
	     "in this order (default: named,single,empty; $FALLBACK_STRATEGIES)",
     OPTION_FIELD(struct agent_command, fallbacks)},
    {.name = "node-name",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "what Kubernetes calls this node ($NODE_NAME)",
     OPTION_FIELD(struct agent_command, node_name)},
    {.name = "node-label",
     .kind = OPTION_TEXT,
     .value = "LABEL",
     .help = "the label that chooses (default: " AGENT_NODE_LABEL "; $NODE_LABEL)",
     OPTION_FIELD(struct agent_command, node_label)},
    {.name = "namespace",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "where the NodeFeature with the labels is kept (default: $NAMESPACE, the namespace of "
	     "the service account)",
     OPTION_FIELD(struct agent_command, namespace_)},
    {.name = "pod-name",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "the pod that we are: the owner of that NodeFeature ($POD_NAME)",
     OPTION_FIELD(struct agent_command, pod)},
    {.name = "kubeconfig",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "how to reach the API server outside of a pod ($KUBECONFIG)",
     OPTION_FIELD(struct agent_command, kubeconfig)},
    {.name = "cleanup",
     .kind = OPTION_FLAG,
     .help = "for an uninstallation: remove our validation files, feature file, CDI "
	     "specifications and dead sockets from this machine, of the own node the labels that "
	     "were applied to it, say what was removed, and end",
     OPTION_FIELD(struct agent_command, cleanup)},
    {.name = "purge",
     .kind = OPTION_FLAG,
     .help = "with --cleanup: remove all jobs and their output, too",
     OPTION_FIELD(struct agent_command, purge)},
#include "cmd/settings.def"
    {.name = "cdi-feature-flags",
     .kind = OPTION_LIST,
     .hidden = true,
     .help = "accepted and not used: no CDI hook is written",
     OPTION_FIELD(struct agent_command, hook_features)},
    {.name = "cdi-disable-hooks",
     .kind = OPTION_LIST,
     .hidden = true,
     .help = "accepted and not used: no CDI hook is written",
     OPTION_FIELD(struct agent_command, hooks)},
    AGENT_NOT_NEEDED_ROW(0, "oneshot", "true"),
    AGENT_NOT_NEEDED_ROW(1, "config-file-dst", NULL),
    AGENT_NOT_NEEDED_ROW(2, "send-signal", "true"),
    AGENT_NOT_NEEDED_ROW(3, "signal", NULL),
    AGENT_NOT_NEEDED_ROW(4, "process-to-signal", NULL),
    {.name = NULL},
};

static const struct agent_command agent_defaults = {
    .level_index = LOG_LEVEL_INFO - LOG_LEVEL_ERROR,
    .ready_fd = AGENT_FD_NONE,
};

/* EX_DATAERR is what is wrong with a file; the other codes say what has to be done about it. */
static int agent_exit_code(int code)
{
	switch (code) {
	case -EBUSY:
		return CMD_EXIT_WOULD_WAIT;
	case -EINVAL:
	case -E2BIG:
	case -EFBIG:
	case -ENOENT:
	case -EUCLEAN:
	case -EBADMSG:
	case -EPROTONOSUPPORT:
		return CMD_EXIT_DATA;
	case -EPERM:
	case -EACCES:
		return CMD_EXIT_NOT_PERMITTED;
	case -ENOPKG:
		return CMD_EXIT_UNAVAILABLE;
	case -ENOSPC:
	case -EDQUOT:
	case -EROFS:
	case -EIO:
	case -EMEDIUMTYPE:
	case -EEXIST:
	case -EISDIR:
	case -ENOTDIR:
	case -ELOOP:
	case -ENAMETOOLONG:
		return CMD_EXIT_CANNOT_WRITE;
	default:
		return CMD_EXIT_FAILED;
	}
}

static void agent_log_free(struct log **log)
{
	*log = log_free(*log);
}

/* The command line, else the environment; what is empty there is not set, as with the peer. */
static const char *agent_value(const char *given, const char *variable, const char *otherwise)
{
	const char *value = given ? given : getenv(variable);
	return value && (given || *value) ? value : otherwise;
}

static const char *agent_not_needed(const struct agent_command *command)
{
	static const char *const flags[AGENT_NOT_NEEDED] = {
	    "oneshot", "config-file-dst", "send-signal", "signal", "process-to-signal"};
	for (size_t i = 0; i < AGENT_NOT_NEEDED; i++) {
		if (command->not_needed[i])
			return flags[i];
	}
	return NULL;
}

static void agent_log_unused(const struct agent_command *command, const char *directory,
			     struct log *log)
{
	static const char *const manager[] = {"CONFIG_FILE_DST", "SEND_SIGNAL",
					      "PROCESS_TO_SIGNAL"};
	if (command->hooks.count || command->hook_features.count ||
	    agent_value(NULL, "CDI_DISABLE_HOOKS", NULL) ||
	    agent_value(NULL, "CDI_FEATURE_FLAGS", NULL))
		log_write(
		    log, LOG_LEVEL_NOTICE, NULL,
		    "--cdi-feature-flags and --cdi-disable-hooks are accepted and not used: no "
		    "CDI hook is written");

	if (!directory)
		return;
	if (agent_value(command->config, "CONFIG_FILE", NULL))
		log_write(log, LOG_LEVEL_NOTICE, NULL,
			  "--config is not used: the configurations are in the directory '%s'",
			  directory);

	for (size_t i = 0; i < sizeof(manager) / sizeof(manager[0]); i++) {
		if (agent_value(NULL, manager[i], NULL))
			log_write(log, LOG_LEVEL_NOTICE, NULL,
				  "the variable %s is not needed: sluice reloads by itself",
				  manager[i]);
	}
}

/* What of the command line is about the configuration. `words` is borrowed by `overrides`. */
static int agent_configure(const struct agent_command *command, struct agent_options *out,
			   struct settings_words *words, struct config_overrides *overrides,
			   struct err *err)
{
	const char *fallbacks =
	    agent_value(command->fallbacks, "FALLBACK_STRATEGIES", AGENT_FALLBACKS);

	out->config = command->config;
	out->strict = command->strict;
	out->overrides = overrides;
	out->kubelet_socket =
	    command->kubelet_socket ? command->kubelet_socket : getenv("KUBELET_SOCKET");
	out->node_name = agent_value(command->node_name, "NODE_NAME", NULL);
	out->node_label = agent_value(command->node_label, "NODE_LABEL", AGENT_NODE_LABEL);
	out->namespace_ = agent_value(command->namespace_, "NAMESPACE", NULL);
	out->pod = agent_value(command->pod, "POD_NAME", NULL);
	out->kubeconfig = agent_value(command->kubeconfig, "KUBECONFIG", NULL);
	out->rules.directory = agent_value(command->srcdir, "CONFIG_FILE_SRCDIR", NULL);
	out->rules.default_name = agent_value(command->default_config, "DEFAULT_CONFIG", NULL);

	int rc = choice_fallbacks_parse(fallbacks, &out->rules.fallbacks, err);
	if (rc < 0) {
		(void)err_wrap(err, command->fallbacks
					? "--fallback-strategies"
					: "environment variable FALLBACK_STRATEGIES");
		return rc;
	}

	return settings_overrides(&command->settings, words, overrides, err);
}

static void agent_tell(const char *text, void *context)
{
	cmd_print(stdout, text);
	putchar('\n');
}

/* Labels that were applied to the Node. */
static int agent_cleanup_node(const struct cluster_options *cluster, struct err *err)
{
	bool is_pod = !cluster->kubeconfig || !*cluster->kubeconfig;
	const char *const arguments[] = {"--withdraw",	      "--node",
					 cluster->node_name,  is_pod ? NULL : "--kubeconfig",
					 cluster->kubeconfig, NULL};

	_cleanup_buf_ struct buf said;
	buf_init(&said, AGENT_SAID_MAX);

	int rc = helper_run("sluice-kube", "kube", arguments, NULL, AGENT_WITHDRAW_MS, &said, err);
	if (rc < 0)
		return err_wrap(err, "cleaning up in the cluster");

	agent_tell("removed: labels that were applied to the node", NULL);
	return 0;
}

static int agent_cleanup(const struct cmd_call *call, const struct agent_paths_given *given)
{
	const struct agent_command *command = call->options;
	const struct cluster_options cluster = {
	    .node_name = agent_value(command->node_name, "NODE_NAME", NULL),
	    .kubeconfig = agent_value(command->kubeconfig, "KUBECONFIG", NULL),
	};
	bool withdraws = cluster_is_there(&cluster);
	struct agent_paths paths;
	struct err err = {0};
	int rc = agent_paths_find(given, &paths, &err);
	const struct uninstall_options options = {.paths = &paths,
						  .root = pci_root(),
						  .purges = command->purge,
						  .withdraws = withdraws,
						  .tell = agent_tell};

	if (rc == 0)
		rc = uninstall_run(&options, &err);
	if (rc == 0 && withdraws)
		rc = agent_cleanup_node(&cluster, &err);

	return rc < 0 ? cmd_fail(call, agent_exit_code(rc), &err) : CMD_EXIT_OK;
}

static int agent_serve(const struct cmd_call *call)
{
	const struct agent_command *command = call->options;
	const char *not_needed = agent_not_needed(command);
	if (not_needed)
		return cmd_usage(call, "--%s is not needed: sluice reloads by itself", not_needed);

	const struct agent_paths_given given = {
	    .runtime_dir = command->runtime_dir,
	    .state_dir = command->state_dir,
	    .socket = command->socket,
	    .config = command->config,
	};

	if (command->purge && !command->cleanup)
		return cmd_usage(call, "--purge goes with --cleanup");
	if (command->cleanup)
		return agent_cleanup(call, &given);

	struct settings_words words;
	struct config_overrides overrides = {0};
	struct agent_options options = {
	    .idle_exit_ns = command->exit_idle_ns,
	    .probe_period_ns = command->period_ns,
	    .probe_call_ns = command->call_timeout_ns,
	    .ready_fd = command->ready_fd == AGENT_FD_NONE ? -1 : (int)command->ready_fd,
	};
	const struct log_options how = {
	    .format = (enum log_format)command->format, .fd = 2, .program = "sluice-agent"};
	struct err err = {0};
	struct stat ready;

	if (options.ready_fd >= 0 && fstat(options.ready_fd, &ready) < 0)
		return cmd_usage(call, "--ready-fd %d is no open descriptor", options.ready_fd);

	int rc = agent_configure(command, &options, &words, &overrides, &err);
	if (rc < 0)
		return cmd_usage(call, "%s", err.text);

	rc = agent_paths_find(&given, &options.paths, &err);
	if (rc < 0)
		return cmd_fail(call, agent_exit_code(rc), &err);

	_cleanup_(agent_log_free) struct log *log = log_new(&how, &err);
	if (!log)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	options.log = log;
	log_set_level((enum log_level)(LOG_LEVEL_ERROR + command->level_index));
	agent_log_unused(command, options.rules.directory, log);
	rc = agent_run(&options, &err);

	return rc < 0 ? cmd_fail(call, agent_exit_code(rc), &err) : CMD_EXIT_OK;
}

/* --- status ---------------------------------------------------------------------------------- */

struct agent_ask {
	const char *socket;
	enum option_output output;
	uint64_t timeout_ns;
};

static const struct option_row status_rows[] = {
    OPTION_OUTPUT(struct agent_ask, output),
    AGENT_CALL_SOCKET_ROW(struct agent_ask),
    {.name = NULL},
};

/* Opens, asks, and prints what went wrong: then an exit code, and no reply. */
static int agent_question(const struct cmd_call *call, struct agent_call *agent,
			  enum agent_call_method method, const ProtobufCMessage *request,
			  ProtobufCMessage **out)
{
	const struct agent_ask *options = call->options;
	const struct agent_call_options how = {.socket = options->socket};
	struct err err = {0};
	int rc = agent_call_open(agent, &how, &err);
	if (rc == 0)
		rc = agent_call_ask(agent, method, request, out, &err);

	if (rc == 0)
		return CMD_EXIT_OK;

	int code = agent_call_exit_code(agent, rc);

	/* What is invalid in a question of ours without arguments is the file. */
	if (rc == -EREMOTEIO && agent->result.status == WIRE_INVALID_ARGUMENT)
		code = CMD_EXIT_DATA;

	return cmd_fail(call, code, &err);
}

static int status_run(const struct cmd_call *call)
{
	const struct agent_ask *options = call->options;
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__StatusRequest request = SLUICE__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *message = NULL;
	struct err err = {0};
	int code = agent_question(call, &agent, AGENT_STATUS, &request.base, &message);
	if (code != CMD_EXIT_OK)
		return code;

	const Sluice__V1__StatusReply *reply = (const Sluice__V1__StatusReply *)message;

	if (options->output == OPTION_OUTPUT_JSON) {
		json_t *json = agent_status_json(reply);
		if (table_print_json(json, stdout, &err) < 0)
			code = cmd_fail(call, CMD_EXIT_FAILED, &err);
		json_decref(json);
	} else {
		agent_status_print(reply);
	}

	agent_call_free(message);
	return code;
}

static const struct cmd_exit_row status_exits[] = {
    {CMD_EXIT_OK, "it runs"},
    AGENT_CALL_EXITS,
};

static const struct command agent_status = {
    .name = "status",
    .summary = "Show whether the agent runs, and how it is",
    .description =
	"Prints where it keeps its files, which configuration it has, what became of the last "
	"attempt to read that, how many GPUs it sees, which processes belong to it, and what it "
	"warns of.",
    .group = CMD_GROUP_SERVICE,
    .run = status_run,
    .options = status_rows,
    .options_size = sizeof(struct agent_ask),
    .exits = status_exits,
};

/* --- reload ---------------------------------------------------------------------------------- */

static const struct option_row reload_rows[] = {
    AGENT_CALL_SOCKET_ROW(struct agent_ask),
    {.name = NULL},
};

static int reload_run(const struct cmd_call *call)
{
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__ReloadRequest request = SLUICE__V1__RELOAD_REQUEST__INIT;
	ProtobufCMessage *message = NULL;
	int code = agent_question(call, &agent, AGENT_RELOAD, &request.base, &message);
	if (code != CMD_EXIT_OK)
		return code;

	const Sluice__V1__ReloadReply *reply = (const Sluice__V1__ReloadReply *)message;
	for (size_t i = 0; i < reply->n_warnings; i++) {
		fprintf(stderr, "%s: warning: ", call->path);
		cmd_print(stderr, reply->warnings[i]);
		fputc('\n', stderr);
	}

	printf("%" PRIu32 " resource%s changed\n", reply->changed_resources,
	       reply->changed_resources == 1 ? "" : "s");
	agent_call_free(message);
	return CMD_EXIT_OK;
}

static const struct cmd_exit_row reload_exits[] = {
    {CMD_EXIT_OK, "the configuration was read again and is in force"},
    {CMD_EXIT_DATA, "it was refused, and the one before stays"},
    AGENT_CALL_EXITS,
};

static const struct command agent_reload = {
    .name = "reload",
    .summary = "Have the agent read its configuration again",
    .description =
	"The same as SIGHUP, but it waits for the result. A configuration that cannot be read or "
	"does not fit the machine is refused as a whole, with file, line and column. Jobs that run "
	"are not touched: a GPU that is taken from the queue leaves it when its jobs have ended.",
    .group = CMD_GROUP_SERVICE,
    .run = reload_run,
    .options = reload_rows,
    .options_size = sizeof(struct agent_ask),
    .exits = reload_exits,
};

/* --- stop ------------------------------------------------------------------------------------ */

static const struct option_row stop_rows[] = {
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "how long to wait for its end (default: 20s)",
     .min = 1000000,
     .max = UINT64_C(3600000000000),
     OPTION_FIELD(struct agent_ask, timeout_ns)},
    AGENT_CALL_SOCKET_ROW(struct agent_ask),
    {.name = NULL},
};

static const struct agent_ask stop_defaults = {.timeout_ns = AGENT_STOP_TIMEOUT_NS};

static int stop_process(const struct agent_call *agent, uint64_t timeout_ns, struct err *err)
{
	struct wire_peer peer;
	int rc = wire_client_peer(agent->client, &peer, err);
	if (rc < 0)
		return rc;
	if (peer.pid <= 0)
		return err_set(err, -ESRCH,
			       "the agent runs in another PID namespace: stop it there");

	_cleanup_close_ int pidfd = pidfd_open(peer.pid, 0);
	if (pidfd < 0)
		return err_set(err, -errno, "process %d of the agent: %s", (int)peer.pid,
			       err_describe(-errno));
	if (pidfd_send_signal(pidfd, SIGTERM, NULL, 0) < 0)
		return err_set(err, -errno, "stopping process %d: %s", (int)peer.pid,
			       err_describe(-errno));

	const struct clock clock = {.fake_ns = NULL};
	uint64_t end_ns = clock_after_ns(clock_now_ns(&clock), timeout_ns);

	for (;;) {
		uint64_t now_ns = clock_now_ns(&clock);
		struct pollfd wait = {.fd = pidfd, .events = POLLIN};
		int left_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / CLOCK_NS_PER_MS) + 1 : 0;
		int ready = poll(&wait, 1, left_ms);
		if (ready > 0)
			return 0;

		if (ready < 0 && errno != EINTR)
			return err_set(err, -errno, "waiting for process %d: %s", (int)peer.pid,
				       err_describe(-errno));
		if (left_ms == 0)
			return err_set(err, -ETIMEDOUT, "process %d has not ended yet",
				       (int)peer.pid);
	}
}

static int stop_run(const struct cmd_call *call)
{
	const struct agent_ask *options = call->options;
	_cleanup_agent_call_ struct agent_call agent = AGENT_CALL_NONE;
	Sluice__V1__StatusRequest request = SLUICE__V1__STATUS_REQUEST__INIT;
	struct err err = {0};

	/* It answers: so what is stopped is an agent, whoever has a socket there. */
	int code = agent_question(call, &agent, AGENT_STATUS, &request.base, NULL);
	if (code != CMD_EXIT_OK)
		return code;

	int rc = stop_process(&agent, options->timeout_ns, &err);
	if (rc < 0)
		return cmd_fail(call, agent_call_exit_code(&agent, rc), &err);

	return CMD_EXIT_OK;
}

static const struct cmd_exit_row stop_exits[] = {
    {CMD_EXIT_OK, "it has ended"},
    AGENT_CALL_EXITS,
};

static const struct command agent_stop = {
    .name = "stop",
    .summary = "End the agent; jobs that run go on",
    .description =
	"Waits until it has ended. Jobs go on under their supervisors; the next agent on the same "
	"state directory takes them over, and enters how those ended that did so meanwhile. Jobs "
	"that wait start then.",
    .group = CMD_GROUP_SERVICE,
    .run = stop_run,
    .options = stop_rows,
    .defaults = &stop_defaults,
    .options_size = sizeof(struct agent_ask),
    .exits = stop_exits,
};

/* --- the command ----------------------------------------------------------------------------- */

static const struct command *const agent_commands[] = {&agent_status, &agent_reload, &agent_stop,
						       NULL};

static const struct cmd_exit_row agent_exits[] = {
    {CMD_EXIT_OK,
     "it was told to end, or had been idle long enough; with --cleanup: all is removed"},
    {CMD_EXIT_FAILED,
     "there is an NVIDIA GPU for the kubelet and no driver (--fail-on-init-error)"},
    {CMD_EXIT_DATA, "the configuration was refused, or the jobs' database is damaged"},
    {CMD_EXIT_UNAVAILABLE, "sluice is not installed completely"},
    {CMD_EXIT_CANNOT_WRITE, "its directories cannot be written, or lie on a network file system"},
    {CMD_EXIT_WOULD_WAIT,
     "another agent has this state, or listens there; with --purge: a job runs"},
    {CMD_EXIT_NOT_PERMITTED, "a directory belongs to somebody else"},
    {0, NULL},
};

static const struct cmd_example agent_examples[] = {
    {"sluice agent", "serves this machine (root) or this user until it is told to end"},
    {"sluice agent --exit-idle 10m", "ends by itself when nobody needs it"},
    {"sluice agent --config-file-srcdir /configs --node-name $NODE_NAME",
     "on a node of a cluster: the configuration that the node's label names"},
    {"sluice agent --cleanup", "before the package goes: nothing is left that others would find"},
    {"sluice agent status", "is one running, and what does it see?"},
    {NULL, NULL},
};

const struct command cmd_agent = {
    .name = "agent",
    .summary = "The service: accepts jobs, hands out GPUs, starts what fits",
    .description =
	"Runs in the foreground until SIGTERM. Root's agent serves everybody on the machine and "
	"runs each job as the user who submitted it; a user's agent serves that user. 'sluice "
	"run' starts a user's agent by itself where none runs.\n\n"
	"Jobs do not depend on it: stopped, killed or replaced by a newer one, it takes up again "
	"what it finds.\n\n"
	"Settings of the configuration can be given as options, under the names that the NVIDIA "
	"device plugin has for them; those count first, then its environment variables, then the "
	"file. A configuration that changes is read again without being asked.",
    .group = CMD_GROUP_SERVICE,
    .run = agent_serve,
    .commands = agent_commands,
    .options = agent_rows,
    .defaults = &agent_defaults,
    .options_size = sizeof(struct agent_command),
    .exits = agent_exits,
    .examples = agent_examples,
};

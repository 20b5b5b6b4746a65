/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice top: the GPUs, who is on them, and the jobs that run and wait; live in a terminal, or
 * once. Asks the agent; where there is none, the driver, and says so.
 */
#include "cmd/top/top.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "cmd/service/agent_call.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cmd/table.h"

_Static_assert((int)TOP_NAME_MAX == (int)MACHINE_PROCESS_NAME_MAX, "one is given to the other");

enum {
	TOP_USERS_MAX = 64, /* names that are remembered */
	TOP_EXIT_SIGNAL = 128,
	TOP_NOTICE_MAX = WIRE_MESSAGE_MAX + ERR_TEXT_MAX,
};

#define TOP_AGAIN_NS UINT64_C(2000000000) /* until an agent that does not answer is tried again */
#define TOP_DRAW_NS  UINT64_C(50000000)	  /* between two pictures, however much changes */
#define TOP_LOOK_NS  UINT64_C(1000000000) /* the longest pass of the loop */

struct top_options {
	enum option_output output;
	const char *socket;
	uint64_t timeout_ns;
	bool once;
};

static const struct option_row rows[] = {
    OPTION_OUTPUT(struct top_options, output),
    {.name = "once",
     .kind = OPTION_FLAG,
     .help = "print the picture once and end; so it is where the output is no terminal",
     OPTION_FIELD(struct top_options, once)},
    AGENT_CALL_SOCKET_ROW(struct top_options),
    MACHINE_TIMEOUT_ROW(struct top_options),
    {.name = NULL},
};

static const struct top_options defaults = {.timeout_ns = MACHINE_TIMEOUT_NS};

struct top {
	const struct cmd_call *call;
	const struct top_options *options;
	struct agent_call_options how;
	struct agent_call agent;	  /* its loop is ours */
	struct wire_client_call *watch;	  /* of the agent; NULL: none */
	struct probe_client *probe;	  /* owned; where there is no agent */
	struct loop_fd *probe_fd, *keys;  /* owned */
	struct loop_timer *again, *later; /* owned */
	struct loop_signal *signals[6];	  /* owned */
	struct top_terminal terminal;
	Sluice__V1__Machine *machine; /* owned; NULL: nothing yet */
	char notice[TOP_NOTICE_MAX];
	size_t first, height; /* of the body that is seen; of the terminal */
	bool drawn, quit;
	int exit_code;
	struct {
		uint32_t uid;
		char *name; /* owned; NULL: it has none */
	} users[TOP_USERS_MAX];
	size_t user_count;
};

/* --- what is seen ----------------------------------------------------------------------------- */

static const char *top_user(uint32_t uid, void *context)
{
	struct top *top = context;
	for (size_t i = 0; i < top->user_count; i++)
		if (top->users[i].uid == uid)
			return top->users[i].name;

	const struct passwd *entry = getpwuid(uid);

	if (top->user_count == TOP_USERS_MAX)
		return entry ? entry->pw_name : NULL;

	top->users[top->user_count].uid = uid;
	top->users[top->user_count].name = entry ? strdup(entry->pw_name) : NULL;
	return top->users[top->user_count++].name;
}

static struct top_scene top_scene_of(struct top *top, size_t width, size_t height, bool colour,
				     const char *clock)
{
	return (struct top_scene){.machine = top->machine,
				  .notice = top->notice,
				  .clock = clock,
				  .width = width,
				  .height = height,
				  .first = top->first,
				  .colour = colour,
				  .user = top_user,
				  .context = top};
}

/* Whether the terminal obeys anything but text. */
static bool top_is_dumb(void)
{
	const char *term = getenv("TERM");
	return !term || term[0] == '\0' || strcmp(term, "dumb") == 0;
}

static bool top_has_colour(void)
{
	const char *no_color = getenv("NO_COLOR"); /* https://no-color.org */
	return (!no_color || no_color[0] == '\0') && !top_is_dumb();
}

static void top_quit(struct top *top, int exit_code)
{
	top->quit = true;
	top->exit_code = exit_code;
}

static void top_show(struct top *top)
{
	struct err err = {.code = 0};
	_cleanup_buf_ struct buf lines;

	buf_init(&lines, TOP_BYTES_MAX);
	size_t width;
	char clock[32];
	struct tm local;
	time_t now = clock_unix_s();

	top_terminal_size(&top->terminal, &width, &top->height);
	if (!localtime_r(&now, &local) || strftime(clock, sizeof(clock), "%H:%M:%S", &local) == 0)
		clock[0] = '\0';

	const struct top_scene scene =
	    top_scene_of(top, width, top->height, top_has_colour(), clock);
	int rc = top_draw(&scene, &lines, &top->first, &err);
	if (rc == 0)
		rc = top_terminal_show(&top->terminal, &lines, &err);

	if (rc == -EPIPE || rc == -EIO) {
		top_quit(top, CMD_EXIT_OK); /* nobody looks any more */
	} else if (rc < 0) {
		top_terminal_leave(&top->terminal);
		top_quit(top, cmd_fail(top->call, CMD_EXIT_FAILED, &err));
	}
}

static void top_on_later(void *context)
{
	top_show(context);
}

/* Something has changed: it is shown soon, together with what changes until then. */
static void top_changed(struct top *top)
{
	if (top->later && !loop_timer_is_running(top->later))
		loop_timer_start(top->later, top->drawn ? TOP_DRAW_NS : 0);
	top->drawn = true;
}

static void top_take(struct top *top, Sluice__V1__Machine *machine)
{
	if (!machine)
		return; /* no memory: the next one may fit */
	(void)top_machine_free(top->machine);
	top->machine = machine;
	top_changed(top);
}

/* --- the driver, where there is no agent ------------------------------------------------------ */

static void top_probe_stop(struct top *top)
{
	top->probe_fd = loop_fd_free(top->probe_fd);
	top->probe = probe_client_stop(top->probe);
}

static void top_on_probe(int fd, unsigned events, void *context)
{
	struct top *top = context;
	struct probe_event event;
	struct err err = {.code = 0};
	int rc;

	while ((rc = probe_client_next(top->probe, &event, &err)) > 0) {
		const struct inventory *inventory = probe_client_inventory(top->probe);

		if (event.kind == PROBE_EVENT_DRIVER_DOWN) {
			struct inventory none;
			inventory_init(&none);

			Sluice__V1__Machine *machine =
			    top_machine_new(&none, NULL, machine_process);
			if (machine)
				machine->driver_error = strdup(event.text);
			if (machine && !machine->driver_error)
				machine = top_machine_free(machine);
			top_take(top, machine);
		} else if (event.kind == PROBE_EVENT_SNAPSHOT && inventory) {
			top_take(top, top_machine_new(inventory, probe_client_snapshot(top->probe),
						      machine_process));
		}
	}

	if (rc < 0)
		top_probe_stop(top); /* the notice says already that this is the driver's view */
}

static void top_probe_start(struct top *top)
{
	struct err err = {.code = 0};
	const struct probe_options options = {0};

	if (top->probe)
		return;

	int rc = probe_client_start(&options, &top->probe, &err);
	if (rc == 0)
		top->probe_fd = loop_fd_new(top->agent.loop, probe_client_fd(top->probe), LOOP_READ,
					    top_on_probe, top, &err);
	if (rc < 0 || !top->probe_fd)
		(void)snprintf(top->notice, sizeof(top->notice), "%s", err.text);
}

/* --- the agent -------------------------------------------------------------------------------- */

static void top_lost(struct top *top, const char *why)
{
	(void)snprintf(top->notice, sizeof(top->notice), "No service: %s", why);
	top_probe_start(top);
	loop_timer_start(top->again, TOP_AGAIN_NS);
	top_changed(top);
}

static void top_on_machine(const ProtobufCMessage *reply, void *context)
{
	struct top *top = context;
	top->notice[0] = '\0';
	top_probe_stop(top);
	top_take(top, top_machine_copy((const Sluice__V1__Machine *)reply));
}

static void top_on_end(const struct wire_result *result, void *context)
{
	struct top *top = context;
	top->watch = NULL;
	top_lost(top, result->message[0] ? result->message : "it has ended the connection");
}

static int top_watch(struct top *top, struct err *err)
{
	Sluice__V1__WatchRequest request = SLUICE__V1__WATCH_REQUEST__INIT;
	const struct wire_client_callbacks callbacks = {
	    .message = top_on_machine, .end = top_on_end, .context = top};
	top->watch = wire_client_call(top->agent.client, agent_call_method(AGENT_WATCH_MACHINE),
				      &request.base, 0, &callbacks, err);
	return top->watch ? 0 : err->code;
}

static void top_on_again(void *context)
{
	struct top *top = context;
	struct err err = {.code = 0};
	int rc = agent_call_reopen(&top->agent, &top->how, &err);
	if (rc == 0)
		rc = top_watch(top, &err);
	if (rc < 0)
		top_lost(top, err.text);
}

/* --- keys and signals ------------------------------------------------------------------------- */

static void top_key(struct top *top, enum top_key key)
{
	size_t page = top->height > 6 ? top->height - 4 : 2;

	switch (key) {
	case TOP_KEY_QUIT:
		top_quit(top, CMD_EXIT_OK);
		return;
	case TOP_KEY_UP:
		top->first -= top->first > 0;
		break;
	case TOP_KEY_DOWN:
		top->first++; /* drawing takes back what is beyond the end */
		break;
	case TOP_KEY_PAGE_UP:
		top->first -= top->first < page ? top->first : page;
		break;
	case TOP_KEY_PAGE_DOWN:
		top->first += page;
		break;
	case TOP_KEY_HOME:
		top->first = 0;
		break;
	case TOP_KEY_END:
		top->first = TOP_LINES_MAX;
		break;
	case TOP_KEY_NONE:
	case TOP_KEY_REDRAW:
		break;
	}
	top_show(top);
}

static void top_on_keys(int fd, unsigned events, void *context)
{
	struct top *top = context;
	char bytes[64];
	ssize_t count = read(fd, bytes, sizeof(bytes));
	if (count < 0 && errno == EINTR)
		return;

	if (count <= 0) { /* the terminal is gone */
		top_quit(top, CMD_EXIT_OK);
		return;
	}

	for (size_t at = 0; at < (size_t)count && !top->quit;) {
		size_t taken;
		enum top_key key = top_key_read(bytes + at, (size_t)count - at, &taken);
		at += taken;
		if (key != TOP_KEY_NONE)
			top_key(top, key);
	}
}

static void top_on_interrupt(void *context)
{
	top_quit(context, CMD_EXIT_OK);
}

static void top_on_terminate(void *context)
{
	top_quit(context, TOP_EXIT_SIGNAL + SIGTERM);
}

static void top_on_hangup(void *context)
{
	top_quit(context, TOP_EXIT_SIGNAL + SIGHUP);
}

static void top_on_resize(void *context)
{
	top_show(context);
}

static void top_on_continue(void *context)
{
	struct top *top = context;
	struct err err = {.code = 0};

	/* Also after SIGSTOP, of which nobody hears: a shell has set its own modes meanwhile. */
	top->terminal.is_ours = false;
	if (top_terminal_enter(&top->terminal, &err) < 0)
		top_quit(top, CMD_EXIT_OK);
	else
		top_show(top);
}

/* A program that is stopped lets go of the terminal first, and is stopped as any other is. */
static void top_on_stop(void *context)
{
	struct top *top = context;
	struct sigaction usual = {.sa_handler = SIG_DFL}, ours;

	top_terminal_leave(&top->terminal);
	(void)sigaction(SIGTSTP, &usual, &ours);
	(void)raise(SIGTSTP);
	(void)sigaction(SIGTSTP, &ours, NULL);

	/* It goes on; or it was not stopped, because no shell is there to let it go on again. */
	top_on_continue(top);
}

static int top_listen(struct top *top, struct err *err)
{
	static const struct {
		int signo;
		loop_callback callback;
	} signals[] = {{SIGINT, top_on_interrupt}, {SIGTERM, top_on_terminate},
		       {SIGHUP, top_on_hangup},	   {SIGWINCH, top_on_resize},
		       {SIGTSTP, top_on_stop},	   {SIGCONT, top_on_continue}};
	_Static_assert(sizeof(signals) / sizeof(signals[0]) ==
			   sizeof(top->signals) / sizeof(top->signals[0]),
		       "each has its place");

	struct loop *loop = top->agent.loop;
	for (size_t i = 0; i < array_length(signals); i++) {
		top->signals[i] =
		    loop_signal_new(loop, signals[i].signo, signals[i].callback, top, err);
		if (!top->signals[i])
			return err->code;
	}

	top->again = loop_timer_new(loop, top_on_again, top, err);
	top->later = top->again ? loop_timer_new(loop, top_on_later, top, err) : NULL;
	if (!top->later)
		return err->code;

	if (top->terminal.in >= 0) {
		top->keys = loop_fd_new(loop, top->terminal.in, LOOP_READ, top_on_keys, top, err);
		if (!top->keys)
			return err->code;
	}

	return 0;
}

/* --- live, and once --------------------------------------------------------------------------- */

static int top_live(struct top *top)
{
	struct err err = {.code = 0};

	top->terminal = (struct top_terminal){.in = isatty(STDIN_FILENO) ? STDIN_FILENO : -1,
					      .out = STDOUT_FILENO};
	int rc = top_listen(top, &err);
	if (rc == 0)
		rc = top_terminal_enter(&top->terminal, &err);
	if (rc == 0) {
		top_on_again(top);
		top_changed(top);
	}

	while (rc == 0 && !top->quit)
		rc = loop_pass(top->agent.loop, TOP_LOOK_NS, &err);

	top_terminal_leave(&top->terminal);
	if (rc == -EIO || rc == -EPIPE || rc == 0)
		return top->exit_code;

	return cmd_fail(top->call, CMD_EXIT_FAILED, &err);
}

static bool top_on_first(const ProtobufCMessage *reply, void *context)
{
	struct top *top = context;
	(void)top_machine_free(top->machine);
	top->machine = top_machine_copy((const Sluice__V1__Machine *)reply);
	return false;
}

/* 0, or the exit code after the error was said. */
static int top_ask(struct top *top)
{
	struct err err = {.code = 0};
	Sluice__V1__WatchRequest request = SLUICE__V1__WATCH_REQUEST__INIT;

	request.once = true;
	int rc = agent_call_reopen(&top->agent, &top->how, &err);
	if (rc == 0)
		rc = agent_call_follow(&top->agent, AGENT_WATCH_MACHINE, &request.base,
				       AGENT_CALL_DEADLINE_NS, top_on_first, top, &err);
	if (rc >= 0 && top->machine)
		return 0;

	(void)snprintf(top->notice, sizeof(top->notice), "No service: %s",
		       rc < 0 ? err.text : "it has said nothing");
	_cleanup_machine_ struct machine machine;
	int exit_code = machine_read(top->call, top->options->timeout_ns, &machine, NULL, NULL);
	if (exit_code != 0)
		return rc < 0 ? cmd_fail(top->call, exit_code, &err) : exit_code;

	top->machine = top_machine_new(&machine.inventory, machine.snapshot, machine_process);
	if (top->machine)
		return 0;

	(void)err_set(&err, -ENOMEM, "no memory for the picture of the machine");
	return cmd_fail(top->call, CMD_EXIT_FAILED, &err);
}

/* Past stdio, in which the rest of a text stays when nobody reads it. */
static int top_write(const char *text, size_t length, struct err *err)
{
	(void)signal(SIGPIPE, SIG_IGN);

	while (length > 0) {
		ssize_t count = write(STDOUT_FILENO, text, length);
		if (count < 0 && errno == EPIPE)
			return 0; /* it was shown as far as somebody looked */
		if (count < 0 && errno != EINTR)
			return err_set(err, -errno, "cannot write the output: %s",
				       err_describe(-errno));

		text += count > 0 ? count : 0;
		length -= count > 0 ? (size_t)count : 0;
	}

	return 0;
}

static int top_print_json(struct top *top, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);
	json_t *json = top_machine_json(top->machine, top->notice);
	int rc = stream ? table_print_json(json, stream, err)
			: err_set(err, -ENOMEM, "no memory for the output");

	json_decref(json);
	if (stream && fclose(stream) != 0 && rc == 0)
		rc = err_set(err, -ENOMEM, "no memory for the output");

	return rc < 0 ? rc : top_write(text, length, err);
}

static int top_print(struct top *top, struct err *err)
{
	_cleanup_buf_ struct buf lines;
	buf_init(&lines, TOP_BYTES_MAX);
	size_t width = table_width(stdout), first;
	const struct top_scene scene =
	    top_scene_of(top, width, 0, width > 0 && top_has_colour(), "");
	int rc = top_draw(&scene, &lines, &first, err);
	return rc < 0 ? rc : top_write(buf_text(&lines), lines.length, err);
}

static int top_once(struct top *top)
{
	struct err err = {.code = 0};
	int exit_code = top_ask(top);
	if (exit_code != 0)
		return exit_code;
	int rc = top->options->output == OPTION_OUTPUT_JSON ? top_print_json(top, &err)
							    : top_print(top, &err);
	return rc < 0 ? cmd_fail(top->call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

static void top_done(struct top *top)
{
	top_terminal_leave(&top->terminal);
	if (top->watch)
		wire_client_cancel(top->watch);
	top_probe_stop(top);
	top->keys = loop_fd_free(top->keys);
	top->again = loop_timer_free(top->again);
	top->later = loop_timer_free(top->later);

	for (size_t i = 0; i < array_length(top->signals); i++)
		top->signals[i] = loop_signal_free(top->signals[i]);

	agent_call_close(&top->agent);
	top->machine = top_machine_free(top->machine);
	for (size_t i = 0; i < top->user_count; i++)
		free(top->users[i].name);
}

static int run(const struct cmd_call *call)
{
	const struct top_options *options = call->options;
	_cleanup_(top_done) struct top top = {.call = call,
					      .options = options,
					      .how = {.socket = options->socket},
					      .agent = AGENT_CALL_NONE,
					      .terminal = {.in = -1, .out = -1}};
	struct err err = {.code = 0};

	top.agent.loop = loop_new(LOOP_REAL, &err);
	if (!top.agent.loop)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);
	if (options->once || options->output == OPTION_OUTPUT_JSON || top_is_dumb() ||
	    !isatty(STDOUT_FILENO))
		return top_once(&top);

	return top_live(&top);
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "it was shown, until q or Ctrl-C or until nobody looked any more"},
    {CMD_EXIT_UNAVAILABLE, "with --once: no service answers and there is no driver"},
    {CMD_EXIT_NOT_PERMITTED, "with --once: this user may use neither service nor driver"},
    {CMD_EXIT_DEADLINE, "with --once: the driver as a whole did not answer in time"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice top", "shows GPUs and jobs, and again each second"},
    {"sluice top --once", "prints them once"},
    {"sluice top --once --output json", "the same for programs"},
    {0},
};

const struct command cmd_top = {
    .name = "top",
    .summary = "Show the GPUs, who is on them, and the jobs, live",
    .description =
	"Utilisation, memory, power and temperature of each GPU, the processes on it with the jobs "
	"they belong to, and what runs, waits and has ended lately, each waiting job with its "
	"reason. What is shown of a process is what the driver reports, not what a job claims.\n\n"
	"Where no service runs, the GPUs and processes alone are shown, and that is said.",
    .group = CMD_GROUP_JOBS,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct top_options),
    .exits = exits,
    .examples = examples,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the probe for test_probe.py: prints each event as a line of JSON until its standard
 * input ends. With --cannot-kill a probe that hangs stays, as one in uninterruptible sleep does.
 *
 *   probe_watch PROGRAM CALL-TIMEOUT-MS PERIOD-MS RETRY-MS [--cannot-kill]
 */
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "hardware/snapshot.h"
#include "probe/client.h"

static int kill_nothing(pid_t pid, int signal_number)
{
	return 0;
}

static json_t *json_gpus(const struct probe_client *client)
{
	const struct inventory *inventory = probe_client_inventory(client);
	json_t *list = json_array();
	for (uint32_t i = 0; inventory && i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s}", "index",
						      (int)gpu->index, "uuid", gpu->uuid, "state",
						      gpu_state_to_string(gpu->state), "name",
						      gpu->name));
	}
	return list;
}

static json_t *json_values(const struct snapshot_gpu *gpu)
{
	json_t *values = json_object();
	for (uint32_t i = 0; i < SNAPSHOT_VALUE_COUNT; i++) {
		int64_t value;
		if (snapshot_get(gpu, i, &value))
			json_object_set_new(values, snapshot_value_to_string(i),
					    json_integer(value));
	}
	return values;
}

/* What is absent is null. */
static json_t *json_u64(uint64_t value)
{
	return value == SNAPSHOT_U64_ABSENT ? json_null() : json_integer((json_int_t)value);
}

static json_t *json_u32(uint32_t value)
{
	return value == SNAPSHOT_U32_ABSENT ? json_null() : json_integer(value);
}

static json_t *json_processes(const struct snapshot_gpu *gpu)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < gpu->process_count; i++) {
		const struct snapshot_process *process = &gpu->process[i];
		json_array_append_new(list,
				      json_pack("{s:i, s:i, s:o, s:o, s:o, s:o}", "pid",
						(int)process->pid, "type", (int)process->type, "gi",
						json_u32(process->gi), "ci", json_u32(process->ci),
						"memory_bytes", json_u64(process->memory_bytes),
						"util_sm", json_u32(process->util_sm)));
	}
	return list;
}

static json_t *json_migs(const struct snapshot_gpu *gpu)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < gpu->mig_count; i++) {
		const struct snapshot_mig *mig = &gpu->mig[i];
		json_t *activity = json_object();
		for (uint32_t k = 0; k < SNAPSHOT_ACTIVITY_COUNT; k++)
			json_object_set_new(activity, snapshot_activity_to_string(k),
					    json_u32(mig->activity[k]));
		json_array_append_new(
		    list, json_pack("{s:s, s:i, s:i, s:o, s:o, s:o}", "uuid", mig->uuid, "gi",
				    (int)mig->gi, "ci", (int)mig->ci, "memory_total",
				    json_u64(mig->memory_total), "memory_used",
				    json_u64(mig->memory_used), "activity", activity));
	}
	return list;
}

static json_t *json_errors(const struct probe_client *client)
{
	const struct snapshot *snapshot = probe_client_snapshot(client);
	json_t *list = json_array();
	for (uint32_t i = 0; snapshot && i < snapshot->error_count; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:i, s:I}", "call", snapshot->error[i].call,
						"code", snapshot->error[i].code, "count",
						(json_int_t)snapshot->error[i].count));
	return list;
}

static json_t *json_rounds(const struct probe_client *client)
{
	const struct snapshot *snapshot = probe_client_snapshot(client);
	json_t *object = json_object();
	static const char *const names[] = {"fast", "medium", "slow"};
	for (uint32_t i = 0; snapshot && i < SNAPSHOT_CLASS_COUNT; i++)
		json_object_set_new(object, names[i],
				    json_integer((json_int_t)snapshot->round_ns[i]));
	return object;
}

static json_t *json_samples(const struct probe_client *client)
{
	const struct snapshot *snapshot = probe_client_snapshot(client);
	json_t *list = json_array();
	for (uint32_t i = 0; snapshot && i < snapshot->gpu_count; i++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[i];
		int64_t power;
		json_t *sample = json_pack(
		    "{s:s, s:s, s:o}", "uuid", gpu->uuid, "state", gpu_state_to_string(gpu->state),
		    "power_mw",
		    snapshot_get(gpu, SNAPSHOT_POWER, &power) ? json_integer(power) : json_null());
		json_object_set_new(sample, "values", json_values(gpu));
		json_object_set_new(sample, "processes", json_processes(gpu));
		json_object_set_new(sample, "process_total", json_integer(gpu->process_total));
		json_object_set_new(sample, "mig", json_migs(gpu));
		json_array_append_new(list, sample);
	}
	return list;
}

static void print_event(const struct probe_client *client, const struct probe_event *event)
{
	uint32_t alive;
	uint32_t abandoned = probe_client_abandoned(client, &alive);
	json_t *line =
	    json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:i, s:i, s:i}", "event",
		      probe_event_kind_to_string(event->kind), "uuid", event->uuid, "bus",
		      event->bus, "text", event->text, "type", (json_int_t)event->type, "data",
		      (json_int_t)event->data, "history", event->history != 0, "abandoned",
		      (int)abandoned, "alive", (int)alive, "pid", (int)probe_client_pid(client));
	if (event->kind == PROBE_EVENT_INVENTORY)
		json_object_set_new(line, "gpus", json_gpus(client));
	if (event->kind == PROBE_EVENT_SNAPSHOT) {
		json_object_set_new(line, "samples", json_samples(client));
		json_object_set_new(line, "errors", json_errors(client));
		json_object_set_new(line, "round_ns", json_rounds(client));
	}
	json_object_set_new(line, "source", json_integer(event->source));
	json_object_set_new(line, "time_ns", json_integer((json_int_t)event->time_ns));
	char *text = json_dumps(line, JSON_COMPACT);
	puts(text ? text : "{}");
	fflush(stdout);
	json_decref(line);
	free(text);
}

int main(int argc, char **argv)
{
	uint64_t call_ms, period_ms, retry_ms;
	if (argc < 5 || parse_u64(argv[2], 1, 100000, &call_ms) < 0 ||
	    parse_u64(argv[3], 1, 100000, &period_ms) < 0 ||
	    parse_u64(argv[4], 1, 1000000, &retry_ms) < 0)
		return 64;
	const struct probe_options options = {
	    .program = argv[1],
	    .call_timeout_ns = call_ms * 1000000,
	    .init_timeout_ns = call_ms * 1000000,
	    .period_ns = period_ms * 1000000,
	    .retry_ns = retry_ms * 1000000,
	    .kernel_log = true,
	    .kill_fn = argc > 5 && strcmp(argv[5], "--cannot-kill") == 0 ? kill_nothing : NULL,
	};
	struct err err = {.code = 0};
	_cleanup_probe_client_ struct probe_client *client = NULL;
	if (probe_client_start(&options, &client, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (;;) {
		struct pollfd fds[] = {{.fd = probe_client_fd(client), .events = POLLIN},
				       {.fd = STDIN_FILENO, .events = POLLIN}};
		(void)poll(fds, 2, 1000);
		if (fds[1].revents)
			return 0;
		struct probe_event event;
		int rc;
		while ((rc = probe_client_next(client, &event, &err)) == 1)
			print_event(client, &event);
		if (rc < 0)
			fprintf(stderr, "%s\n", err.text);
	}
}

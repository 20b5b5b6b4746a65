/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/service/agent_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cmd/service/agent_rdma.h"
#include "cmd/cmd.h"
#include "cmd/table.h"
#include "sluice.pb-c.h"

enum { STATUS_TIME_MAX = 32 };

static void status_line(const char *name, const char *text)
{
	printf("%-15s", name);
	cmd_print(stdout, *text ? text : "-");
	putchar('\n');
}

static void status_time(const char *name, int64_t unix_ns)
{
	char text[STATUS_TIME_MAX] = "";
	time_t seconds = (time_t)(unix_ns / (int64_t)CLOCK_NS_PER_S);
	struct tm local;
	if (localtime_r(&seconds, &local))
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
	status_line(name, text);
}

static void status_print_kubelet(const Sluice__V1__StatusReply *reply)
{
	if (!*reply->kubelet_socket)
		return;

	status_line("kubelet", reply->kubelet_socket);

	for (size_t i = 0; i < reply->n_kubelet; i++) {
		const Sluice__V1__KubeletResource *resource = reply->kubelet[i];

		printf("%-15s", "");
		cmd_print(stdout, resource->name);
		printf(": %s, %" PRIu32 " of %" PRIu32 " devices healthy, %" PRIu64 " allocations",
		       resource->state, resource->healthy, resource->devices,
		       resource->allocations);

		if (resource->refused > 0)
			printf(", %" PRIu64 " refused", resource->refused);
		putchar('\n');
		if (*resource->problem)
			status_line("", resource->problem);
	}

	if (reply->n_kubelet == 0)
		status_line("", "no devices for it");
	printf("%-15s%s: ", "injection", reply->injection);
	cmd_print(stdout, reply->injection_reason);
	putchar('\n');
}

static void status_print_door(const char *name, const char *state, const char *reason)
{
	if (!*state)
		return; /* an older agent */

	printf("%-15s%s", name, state);
	if (*reason) {
		printf(": ");
		cmd_print(stdout, reason);
	}

	putchar('\n');
}

static void status_print_validations(const Sluice__V1__StatusReply *reply)
{
	status_print_door("validations", reply->validations, reply->validations_reason);

	for (size_t i = 0; i < reply->n_validation; i++) {
		const Sluice__V1__Validation *one = reply->validation[i];
		printf("%-15s%s%s%s", "", one->name, one->is_ready ? "" : " is not there",
		       *one->reason ? ": " : "");
		cmd_print(stdout, one->reason);
		putchar('\n');
	}
}

static void status_print_web(const Sluice__V1__Web *web)
{
	if (!web)
		return; /* an older agent */

	printf("%-15s", "page, metrics");
	if (strcmp(web->address, "off") == 0) {
		printf("off\n");
		return;
	}

	cmd_print(stdout, web->address);
	if (web->pid > 0)
		printf(", process %" PRIu32, web->pid);
	if (web->restarts > 0)
		printf(", %" PRIu64 " restarts", web->restarts);
	if (web->pid == 0 && *web->problem)
		printf(", not served");
	printf("%s\n", web->token ? ", with a token" : "");

	if (*web->problem)
		status_line("", web->problem);
}

void agent_status_print(const Sluice__V1__StatusReply *reply)
{
	printf("%-15s%s, process %" PRIu32 "\n", "agent", reply->version, reply->pid);
	status_time("since", reply->started_unix_ns);
	status_line("state", reply->state_directory);
	status_line("runtime", reply->runtime_directory);
	status_line("configuration", *reply->configuration ? reply->configuration : "built in");

	if (*reply->configuration_name)
		status_line("chosen", reply->configuration_name);
	status_time("read", reply->configured_unix_ns);

	if (*reply->configuration_missing) {
		printf("%-15sspecified config ", "missing");
		cmd_print(stdout, reply->configuration_missing);
		printf(" does not exist\n");
	}

	if (*reply->configuration_error)
		status_line("refused", reply->configuration_error);

	if (*reply->driver_error)
		status_line("GPUs", reply->driver_error);
	else
		printf("%-15s%" PRIu32 "%s, driver %s\n", "GPUs", reply->gpus,
		       reply->simulated ? " simulated" : "", reply->driver);

	printf("%-15s%" PRIu64 " running, %" PRIu64 " waiting\n", "jobs", reply->running,
	       reply->pending);
	status_print_kubelet(reply);
	status_print_door("CDI", reply->cdi, reply->cdi_reason);
	status_print_door("labels", reply->labels, reply->labels_reason);
	agent_rdma_print(reply);
	status_print_validations(reply);
	status_print_web(reply->web);

	if (*reply->kubernetes_error)
		status_line("Kubernetes", reply->kubernetes_error);
	if (*reply->storage_error)
		status_line("disk", reply->storage_error);

	for (size_t i = 0; i < reply->n_processes; i++) {
		printf("%-15s%" PRIu32 " ", i == 0 ? "processes" : "", reply->processes[i]->pid);
		cmd_print(stdout, reply->processes[i]->role);
		putchar('\n');
	}

	for (size_t i = 0; i < reply->n_warnings; i++)
		status_line(i == 0 ? "warnings" : "", reply->warnings[i]);
}

static json_t *status_text(const char *text)
{
	return *text ? table_json_text(text) : json_null();
}

static json_t *status_json_kubelet(const Sluice__V1__StatusReply *reply)
{
	json_t *resources = json_array();

	if (!*reply->kubelet_socket) {
		json_decref(resources);
		return json_null();
	}

	for (size_t i = 0; i < reply->n_kubelet; i++) {
		const Sluice__V1__KubeletResource *resource = reply->kubelet[i];
		(void)json_array_append_new(
		    resources, json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I}", "name",
					 table_json_text(resource->name), "endpoint",
					 table_json_text(resource->endpoint), "state",
					 table_json_text(resource->state), "problem",
					 status_text(resource->problem), "devices",
					 (json_int_t)resource->devices, "healthy",
					 (json_int_t)resource->healthy, "registrations",
					 (json_int_t)resource->registrations, "allocations",
					 (json_int_t)resource->allocations, "refused",
					 (json_int_t)resource->refused));
	}

	return json_pack("{s:o, s:o, s:o, s:o}", "socket", table_json_text(reply->kubelet_socket),
			 "resources", resources, "injection", table_json_text(reply->injection),
			 "injection_reason", table_json_text(reply->injection_reason));
}

static json_t *status_json_validations(const Sluice__V1__StatusReply *reply)
{
	json_t *files = json_array();
	for (size_t i = 0; i < reply->n_validation; i++) {
		const Sluice__V1__Validation *one = reply->validation[i];
		(void)json_array_append_new(
		    files, json_pack("{s:o, s:b, s:o}", "name", table_json_text(one->name), "ready",
				     (int)one->is_ready, "reason", status_text(one->reason)));
	}

	return files;
}

static json_t *status_json_web(const Sluice__V1__Web *web)
{
	if (!web)
		return json_null(); /* an older agent */
	return json_pack("{s:o, s:o, s:I, s:o, s:b}", "address", table_json_text(web->address),
			 "pid", web->pid > 0 ? json_integer((json_int_t)web->pid) : json_null(),
			 "restarts", (json_int_t)web->restarts, "problem",
			 status_text(web->problem), "token", (int)web->token);
}

json_t *agent_status_json(const Sluice__V1__StatusReply *reply)
{
	json_t *processes = json_array(), *warnings = json_array();
	for (size_t i = 0; i < reply->n_processes; i++)
		(void)json_array_append_new(processes,
					    json_pack("{s:o, s:I}", "role",
						      table_json_text(reply->processes[i]->role),
						      "pid", (json_int_t)reply->processes[i]->pid));

	for (size_t i = 0; i < reply->n_warnings; i++)
		(void)json_array_append_new(warnings, table_json_text(reply->warnings[i]));

	return json_pack(
	    "{s:o, s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:I, s:I, s:I, s:o, "
	    "s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
	    "version", table_json_text(reply->version), "pid", (json_int_t)reply->pid,
	    "started_unix_ns", (json_int_t)reply->started_unix_ns, "state_directory",
	    table_json_text(reply->state_directory), "runtime_directory",
	    table_json_text(reply->runtime_directory), "configuration",
	    status_text(reply->configuration), "configured_unix_ns",
	    (json_int_t)reply->configured_unix_ns, "configuration_error",
	    status_text(reply->configuration_error), "configuration_name",
	    status_text(reply->configuration_name), "configuration_missing",
	    status_text(reply->configuration_missing), "driver", status_text(reply->driver),
	    "driver_error", status_text(reply->driver_error), "simulated", (int)reply->simulated,
	    "gpus", (json_int_t)reply->gpus, "pending", (json_int_t)reply->pending, "running",
	    (json_int_t)reply->running, "storage_error", status_text(reply->storage_error),
	    "kubernetes_error", status_text(reply->kubernetes_error), "processes", processes,
	    "warnings", warnings, "kubelet", status_json_kubelet(reply), "cdi",
	    json_pack("{s:o, s:o}", "state", table_json_text(reply->cdi), "reason",
		      status_text(reply->cdi_reason)),
	    "labels",
	    json_pack("{s:o, s:o}", "state", table_json_text(reply->labels), "reason",
		      status_text(reply->labels_reason)),
	    "rdma", agent_rdma_json(reply), "validations",
	    json_pack("{s:o, s:o, s:o}", "state", table_json_text(reply->validations), "reason",
		      status_text(reply->validations_reason), "files",
		      status_json_validations(reply)),
	    "web", status_json_web(reply->web));
}

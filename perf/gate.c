/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/gate.h"

#include <getopt.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "perf/pingpong.h"

enum gate_limits {
	GATE_SAMPLES_PRINTED_MAX = 10000, /* per gate, in JSON */
};

struct gate_report {
	const char *program;
	bool simulated, json, missed;
	struct pingpong ping;
	json_t *gates, *notes; /* owned */
	char host[256];
};

uint64_t gate_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int gate_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return (left > right) - (left < right);
}

double gate_quantile(uint64_t *samples, size_t count, double q)
{
	if (count == 0)
		return 0;
	qsort(samples, count, sizeof(*samples), gate_compare);
	size_t rank = (size_t)(q * (double)count);
	return (double)samples[rank < count ? rank : count - 1];
}

static void gate_out_of_memory(void)
{
	(void)fprintf(stderr, "bench: out of memory\n");
	exit(1);
}

static void gate_usage(const char *program, const char *summary)
{
	(void)printf("usage: %s [--output text|json]\n\n%s\n\n"
		     "Exit status: 0 all gates hold, 1 a gate is missed, 64 wrong usage.\n",
		     program, summary);
}

struct gate_report *gate_open(int argc, char **argv, const char *program, const char *summary,
			      bool simulated, int *out_rest)
{
	static const struct option options[] = {
	    {"output", required_argument, NULL, 'o'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
		if (option == 'h') {
			gate_usage(program, summary);
			exit(0);
		}

		bool known =
		    option == 'o' && (strcmp(optarg, "json") == 0 || strcmp(optarg, "text") == 0);
		if (!known) {
			(void)fprintf(stderr, "%s: --output takes text or json; see --help\n",
				      program);
			exit(64);
		}

		json = strcmp(optarg, "json") == 0;
	}

	if (out_rest) {
		*out_rest = optind;
	} else if (optind < argc) {
		(void)fprintf(stderr, "%s: unexpected argument '%s'; see --help\n", program,
			      argv[optind]);
		exit(64);
	}

	struct gate_report *report = calloc(1, sizeof(*report));
	if (!report || !(report->gates = json_array()) || !(report->notes = json_array()))
		gate_out_of_memory();
	report->program = program;
	report->simulated = simulated;
	report->json = json;
	(void)pingpong_measure(PINGPONG_COUNT, &report->ping); /* else no allowance */

	struct utsname host;
	if (uname(&host) == 0)
		(void)snprintf(report->host, sizeof(report->host), "%s %s, %ld cores", host.machine,
			       host.release, sysconf(_SC_NPROCESSORS_ONLN));

	return report;
}

static void gate_add(struct gate_report *report, const char *name, double value, const char *unit,
		     enum gate_sense sense, double limit, double allowed, json_t *samples)
{
	bool ok = sense == GATE_AT_MOST ? value <= allowed : value >= allowed;
	if (!ok)
		report->missed = true;

	json_t *gate =
	    json_pack("{s:s, s:f, s:s, s:s, s:f, s:f, s:b, s:b}", "name", name, "value", value,
		      "unit", unit, "sense", sense == GATE_AT_MOST ? "<=" : ">=", "limit", limit,
		      "allowed", allowed, "ok", ok, "simulated", report->simulated);
	if (!gate || (samples && json_object_set_new(gate, "samples_ns", samples) < 0) ||
	    json_array_append_new(report->gates, gate) < 0)
		gate_out_of_memory();
}

void gate_time(struct gate_report *report, const char *name, double value_ns, const char *unit,
	       double limit, const uint64_t *samples_ns, size_t sample_count)
{
	double scale = strcmp(unit, "ms") == 0 ? 1e6 : strcmp(unit, "us") == 0 ? 1e3 : 1;
	json_t *samples = samples_ns ? json_array() : NULL;
	for (size_t i = 0; samples && i < sample_count && i < GATE_SAMPLES_PRINTED_MAX; i++)
		(void)json_array_append_new(samples, json_integer((json_int_t)samples_ns[i]));
	gate_add(report, name, value_ns / scale, unit, GATE_AT_MOST, limit,
		 limit * report->ping.noise, samples);
}

void gate_value(struct gate_report *report, const char *name, double value, const char *unit,
		enum gate_sense sense, double limit)
{
	gate_add(report, name, value, unit, sense, limit, limit, NULL);
}

void gate_parts(struct gate_report *report, const struct gate_part *parts, size_t count,
		const char *only)
{
	for (size_t i = 0; i < count; i++)
		if (!only || strcmp(only, parts[i].name) == 0)
			parts[i].measure(report);
}

void gate_note(struct gate_report *report, const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (json_array_append_new(report->notes, json_string(text)) < 0)
		gate_out_of_memory();
}

static void gate_print_text(const struct gate_report *report)
{
	const char *simulated = report->simulated ? " simulated" : "";
	size_t i;
	json_t *entry;

	json_array_foreach(report->notes, i, entry)

	{
		(void)printf("%s\n", json_string_value(entry));
	}

	(void)printf(
	    "machine: %s; socket ping-pong %.1f us (99 %% below %.1f us), quiet %.1f us: times "
	    "may be %.2f times their limit\n",
	    report->host, report->ping.median_ns / 1e3, report->ping.p99_ns / 1e3,
	    PINGPONG_QUIET_NS / 1e3, report->ping.noise);

	json_array_foreach(report->gates, i, entry)

	{
		const char *name, *unit, *sense;
		double value, limit, allowed;
		int ok;

		if (json_unpack(entry, "{s:s, s:F, s:s, s:s, s:F, s:F, s:b}", "name", &name,
				"value", &value, "unit", &unit, "sense", &sense, "limit", &limit,
				"allowed", &allowed, "ok", &ok) < 0)
			continue;

		(void)printf("gate %s %.6g %s %s %.6g %s%s", name, value, unit, sense, limit,
			     ok ? "ok" : "miss", simulated);
		bool used_allowance = ok && value > limit && allowed > limit;
		(void)printf(used_allowance ? " (within %.6g for this noise)\n" : "\n", allowed);
	}
}

int gate_close(struct gate_report *report)
{
	int status = report->missed ? 1 : 0;

	if (report->json) {
		json_t *root = json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:O, s:O}", "program",
					 report->program, "machine", report->host, "simulated",
					 report->simulated, "ping_ns", report->ping.median_ns,
					 "ping_p99_ns", report->ping.p99_ns, "ping_quiet_ns",
					 (double)PINGPONG_QUIET_NS, "noise", report->ping.noise,
					 "notes", report->notes, "gates", report->gates);
		if (!root || json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) < 0)
			gate_out_of_memory();
		(void)printf("\n");
		json_decref(root);
	} else {
		gate_print_text(report);
	}

	json_decref(report->gates);
	json_decref(report->notes);
	free(report);

	if (fflush(stdout) != 0)
		status = 1;

	return status;
}

int gate_main(int argc, char **argv, const char *program, const char *summary,
	      const struct gate_part *parts, size_t count)
{
	int rest = argc;
	struct gate_report *report = gate_open(argc, argv, program, summary, true, &rest);

	gate_parts(report, parts, count, rest < argc ? argv[rest] : NULL);
	return gate_close(report);
}

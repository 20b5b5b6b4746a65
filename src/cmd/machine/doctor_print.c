/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/machine/doctor_print.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/table.h"
#include "doctor/doctor.h"

static const char *const colour_of[DOCTOR_STATUS_COUNT] = {
    [DOCTOR_OK] = "\x1b[32m",	[DOCTOR_INFO] = "\x1b[36m",    [DOCTOR_WARN] = "\x1b[33m",
    [DOCTOR_FAIL] = "\x1b[31m", [DOCTOR_UNKNOWN] = "\x1b[35m", [DOCTOR_SKIP] = "\x1b[2m",
};

static const char *const plural_of[DOCTOR_STATUS_COUNT] = {
    [DOCTOR_OK] = "ok",		[DOCTOR_INFO] = "to know",	[DOCTOR_WARN] = "warnings",
    [DOCTOR_FAIL] = "failures", [DOCTOR_UNKNOWN] = "not known", [DOCTOR_SKIP] = "skipped",
};

/* "8 simulated NVIDIA GPUs, driver 580.105.08, kernel 6.1.0-28-amd64, Debian GNU/Linux 12" */
static void print_headline(const struct doctor *doctor, FILE *out)
{
	const struct doctor_facts *facts = &doctor->facts;
	fprintf(out, "%u%s NVIDIA GPU%s", facts->gpu_count,
		doctor->options.is_simulated ? " simulated" : "", facts->gpu_count == 1 ? "" : "s");
	const struct {
		const char *before, *text;
	} part[] = {{"driver ", facts->module_version},
		    {"kernel ", facts->kernel},
		    {"", facts->os_name},
		    {"below ", doctor->rootfs.path}};

	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		if (part[i].text[0] == '\0')
			continue;
		fprintf(out, ", %s", part[i].before);
		cmd_print(out, part[i].text);
	}

	fputc('\n', out);
}

/* The lines of a text, the first one behind a word. */
static void print_part(FILE *out, const char *word, const char *text)
{
	while (text && *text) {
		size_t length = strcspn(text, "\n");
		char line[DOCTOR_DO_MAX];

		(void)snprintf(line, sizeof(line), "%.*s", (int)length, text);
		fprintf(out, "    %-4s ", word);
		cmd_print(out, line);
		fputc('\n', out);
		word = "";
		text += length + (text[length] == '\n');
	}
}

static void print_finding(const struct doctor_finding *finding, bool colours, FILE *out)
{
	enum doctor_status status = finding->status;
	fprintf(out, "%s%-7s%s %s", colours ? colour_of[status] : "",
		doctor_status_to_string(status), colours ? "\x1b[0m" : "", finding->id);

	if (finding->object[0] != '\0') {
		fputs("  ", out);
		cmd_print(out, finding->object);
	}

	fputs(": ", out);
	if (status != DOCTOR_SKIP && finding->object[0] != '\0')
		fputs("found ", out);
	cmd_print(out, finding->found);

	if (finding->need[0] != '\0') {
		fputs(", need ", out);
		cmd_print(out, finding->need);
	}

	fputc('\n', out);
	if (status == DOCTOR_OK || status == DOCTOR_SKIP)
		return;

	print_part(out, "do", finding->do_);
	if (status == DOCTOR_WARN || status == DOCTOR_FAIL) {
		print_part(out, "why", finding->why);
		print_part(out, "see", finding->url);
	}
}

static bool is_folded(enum doctor_status status)
{
	return status == DOCTOR_OK || status == DOCTOR_SKIP;
}

/* Whether two ids have the same word before their dot. */
static bool same_group(const char *a, const char *b)
{
	size_t length = strcspn(a, ".");
	return length == strcspn(b, ".") && strncmp(a, b, length) == 0;
}

static void print_sum(const struct doctor *doctor, bool all, FILE *out)
{
	static const enum doctor_status order[] = {DOCTOR_FAIL, DOCTOR_WARN, DOCTOR_UNKNOWN,
						   DOCTOR_INFO, DOCTOR_OK,   DOCTOR_SKIP};
	bool is_first = true, folds = false;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		uint32_t total = doctor_total(doctor, order[i]);
		bool always = order[i] == DOCTOR_FAIL || order[i] == DOCTOR_WARN;

		folds |= total > 0 && is_folded(order[i]);
		if (total == 0 && !always)
			continue;

		const char *word = plural_of[order[i]];
		size_t length = strlen(word) - (total == 1 && always);

		fprintf(out, "%s%u %.*s", is_first ? "" : ", ", total, (int)length, word);
		is_first = false;
	}

	if (doctor->lost > 0)
		fprintf(out, ", %u not shown", doctor->lost);
	fputs(folds && !all ? " (--all shows each)\n" : "\n", out);
}

void doctor_print_text(const struct doctor *doctor, bool all, bool colours, FILE *out)
{
	const char *before = NULL;

	print_headline(doctor, out);

	for (uint32_t i = 0; i < doctor->count; i++) {
		const struct doctor_finding *finding = &doctor->findings[i];
		/* Without any GPU the reason is all that there is to say. */
		bool is_reason = i == 0 && finding->status == DOCTOR_SKIP;

		if (is_folded(finding->status) && !all && !is_reason)
			continue;
		if (!before || !same_group(before, finding->id))
			fputc('\n', out);
		before = finding->id;
		print_finding(finding, colours, out);
	}

	fputc('\n', out);
	print_sum(doctor, all, out);
}

static json_t *text_or_null(const char *text)
{
	return table_json_text(text && *text ? text : NULL);
}

static json_t *json_finding(const struct doctor_finding *finding)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "id", finding->id, "status",
			 doctor_status_to_string(finding->status), "object",
			 text_or_null(finding->object), "found", text_or_null(finding->found),
			 "need", text_or_null(finding->need), "do", text_or_null(finding->do_),
			 "why", text_or_null(finding->why), "url", text_or_null(finding->url));
}

int doctor_print_json(const struct doctor *doctor, FILE *out, struct err *err)
{
	const struct doctor_facts *facts = &doctor->facts;
	json_t *findings = json_array(), *totals = json_object();
	for (uint32_t i = 0; i < doctor->count; i++)
		(void)json_array_append_new(findings, json_finding(&doctor->findings[i]));

	for (int i = 0; i < DOCTOR_STATUS_COUNT; i++)
		(void)json_object_set_new(
		    totals, doctor_status_to_string((enum doctor_status)i),
		    json_integer(doctor_total(doctor, (enum doctor_status)i)));

	json_t *root =
	    json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "simulated",
		      doctor->options.is_simulated, "root", text_or_null(doctor->rootfs.path),
		      "kernel", text_or_null(facts->kernel), "system", text_or_null(facts->os_name),
		      "driver_version", text_or_null(facts->module_version), "driver_root",
		      text_or_null(facts->module_version[0] == '\0' ? NULL
				   : facts->driver_root[0]	    ? facts->driver_root
								    : "/"),
		      "gpus", json_integer(facts->gpu_count), "lost", (json_int_t)doctor->lost,
		      "totals", totals, "findings", findings);
	int rc = table_print_json(root, out, err);

	json_decref(root);
	return rc;
}

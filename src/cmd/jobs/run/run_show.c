/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked for, as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "cmd/jobs/run/run_job.h"
#include "job/schema.h"

static void show_list(struct jsonw *json, const char *key, const ProtobufCBinaryData *list,
		      size_t count)
{
	if (count == 0)
		return;
	jsonw_array(json, key);
	for (size_t i = 0; i < count; i++)
		jsonw_text(json, NULL, (const char *)list[i].data); /* ours end in NUL */
	jsonw_end_array(json);
}

static void show_flag(struct jsonw *json, const char *key, bool value)
{
	if (value)
		jsonw_bool(json, key, true);
}

static void show_number(struct jsonw *json, const char *key, uint64_t value)
{
	if (value)
		jsonw_u64(json, key, value);
}

/* What is not zero, as texts. */
static void show_wants(struct jsonw *json, const struct wants *wants)
{
	bool is_open = false;

	for (size_t i = 0; i < schema_wants_count; i++) {
		const struct form_field *field = &schema_wants[i];
		const char *text = form_string(field, wants);
		uint64_t number = form_number(field, wants);
		char digits[24];

		if (!text && number == 0)
			continue;

		(void)snprintf(digits, sizeof(digits),
			       field->kind == FORM_I32 ? "%" PRId64 : "%" PRIu64,
			       number); /* 20 characters at most */
		if (!is_open)
			jsonw_object(json, "wants");
		is_open = true;
		jsonw_text(json, field->name, text ? text : digits);
	}

	if (is_open)
		jsonw_end_object(json);
}

int run_job_show(const struct run_request *request, struct buf *out)
{
	const Sluice__V1__JobSpec *spec = &request->spec;
	struct jsonw json;
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "name", spec->name);
	show_list(&json, "argv", spec->argv, spec->n_argv);
	jsonw_word(&json, "image", spec->image);
	show_number(&json, "entrypoint", spec->entrypoint);
	jsonw_word(&json, "pull", spec->pull);
	jsonw_word(&json, "workdir", spec->workdir);
	show_list(&json, "env", spec->image_environment, spec->n_image_environment);
	show_list(&json, "volumes", spec->volumes, spec->n_volumes);
	show_list(&json, "tmpfs", spec->tmpfs, spec->n_tmpfs);
	jsonw_word(&json, "runAs", spec->run_as);

	show_flag(&json, "memlock", spec->memlock);
	show_flag(&json, "privileged", spec->privileged);
	jsonw_u64(&json, "gpus", spec->gpus);
	jsonw_word(&json, "gpuIds", spec->gpu_ids);
	show_number(&json, "shareNumerator", spec->share_numerator);
	show_number(&json, "shareDenominator", spec->share_denominator);
	jsonw_word(&json, "resources", spec->resources);
	show_number(&json, "graceNs", spec->grace_ns);
	show_number(&json, "deadlineNs", spec->deadline_ns);
	jsonw_word(&json, "workerImage", spec->worker_image);
	show_list(&json, "workerEnv", spec->worker_environment, spec->n_worker_environment);
	show_wants(&json, &request->wants);
	jsonw_end_object(&json);

	return json.rc;
}

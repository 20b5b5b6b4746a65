/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run_wants.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "cmd/run_options.h"
#include "doors/queue/wants.h"

_Static_assert((int)RUN_PRIORITY_MAX == (int)WANTS_PRIORITY_MAX, "the two mean the same");

/* A text of the command line as one of the wants; NULL stays NULL. */
static int run_wants_set(const char *option, const char *text, size_t max, char **out,
			 struct err *err)
{
	if (!text)
		return 0;
	if (!*text)
		return err_set(err, -EINVAL, "--%s is empty", option);
	if (strnlen(text, max) == max)
		return err_set(err, -EINVAL, "--%s is longer than %zu bytes", option, max - 1);
	*out = strdup(text);
	return *out ? 0 : err_set(err, -ENOMEM, "no memory for --%s", option);
}

static int run_wants_machine(const struct run_options *options, struct wants *out, struct err *err)
{
	static const uint32_t outsiders[] = {WANTS_OUTSIDERS_WAIT, WANTS_OUTSIDERS_IGNORE,
					     WANTS_OUTSIDERS_SHARE};
	out->priority = (int32_t)options->priority; /* the table has checked it */
	out->mem_bytes = options->mem_bytes;
	out->gpu_memory_bytes = options->gpu_memory_bytes;
	out->cpu_milli = (uint32_t)(options->cpus * 1000 + 0.5);
	if (options->cpus > 0 && out->cpu_milli == 0)
		return err_set(err, -EINVAL, "--cpus: the least is 0.001");
	if (options->busy_outsiders != RUN_OUTSIDERS_NOT_GIVEN)
		out->outsiders = outsiders[options->busy_outsiders];
	int rc = run_wants_set("prefer", options->prefer, WANTS_LIST_MAX, &out->prefer, err);
	if (rc == 0)
		rc = run_wants_set("gpu-type", options->gpu_type, WANTS_NAME_MAX, &out->gpu_type,
				   err);
	return rc;
}

int run_wants_make(const struct run_options *options, struct wants *out, struct err *err)
{
	wants_init(out);
	int rc = run_wants_machine(options, out, err);
	return rc < 0 ? rc : wants_check(out, err);
}

int run_wants_text(const struct run_options *options, char **out, struct err *err)
{
	struct wants wants;
	struct buf text;
	buf_init(&text, WANTS_TEXT_MAX);
	int rc = run_wants_make(options, &wants, err);
	if (rc == 0 && wants_format(&wants, &text) < 0)
		rc = err_set(err, -ENOMEM, "no memory for what the job wants");
	wants_done(&wants);
	if (rc == 0 && text.length > 0 && !(*out = buf_take(&text)))
		rc = err_set(err, -ENOMEM, "no memory for what the job wants");
	buf_done(&text);
	return rc == -E2BIG ? -EINVAL : rc;
}

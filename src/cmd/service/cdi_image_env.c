/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice cdi check --image-env`: whether driver and GPUs are what an image requires. */
#include "cmd/service/cdi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/machine/devices_select.h"
#include "cmd/machine/machine.h"
#include "cdi/oci.h"
#include "cdi/require.h"

enum { IMAGE_UNKNOWN_MAX = 4096 };

static int image_read(const char *path, json_t **out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, OCI_TEXT_MAX);
	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;
	rc = require_env_parse(buf_text(&text), text.length, out, err);
	return rc < 0 ? err_wrap(err, "reading '%s'", path) : 0;
}

/* The GPUs that the arguments name, with a kind or without; all without arguments. */
static int image_select(const struct cmd_call *call, const struct inventory *inventory,
			struct devices_select *out, struct err *err)
{
	const char *all = "all";
	int rc = call->argc == 0 ? devices_select(inventory, &all, 1, out, err) : 0;
	for (int i = 0; i < call->argc; i++) {
		const char *equals = strchr(call->argv[i], '=');
		call->argv[i] += equals ? equals + 1 - call->argv[i] : 0;
	}

	if (call->argc > 0)
		rc = devices_select(inventory, (const char *const *)call->argv, (size_t)call->argc,
				    out, err);

	return rc;
}

static void image_print(const struct gpu *gpu, bool is_met, const struct err *why)
{
	if (gpu)
		printf("%s%u: ", gpu_uuid_is_simulated(gpu->uuid) ? "simulated GPU " : "GPU ",
		       (unsigned)gpu->index);
	cmd_print(stdout, is_met ? "met" : why->text);
	putchar('\n');
}

/* 0, 1: not met; -errno. */
static int image_check(const json_t *env, const struct inventory *inventory,
		       const struct devices_select *selected, struct buf *unknown, struct err *err)
{
	int code = 0;

	/* Without any GPU what is required of driver and CUDA is compared. */
	for (uint32_t i = 0; i < selected->gpu_count || (i == 0 && selected->gpu_count == 0); i++) {
		const struct gpu *gpu =
		    selected->gpu_count > 0 ? &inventory->gpus[selected->gpus[i]] : NULL;
		struct require_facts facts;
		struct err why = {0};
		bool is_met = true;

		require_facts_of(inventory, gpu, &facts);
		int rc = require_env(env, &facts, &is_met, &why, i == 0 ? unknown : NULL, err);
		if (rc < 0)
			return rc;

		image_print(gpu, is_met, &why);
		code = is_met ? code : 1;
	}

	return code;
}

int cdi_image_env(const struct cmd_call *call, const char *path, uint64_t timeout_ns)
{
	struct err err = {0};
	json_auto_t *env = NULL;

	if (image_read(path, &env, &err) < 0)
		return cmd_fail(call, CDI_EXIT_UNREADABLE, &err);

	_cleanup_machine_ struct machine machine = {.snapshot = NULL};
	if (machine_read(call, timeout_ns, &machine, NULL, NULL) != 0)
		return CDI_EXIT_UNREADABLE;

	struct devices_select selected = {.all = false};
	_cleanup_buf_ struct buf unknown;

	buf_init(&unknown, IMAGE_UNKNOWN_MAX);
	int rc = image_select(call, &machine.inventory, &selected, &err);
	if (rc == -ENODEV)
		return cmd_fail(call, CDI_EXIT_STALE, &err);
	if (rc == 0)
		rc = image_check(env, &machine.inventory, &selected, &unknown, &err);

	for (const char *at = buf_text(&unknown); *at; at += strcspn(at, "\n") + 1) {
		struct err note = {0};
		(void)err_set(&note, -EINVAL, "left out: '%.*s' is of a property that is not known",
			      (int)strcspn(at, "\n"), at);
		(void)cmd_fail(call, 0, &note);
	}

	return rc < 0 ? cmd_fail(call, CDI_EXIT_UNREADABLE, &err) : rc > 0 ? CDI_EXIT_STALE : 0;
}

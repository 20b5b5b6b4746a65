/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/surroundings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "hardware/gpu.h"
#include "hardware/minors.h"
#include "policy/config.h"

static uint32_t surroundings_control(const char *root)
{
	uint32_t found = 0;
	for (uint32_t bit = RESOURCE_NVIDIACTL; bit <= RESOURCE_MODESET; bit <<= 1) {
		char path[FILE_PATH_MAX];
		const char *node = resource_control_path((enum resource_control)bit);
		if (node && file_path(path, NULL, "%s%s", root, node) == 0 && file_exists(path))
			found |= bit;
	}

	return found;
}

/* Nodes of a simulated machine may be plain files: not everybody may make others. */
static bool surroundings_is_device(const char *path, bool simulated)
{
	struct stat info;
	return stat(path, &info) == 0 &&
	       (S_ISCHR(info.st_mode) || (simulated && S_ISREG(info.st_mode)));
}

/* Below the device root of the configuration, then in /. */
static void surroundings_imex(const char *root, const struct config *config,
			      const struct inventory *inventory, struct surroundings *out)
{
	const char *dev_root =
	    config->dev_root && config->dev_root[0] ? config->dev_root : config->driver_root;
	const char *const before[] = {dev_root ? dev_root : "", ""};
	if (!config->imex_channel)
		return;

	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
		char path[FILE_PATH_MAX];
		size_t length = strlen(before[i]);
		while (length > 0 && before[i][length - 1] == '/')
			length--;

		if (file_path(out->imex, NULL, "%.*s" SURROUNDINGS_IMEX_PATH, (int)length,
			      before[i]) == 0 &&
		    file_path(path, NULL, "%s%s", root, out->imex) == 0 &&
		    surroundings_is_device(path, inventory->simulated)) {
			out->resource.imex_host_path = out->imex;
			return;
		}
	}

	(void)snprintf(config->imex_required ? out->problem : out->warning, RESOURCE_REASON_MAX,
		       "the IMEX channel '" SURROUNDINGS_IMEX_PATH
		       "' is no device: is nvidia-imex running?");
}

static int surroundings_minors(const char *root, const struct inventory *inventory,
			       struct surroundings *out, struct err *err)
{
	char path[FILE_PATH_MAX];
	struct err why = {0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, MINORS_SIZE_MAX);
	if (inventory->mig_count == 0)
		return 0;

	int rc = file_path(path, &why, "%s" MINORS_PATH, root);
	if (rc == 0)
		rc = file_read(path, &text, &why);
	if (rc == 0)
		rc = minors_parse(text.data, text.length, &out->minors, &why);
	out->resource.minors = out->minors;

	if (rc == -ENOMEM)
		return err_set(err, rc, "%s", why.text);
	if (rc < 0)
		(void)snprintf(out->warning, sizeof(out->warning), "%.*s", RESOURCE_REASON_MAX - 1,
			       why.text);

	return 0;
}

int surroundings_read(const char *root, const struct config *config,
		      const struct inventory *inventory, struct surroundings *out, struct err *err)
{
	memset(out, 0, sizeof(*out));
	out->resource.control = surroundings_control(root);
	surroundings_imex(root, config, inventory, out);
	return surroundings_minors(root, inventory, out, err);
}

void surroundings_done(struct surroundings *surroundings)
{
	surroundings->minors = minors_free(surroundings->minors);
	surroundings->resource.minors = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The side file of the specifications that are kept, and their end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "doors/cdi/keep_internal.h"
#include "doors/cdi/state.h"
#include "hardware/gpu.h"

/* "": not known. */
static void keep_boot_id(const struct keep *keep, char out[STATE_BOOT_MAX])
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, STATE_BOOT_MAX - 1);
	out[0] = '\0';

	if (file_path(path, NULL, "%s/proc/sys/kernel/random/boot_id", keep->root) < 0 ||
	    file_read(path, &text, NULL) < 0)
		return;

	size_t length = strcspn(buf_text(&text), "\n");
	memcpy(out, buf_text(&text), length);
	out[length] = '\0';
}

static int keep_add_sources(const struct keep_pass *pass, struct state *state)
{
	const struct cdi_driver *driver = &pass->gather.driver;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < driver->file_count; i++) {
		char path[FILE_PATH_MAX];
		struct stat status;

		if (file_path(path, NULL, "%s%s", driver->root, driver->files[i].path) < 0 ||
		    lstat(path, &status) < 0)
			continue; /* gone since: the next run notices */

		rc = state_add_source(state, path,
				      (int64_t)status.st_mtim.tv_sec * 1000000000 +
					  status.st_mtim.tv_nsec,
				      pass->err);
	}

	return rc;
}

static int keep_describe(const struct keep_pass *pass, struct state *state)
{
	const struct inventory *inventory = pass->wish->inventory;
	int rc = 0;

	memcpy(state->driver, inventory->driver_version, sizeof(state->driver));
	if (pass->gather.kernel_version[0])
		memcpy(state->driver, pass->gather.kernel_version, sizeof(state->driver));
	keep_boot_id(pass->keep, state->boot_id);

	for (uint32_t i = 0; rc == 0 && i < inventory->gpu_count; i++)
		rc = state_add_uuid(state, inventory->gpus[i].uuid, pass->err);

	for (uint32_t i = 0; rc == 0 && i < inventory->mig_count; i++)
		rc = state_add_uuid(state, inventory->migs[i].uuid, pass->err);

	if (rc == 0)
		rc = keep_add_sources(pass, state);

	for (uint32_t i = 0; rc == 0 && i < pass->out->kind_count; i++) {
		char path[FILE_PATH_MAX], name[KEEP_NAME_MAX];
		const struct keep_kind *kind = &pass->out->kinds[i];

		keep_name(kind->kind, name);
		if (kind->state == KEEP_WRITTEN &&
		    file_path(path, NULL, "%s/%s", pass->keep->directory, name) == 0)
			rc = state_add_file(state, path, kind->kind, pass->err);
	}

	return rc;
}

static uint32_t keep_count(const struct keep_pass *pass, enum keep_state state)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < pass->out->kind_count; i++)
		count += pass->out->kinds[i].state == state;
	return count;
}

int keep_save(struct keep_pass *pass)
{
	if (keep_count(pass, KEEP_WRITTEN) == 0) {
		/* One that is gone is as good as one that names nothing. */
		if (keep_count(pass, KEEP_STAYS) == 0)
			(void)unlink(pass->keep->state_path);
		return 0;
	}

	_cleanup_state_ struct state state = {.uuid_count = 0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, STATE_SIZE_MAX);
	int rc = keep_describe(pass, &state);
	if (rc == 0)
		rc = state_format(&state, &text, pass->err);
	if (rc == 0)
		rc = keep_write(pass, pass->keep->state_path, &text);

	return rc < 0 ? rc : 0;
}

int keep_withdraw(struct keep_pass *pass)
{
	_cleanup_state_ struct state state = {.uuid_count = 0};
	size_t length = strlen(pass->keep->directory);
	int rc = state_read(pass->keep->state_path, &state, pass->err);
	if (rc < 0) /* none, or a damaged one: then nobody knows who has written what lies there */
		return rc == -ENOENT || rc == -EINVAL ? 0 : rc;

	for (uint32_t i = 0; rc == 0 && i < state.file_count; i++) {
		const char *path = state.files[i].path;
		const char *name = path + length + 1;
		struct stat status;

		if (strncmp(path, pass->keep->directory, length) == 0 && path[length] == '/' &&
		    text_starts_with(name, "sluice") && !strchr(name, '/') &&
		    keep_is_ours(pass->directory, name, &status))
			rc = keep_remove(pass, name);
	}

	if (rc == 0)
		(void)unlink(pass->keep->state_path);

	return rc;
}

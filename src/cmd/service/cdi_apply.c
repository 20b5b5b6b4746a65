/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice cdi check --apply`: what a runtime would make of a container's configuration. */
#include "cmd/service/cdi.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "cmd/options.h"
#include "cdi/apply.h"
#include "cdi/oci.h"

static int apply_read(const char *path, json_t **out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, OCI_TEXT_MAX);
	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;
	rc = oci_parse(buf_text(&text), text.length, out, err);
	return rc < 0 ? err_wrap(err, "reading '%s'", path) : 0;
}

int cdi_apply(const struct cmd_call *call, const struct scan *scan, const char *path,
	      const struct option_list *devices)
{
	struct err err = {0};
	json_auto_t *config = NULL;
	json_auto_t *edited = NULL;

	if (devices->count == 0)
		return cmd_usage(call, "--apply needs --device");

	int rc = apply_read(path, &config, &err);
	if (rc < 0)
		return cmd_fail(call, CDI_EXIT_UNREADABLE, &err);

	_cleanup_buf_ struct buf text;
	buf_init(&text, (size_t)OCI_TEXT_MAX * 4); /* indented */

	rc = apply_devices(scan, devices->items, devices->count, NULL, config, &edited, &err);
	if (rc == 0 && (rc = oci_print(edited, true, &text)) < 0)
		(void)err_set(&err, rc, "cannot print '%s': %s", path, err_describe(rc));
	if (rc < 0)
		return cmd_fail(
		    call, rc == -ENODEV || rc == -ENOENT ? CDI_EXIT_STALE : CDI_EXIT_UNREADABLE,
		    &err);

	puts(buf_text(&text));
	return CMD_EXIT_OK;
}

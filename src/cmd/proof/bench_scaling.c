/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/proof/bench_scaling.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "bench/scaling.h"
#include "cmd/cmd.h"

enum { SCALING_REPORT_MAX = 16 << 20 };

static bool scaling_is_csv(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot && strcmp(dot, ".csv") == 0;
}

bool bench_scaling_is_meant(char *const *files, size_t count)
{
	return count > 2 || (count > 0 && scaling_is_csv(files[0]));
}

static int scaling_read(const char *path, const char *metric, struct scaling *out, struct err *err)
{
	struct result recorded;
	struct buf text _cleanup_buf_;

	result_init(&recorded);
	buf_init(&text, scaling_is_csv(path) ? SCALING_CSV_MAX : RESULT_BYTES_MAX);

	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;

	if (scaling_is_csv(path)) {
		rc = scaling_add_csv(out, buf_text(&text), text.length, metric, err);
	} else {
		rc = result_parse(buf_text(&text), text.length, &recorded, err);
		if (rc == 0)
			rc = scaling_add_result(out, &recorded, metric, err);
		result_done(&recorded);
	}

	return rc < 0 ? err_wrap(err, "'%s'", path) : 0;
}

static int scaling_document(const struct scaling *scaling, const struct bench_scaling *what,
			    struct buf *out)
{
	struct jsonw json;
	struct buf line _cleanup_buf_;
	char *argv[CMD_LINE_ARGUMENTS_MAX];
	int argc = cmd_line(&line, argv);

	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "schema", RESULT_SCHEMA);
	jsonw_text(&json, "tool", "sluice bench compare");
	jsonw_text(&json, "version", cmd_version());
	jsonw_text(&json, "started", what->started);
	jsonw_array(&json, "argv");

	for (int i = 0; i < argc; i++)
		jsonw_text(&json, NULL, argv[i]);

	jsonw_end_array(&json);
	scaling_json(scaling, &json);
	jsonw_array(&json, "runs");
	jsonw_end_array(&json);
	jsonw_end_object(&json);

	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

static int scaling_write(const char *path, const struct buf *text, struct err *err)
{
	return file_write_atomic(path, buf_text(text), text->length, 0644, err);
}

static int scaling_report(const struct scaling *scaling, const struct bench_scaling *what,
			  struct err *err)
{
	struct buf table _cleanup_buf_, json _cleanup_buf_, page _cleanup_buf_;

	buf_init(&table, SCALING_REPORT_MAX);
	buf_init(&json, SCALING_REPORT_MAX);
	buf_init(&page, SCALING_REPORT_MAX);

	int rc = scaling_text(scaling, &table);
	if (rc == 0)
		rc = scaling_document(scaling, what, &json);
	if (rc == 0)
		rc = scaling_html(scaling, cmd_version(), what->started, &page);
	if (rc < 0)
		return err_set(err, rc, "making the report: %s", err_describe(rc));

	const struct buf *shown = what->is_json ? &json : &table;
	(void)fwrite(buf_text(shown), 1, shown->length, stdout); /* cmd_main() looks at stdout */
	if (what->json && (rc = scaling_write(what->json, &json, err)) < 0)
		return rc;

	return what->html ? scaling_write(what->html, &page, err) : 0;
}

int bench_scaling_run(const struct cmd_call *call, const struct bench_scaling *what)
{
	struct err err = {0};
	_cleanup_free_ struct scaling *scaling = calloc(1, sizeof(*scaling));
	if (!scaling)
		return cmd_fail(call, CMD_EXIT_FAILED, (err_set(&err, -ENOMEM, "no memory"), &err));

	scaling_init(scaling);
	int rc = 0, code = CMD_EXIT_OK;
	size_t read = what->first ? 1 : 0;

	if (what->first && (rc = scaling_add_result(scaling, what->first, what->metric, &err)) < 0)
		(void)err_wrap(&err, "'%s'", what->files[0]);

	for (size_t i = read; rc == 0 && i < what->count; i++)
		rc = scaling_read(what->files[i], what->metric, scaling, &err);

	if (rc == 0)
		rc = scaling_end(scaling, &err);
	if (rc < 0)
		code = cmd_fail(call, CMD_EXIT_DATA, &err);
	else if (scaling_report(scaling, what, &err) < 0)
		code = cmd_fail(call, CMD_EXIT_CANNOT_WRITE, &err);

	scaling_done(scaling);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cdi/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/unit/cdi/made.h"
#include "tests/unit/unit.h"

int checked_setup(void **state)
{
	struct checked *checked = calloc(1, sizeof(*checked));
	if (!checked)
		return -1;
	(void)umask(S_IWGRP | S_IWOTH); /* what others may write is a finding */
	checked->root = unit_tmp_new();
	checked->options =
	    (struct cdi_check_options){.root = checked->root, .module_version = "580.82"};
	*state = checked;
	return 0;
}

int checked_teardown(void **state)
{
	struct checked *checked = *state;
	check_done(&checked->check);
	scan_done(&checked->scan);
	checked->root = unit_tmp_free(checked->root);
	free(checked);
	return 0;
}

static void checked_path(const struct checked *checked, const char *path, char out[FILE_PATH_MAX])
{
	assert_int_equal(file_path(out, NULL, "%s%s", checked->root, path), 0);
	char *slash = strrchr(out, '/');
	*slash = '\0';
	assert_int_equal(file_mkdirs(out, 0755, NULL), 0);
	*slash = '/';
}

void checked_write(const struct checked *checked, const char *path, const char *text)
{
	char full[FILE_PATH_MAX];
	checked_path(checked, path, full);
	unit_write(full, text);
}

void checked_library(const struct checked *checked, const char *path, const char *soname)
{
	char full[FILE_PATH_MAX];
	struct made_library library;
	checked_path(checked, path, full);
	made_library(&library, soname);
	FILE *file = fopen(full, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(&library, sizeof(library), 1, file), 1);
	assert_int_equal(fclose(file), 0);
}

void checked_node(const struct checked *checked, const char *path)
{
	char full[FILE_PATH_MAX];
	checked_path(checked, path, full);
	assert_int_equal(mkfifo(full, 0666), 0);
}

void checked_run(struct checked *checked, const char *const *names)
{
	check_done(&checked->check);
	scan_done(&checked->scan);
	checked->options.names = names;
	checked->options.name_count = 0;
	while (names && names[checked->options.name_count])
		checked->options.name_count++;
	assert_int_equal(scan_read(checked->root, &checked->scan, NULL), 0);
	assert_int_equal(check_scan(&checked->scan, &checked->options, &checked->check, NULL), 0);
}

const struct check_finding *checked_find(const struct checked *checked, enum check_id id)
{
	for (uint32_t i = 0; i < checked->check.count; i++)
		if (checked->check.findings[i].id == id)
			return &checked->check.findings[i];
	fail_msg("nothing was found of %s", check_id_to_string(id));
	return NULL;
}

void checked_says(const struct checked *checked, enum check_id id, const char *text)
{
	const struct check_finding *finding = checked_find(checked, id);
	if (!strstr(finding->text, text))
		fail_msg("'%s' is not in: %s", text, finding->text);
}

void checked_expect(const struct checked *checked, uint32_t count, enum check_severity worst)
{
	const struct cdi_check *check = &checked->check;
	if (check->count != count || check->worst != worst)
		fail_msg("%u findings, %s; the first is: %s", check->count,
			 check_severity_to_string(check->worst),
			 check->count ? check->findings[0].text : "none");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice cdi list`: what all CDI files of this machine provide, and which are of no use. */
#include "cmd/service/cdi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "cdi/scan.h"
#include "hardware/pci.h"

struct cdi_list_options {
	enum option_output output;
	struct option_list directories;
};

static const struct option_row rows[] = {
    OPTION_OUTPUT(struct cdi_list_options, output),
    CDI_DIRECTORY_ROW(struct cdi_list_options, directories),
    {.name = NULL},
};

int cdi_scan(const struct option_list *directories, struct scan *out, struct err *err)
{
	for (size_t i = 0; i < directories->count; i++) {
		const char *path = directories->items[i];
		struct stat status;
		if (*path == '\0' || (stat(path, &status) == 0 && !S_ISDIR(status.st_mode)))
			return err_set(err, -ENOTDIR, "--cdi-dir: '%s' is no directory", path);
	}

	if (directories->count > 0)
		return scan_read_directories(directories->items, directories->count, out, err);

	return scan_read(pci_root(), out, err);
}

static void print_error(const char *text)
{
	cmd_print(stderr, text);
	fputc('\n', stderr);
}

/* The directories, "A and B". */
static void print_directories(FILE *out, const struct scan *scan)
{
	for (uint32_t i = 0; i < scan->directory_count; i++) {
		fputs(i == 0 ? "" : i + 1 == scan->directory_count ? " and " : ", ", out);
		cmd_print(out, scan->directories[i]);
	}
}

static void print_line(const struct scan_device *device)
{
	cmd_print(stdout, device->file->kind);
	putchar('=');
	cmd_print(stdout, device->name);
	putchar('\t');
	cmd_print(stdout, device->file->path);
	putchar('\n');
}

/* Two files of one priority. */
static void print_conflict(const struct scan_device *device)
{
	cmd_print(stderr, device->file->path);
	fputs(": ", stderr);
	cmd_print(stderr, device->file->kind);
	fputc('=', stderr);
	cmd_print(stderr, device->name);
	fputs(" is also in ", stderr);
	cmd_print(stderr, device->other->path);
	fputs(": no runtime takes either\n", stderr);
}

static void print_text(const struct scan *scan, const struct scan_device *devices, size_t count)
{
	size_t simulated = 0;

	for (size_t i = 0; i < count; i++) {
		if (devices[i].state == SCAN_FOUND) {
			simulated += devices[i].file->is_simulated;
			print_line(&devices[i]);
		} else if (scan_is_second(&devices[i])) {
			print_conflict(&devices[i]);
		}
	}

	if (simulated > 0)
		fprintf(stderr, "%zu of these %s simulated\n", simulated,
			simulated == 1 ? "is" : "are");

	for (uint32_t i = 0; i < scan->count; i++)
		if (scan->files[i].code < 0)
			print_error(scan->files[i].why);

	if (scan->count == 0) {
		fputs("there is no CDI file in ", stderr);
		print_directories(stderr, scan);
		fputs(": 'sluice agent' keeps some there, 'sluice cdi generate' writes one\n",
		      stderr);
	}
}

static json_t *json_file(const struct scan_file *file)
{
	const struct document *document = &file->document;
	return json_pack("{s:o, s:o, s:o, s:b, s:I, s:I, s:o}", "path", table_json_text(file->path),
			 "kind", table_json_text(file->kind[0] ? file->kind : NULL), "cdi_version",
			 table_json_text(document->yaml ? document->version : NULL), "simulated",
			 file->is_simulated, "priority", (json_int_t)file->priority, "device_count",
			 (json_int_t)(document->yaml ? document->devices->entry_count : 0), "error",
			 table_json_text(file->code < 0 ? file->why : NULL));
}

static json_t *json_device(const struct scan_device *device)
{
	return json_pack("{s:o, s:o, s:o, s:b, s:s, s:o}", "name", table_json_text(device->name),
			 "kind", table_json_text(device->file->kind), "file",
			 table_json_text(device->file->path), "simulated",
			 device->file->is_simulated, "state",
			 device->state == SCAN_FOUND	  ? "found"
			 : device->state == SCAN_CONFLICT ? "conflict"
							  : "hidden",
			 "other", table_json_text(device->other ? device->other->path : NULL));
}

static int print_json(const struct scan *scan, const struct scan_device *devices, size_t count,
		      struct err *err)
{
	json_t *directories = json_array(), *files = json_array(), *list = json_array();
	for (uint32_t i = 0; i < scan->directory_count; i++)
		(void)json_array_append_new(directories, table_json_text(scan->directories[i]));

	for (uint32_t i = 0; i < scan->count; i++)
		(void)json_array_append_new(files, json_file(&scan->files[i]));

	for (size_t i = 0; i < count; i++)
		(void)json_array_append_new(list, json_device(&devices[i]));

	json_t *root = json_pack("{s:o, s:o, s:o}", "directories", directories, "files", files,
				 "devices", list);
	int rc = table_print_json(root, stdout, err);

	json_decref(root);
	return rc;
}

static int run(const struct cmd_call *call)
{
	const struct cdi_list_options *options = call->options;
	_cleanup_scan_ struct scan scan = {0};
	_cleanup_free_ struct scan_device *devices = NULL;
	size_t count = 0;
	struct err err = {0};
	int rc = cdi_scan(&options->directories, &scan, &err);
	if (rc == 0)
		rc = scan_devices(&scan, &devices, &count, &err);

	if (rc == 0 && options->output == OPTION_OUTPUT_JSON)
		rc = print_json(&scan, devices, count, &err);
	else if (rc == 0)
		print_text(&scan, devices, count);

	if (rc < 0)
		return cmd_fail(call, CMD_EXIT_FAILED, &err);

	for (uint32_t i = 0; i < scan.count; i++)
		if (scan.files[i].code < 0)
			return CMD_EXIT_FAILED;

	for (size_t i = 0; i < count; i++)
		if (devices[i].state == SCAN_CONFLICT)
			return CMD_EXIT_FAILED;

	return CMD_EXIT_OK;
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "every file is good; there may be none"},
    {CMD_EXIT_FAILED, "a file or directory is of no use, or two files claim one device"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice cdi list", "the names that podman run --device takes, and where each comes from"},
    {"sluice cdi list --cdi-dir ~/.config/cdi", "those of another directory"},
    {NULL, NULL},
};

const struct command cmd_cdi_list = {
    .name = "list",
    .summary = "List the CDI devices of this machine and the files that are of no use",
    .description =
	"Reads the CDI files of /etc/cdi and /var/run/cdi as container runtimes do, whoever wrote "
	"them, and prints a line for each device: its name, a tab, and the file that provides it. "
	"What runtimes keep quiet about is told on standard error: why a file is refused, with "
	"line and column, and which devices two files claim, so that no runtime takes either. Of "
	"the same device in both directories the one in /var/run/cdi is taken.",
    .group = CMD_GROUP_SERVICE,
    .run = run,
    .options = rows,
    .options_size = sizeof(struct cdi_list_options),
    .exits = exits,
    .examples = examples,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice cdi generate`: the specification of this machine, printed or written. */
#include "cmd/service/cdi.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cdi/document.h"
#include "cdi/gather.h"
#include "cdi/generate.h"
#include "hardware/pci.h"
#include "probe/client.h"

enum generate_exit {
	GENERATE_EXIT_NO_DRIVER = 3,
	GENERATE_EXIT_MISMATCH = 4,
	GENERATE_EXIT_NOTHING = 5,
};

enum generate_format { FORMAT_JSON, FORMAT_YAML };
enum generate_mode { MODE_AUTO, MODE_NVML, MODE_LATER };
enum layout_choice { LAYOUT_AUTO, LAYOUT_DEBIAN, LAYOUT_RHEL };

enum generate_command_limits {
	WORDS_MAX = 512, /* of a list that may be given with commas */
	WORD_NOTES_MAX = 1 << 16,
};

struct generate_call {
	const char *output;
	uint32_t format, mode, layout;
	const char *driver_root, *dev_root, *ldconfig;
	struct option_list libraries, devices, strategies, imex;
	struct option_list hooks_off, hooks_on, flags;
	const char *vendor, *class_, *capabilities;
	bool without_all, versioned;
	uint64_t timeout_ns;
};

static const struct option_row rows[] = {
    {.name = "output",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "write FILE, and only if it changes (default: print on standard output)",
     OPTION_FIELD(struct generate_call, output)},
    {.name = "format",
     .kind = OPTION_CHOICE,
     .words = "json|yaml",
     .help = "json, which every runtime reads (default); yaml is not written",
     OPTION_FIELD(struct generate_call, format)},
    {.name = "vendor",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "the kind is VENDOR/CLASS (default: nvidia.com; for simulated GPUs sluice.sim)",
     OPTION_FIELD(struct generate_call, vendor)},
    {.name = "class",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "the kind is VENDOR/CLASS (default: gpu)",
     OPTION_FIELD(struct generate_call, class_)},
    {.name = "device-name-strategy",
     .kind = OPTION_LIST,
     .value = "STRATEGY",
     .help = "how devices are called: index (0, 1:0), uuid, type-index (gpu0, mig1:0); may be "
	     "given again or with commas (default: index,uuid)",
     .words = "index|uuid|type-index",
     OPTION_FIELD(struct generate_call, strategies)},
    {.name = "device-id",
     .kind = OPTION_LIST,
     .value = "ID",
     .help = "only this device, by index, GPU:MIG or UUID; may be given again or with commas "
	     "(default: all)",
     OPTION_FIELD(struct generate_call, devices)},
    {.name = "no-all-device",
     .kind = OPTION_FLAG,
     .help = "leave out the device 'all'",
     OPTION_FIELD(struct generate_call, without_all)},
    {.name = "imex-channel",
     .kind = OPTION_LIST,
     .value = "N",
     .help = "also this IMEX channel, for every device; may be given again or with commas "
	     "(default: none)",
     OPTION_FIELD(struct generate_call, imex)},
    {.name = "capabilities",
     .kind = OPTION_TEXT,
     .value = "LIST",
     .help = "only files and nodes for these: utility, compute, video, graphics, ngx, display, "
	     "all (default)",
     OPTION_FIELD(struct generate_call, capabilities)},
    {.name = "lib-layout",
     .kind = OPTION_CHOICE,
     .words = "auto|debian|rhel",
     .help = "where images' loaders look: debian, rhel, or auto: both (default)",
     OPTION_FIELD(struct generate_call, layout)},
    {.name = "versioned",
     .kind = OPTION_FLAG,
     .help = "libraries also under their full name, such as libcuda.so.580.105.08",
     OPTION_FIELD(struct generate_call, versioned)},
    {.name = "driver-root",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "where the driver is installed, such as /run/nvidia/driver (default: /)",
     OPTION_FIELD(struct generate_call, driver_root)},
    {.name = "dev-root",
     .kind = OPTION_PATH,
     .value = "DIR",
     .help = "where /dev is (default: the driver root if it has GPU nodes, else /)",
     OPTION_FIELD(struct generate_call, dev_root)},
    {.name = "library-search-path",
     .kind = OPTION_LIST,
     .value = "DIR",
     .help = "look for libraries here first; may be given again",
     OPTION_FIELD(struct generate_call, libraries)},
    {.name = "mode",
     .kind = OPTION_CHOICE,
     .words = "auto|nvml|management|csv|wsl|gds|mofed|gdrcopy|nvswitch|imex",
     .help = "auto and nvml: what this machine's driver lists; the others are not written",
     OPTION_FIELD(struct generate_call, mode)},
    {.name = "ldconfig-path",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "accepted and not used: no container needs ldconfig",
     OPTION_FIELD(struct generate_call, ldconfig)},
    {.name = "disable-hook",
     .kind = OPTION_LIST,
     .value = "HOOK",
     .help = "accepted and not used: there are no hooks",
     OPTION_FIELD(struct generate_call, hooks_off)},
    {.name = "enable-hook",
     .kind = OPTION_LIST,
     .value = "HOOK",
     .help = "accepted and not used: there are no hooks",
     OPTION_FIELD(struct generate_call, hooks_on)},
    {.name = "feature-flag",
     .kind = OPTION_LIST,
     .value = "FLAG",
     .help = "accepted and not used",
     OPTION_FIELD(struct generate_call, flags)},
    MACHINE_TIMEOUT_ROW(struct generate_call),
    {.name = NULL},
};

static const struct generate_call defaults = {
    .class_ = "gpu", .capabilities = "all", .timeout_ns = MACHINE_TIMEOUT_NS};

/* --- what the command line says -------------------------------------------------------------- */

/* The words of options that may be given again, with commas, or both. */
struct generate_words {
	const char *items[WORDS_MAX]; /* borrowed: of `text` */
	size_t count;
	char *text; /* owned */
};

static void words_done(struct generate_words *words)
{
	free(words->text);
}

static int words_split(const struct option_list *list, struct generate_words *out)
{
	size_t length = 1;
	for (size_t i = 0; i < list->count; i++)
		length += strlen(list->items[i]) + 1;

	char *at = out->text = calloc(1, length);
	if (!at)
		return -ENOMEM;

	for (size_t i = 0; i < list->count; i++) {
		const char *word = list->items[i];

		for (size_t size; (size = strcspn(word, ",")) > 0 || *word == ','; word += size) {
			if (*word == ',') {
				size = 1;
				continue;
			}

			if (out->count == WORDS_MAX)
				return -E2BIG;

			out->items[out->count++] = memcpy(at, word, size);
			at += size + 1;
		}
	}

	return 0;
}

static int parse_names(const struct cmd_call *call, const struct generate_words *words,
		       uint32_t *out)
{
	static const struct {
		const char *word;
		enum generate_names name;
	} names[] = {
	    {"index", GENERATE_INDEX},
	    {"uuid", GENERATE_UUID},
	    {"type-index", GENERATE_TYPE_INDEX},
	};
	*out = words->count ? 0 : GENERATE_INDEX | GENERATE_UUID;
	for (size_t i = 0; i < words->count; i++) {
		size_t j = 0;
		while (j < array_length(names) && strcmp(names[j].word, words->items[i]) != 0)
			j++;

		if (j == array_length(names))
			return cmd_usage(call,
					 "--device-name-strategy: '%s' is none; there are index, "
					 "uuid and type-index",
					 words->items[i]);

		*out |= names[j].name;
	}

	return 0;
}

/* What is refused before anything is looked at. 0 or an exit code. */
static int check_usage(const struct cmd_call *call, const struct generate_call *options)
{
	if (options->format == FORMAT_YAML)
		return cmd_usage(call, "--format: yaml is not written; every runtime that reads "
				       "YAML reads JSON too");
	if (options->mode >= MODE_LATER)
		return cmd_usage(call, "--mode: only what NVML lists is written so far: auto or "
				       "nvml");

	for (size_t i = 0; i < options->libraries.count; i++)
		if (options->libraries.items[i][0] != '/')
			return cmd_usage(call,
					 "--library-search-path: '%s' is not an absolute path",
					 options->libraries.items[i]);

	/* Elsewhere it is standard output, which is where it goes without the option. */
	if (options->output && strcmp(options->output, "-") == 0)
		return cmd_usage(call, "--output: '-' is no file; without --output the "
				       "specification is printed");

	return 0;
}

/* --- what is there --------------------------------------------------------------------------- */

struct generate_roots {
	char machine[FILE_PATH_MAX]; /* before /sys and /proc; "" for the real ones */
	char driver[FILE_PATH_MAX];  /* "/" */
	char dev[FILE_PATH_MAX];     /* before /dev; "" */
};

/* The directory without links; "" for "/". */
static int resolve_root(const char *option, const char *path, char out[FILE_PATH_MAX],
			struct err *err)
{
	if (path[0] != '/')
		return err_set(err, -EINVAL, "%s: '%s' is not an absolute path", option, path);

	char real[PATH_MAX];
	if (!realpath(path, real))
		return err_set(err, -EINVAL, "%s: cannot open '%s': %s", option, path,
			       err_describe(-errno));

	memcpy(out, real[1] ? real : "", real[1] ? strlen(real) + 1 : 1);
	return 0;
}

static int find_roots(const struct generate_call *options, struct generate_roots *out,
		      struct err *err)
{
	const char *machine = pci_root(), *dev = options->dev_root;
	char path[FILE_PATH_MAX];

	if (strcmp(machine, PCI_NO_ROOT) == 0)
		return err_set(err, -EINVAL,
			       "this simulated machine has no files; SLUICE_ROOT, which 'sluice "
			       "sim exec' sets, says where they are");

	out->machine[0] = '\0';
	int rc = machine[0] ? resolve_root("SLUICE_ROOT", machine, out->machine, err) : 0;
	if (rc == 0)
		rc = file_path(out->driver, err, "%s",
			       options->driver_root ? options->driver_root
			       : out->machine[0]    ? out->machine
						    : "/");

	/* A driver container may have the nodes, or leave them where they are. */
	if (rc == 0 && !dev && options->driver_root &&
	    file_path(path, err, "%s/dev/nvidiactl", options->driver_root) == 0 &&
	    file_exists(path))
		dev = options->driver_root;

	if (rc == 0 && dev)
		return resolve_root(options->dev_root ? "--dev-root" : "--driver-root", dev,
				    out->dev, err);

	memcpy(out->dev, out->machine, sizeof(out->dev));
	return rc;
}

/* The exit code for what gather.h, generate.h or the probe say. */
static int exit_of(int rc)
{
	switch (rc) {
	case -ENXIO:
		return GENERATE_EXIT_NO_DRIVER;
	case -ESTALE:
	case -ENOPKG:
	case -ELIBBAD:
		return GENERATE_EXIT_MISMATCH;
	case -ENODEV:
		return GENERATE_EXIT_NOTHING;
	default:
		return CMD_EXIT_FAILED;
	}
}

/* 0, or the exit code after the error was printed. */
static int gather_or_fail(const struct cmd_call *call, const struct generate_roots *roots,
			  struct gather *out)
{
	const struct generate_call *options = call->options;
	const struct gather_options how = {.root = roots->machine,
					   .driver_root = roots->driver,
					   .mps = secure_getenv("CUDA_MPS_PIPE_DIRECTORY"),
					   .directories = options->libraries.items,
					   .directory_count = options->libraries.count};
	struct err err = {0};
	int rc = gather_read(&how, out, &err);
	if (rc == 0) {
		rc = gather_check(out, "", &err);
		return rc < 0 ? cmd_fail(call, exit_of(rc), &err) : 0;
	}

	char version[GPU_VERSION_MAX];
	const struct gather none = {.has_driver = false};

	if (rc == -ENOENT && pci_read_nvidia_version(roots->machine, version) < 0)
		return cmd_fail(call, exit_of(gather_check(&none, "", &err)), &err);
	if (rc == -ENOENT)
		return cmd_fail(call, GENERATE_EXIT_NOTHING, &err);

	bool is_option = options->driver_root &&
			 (rc == -EPERM || rc == -EINVAL || rc == -ENOTDIR || rc == -EACCES);
	return cmd_fail(call, is_option ? CMD_EXIT_USAGE : GENERATE_EXIT_MISMATCH, &err);
}

/* Asks NVML; the same return. */
static int ask_nvml(const struct cmd_call *call, const struct gather *gather, struct inventory *out)
{
	const struct generate_call *options = call->options;
	const struct probe_options how = {0};
	struct err err = {0};

	inventory_init(out);
	int rc = probe_collect(&how, options->timeout_ns, out, NULL, &err);
	if (rc == -ENODEV) /* the module is loaded, and still NVML finds no driver */
		return cmd_fail(call, GENERATE_EXIT_NO_DRIVER, &err);
	if (rc < 0)
		return cmd_fail(call, rc == -ELIBBAD ? GENERATE_EXIT_MISMATCH : probe_exit_code(rc),
				&err);

	rc = gather_check(gather, out->driver_version, &err);
	return rc < 0 ? cmd_fail(call, exit_of(rc), &err) : 0;
}

/* --- where it goes --------------------------------------------------------------------------- */

/* Whether the file has these bytes already and may be read by all. */
static bool file_is(const char *path, const struct buf *text)
{
	struct stat status;
	_cleanup_buf_ struct buf old;
	buf_init(&old, GENERATE_TEXT_MAX);
	return lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
	       (status.st_mode & 07777) == 0644 && file_read(path, &old, NULL) == 0 &&
	       old.length == text->length && memcmp(old.data, text->data, old.length) == 0;
}

static int write_file(const char *path, const struct buf *text, struct err *err)
{
	char directory[FILE_PATH_MAX];
	int rc = file_path(directory, err, "%s", path);
	if (rc < 0)
		return rc;

	/* A rename would replace /dev/stdout itself, or the link that somebody made. */
	struct stat status;
	if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return err_set(err, -EEXIST,
			       "'%s' is there and no regular file; without --output the "
			       "specification is printed",
			       path);

	if (file_is(path, text)) {
		fputs("unchanged: ", stderr);
		cmd_print(stderr, path);
		fputc('\n', stderr);
		return 0;
	}

	/* Containers of ordinary users read it, whatever the umask of whoever writes it. */
	(void)umask(022);
	char *slash = strrchr(directory, '/');
	if (slash && slash != directory) {
		*slash = '\0';
		rc = file_mkdirs(directory, 0755, err);
	}

	if (rc == 0)
		rc = file_write_atomic(path, text->data, text->length, 0644, err);

	return rc;
}

static int put(const struct cmd_call *call, const struct buf *text)
{
	const struct generate_call *options = call->options;
	struct err err = {0};

	if (options->output)
		return write_file(options->output, text, &err) < 0
			   ? cmd_fail(call, CMD_EXIT_CANNOT_WRITE, &err)
			   : CMD_EXIT_OK;

	if (fwrite(text->data, 1, text->length, stdout) == text->length && fflush(stdout) == 0)
		return CMD_EXIT_OK;

	(void)err_set(&err, -errno, "cannot print: %s", err_describe(-errno));
	return cmd_fail(call, CMD_EXIT_CANNOT_WRITE, &err);
}

static void print_notes(const struct cdi_driver *driver, const struct buf *notes)
{
	for (uint32_t i = 0; i < driver->problem_count && i < DRIVER_PROBLEMS_MAX; i++) {
		cmd_print(stderr, driver->problems[i].text);
		fputc('\n', stderr);
	}

	if (driver->problem_count > DRIVER_PROBLEMS_MAX)
		fprintf(stderr, "and %u more files are left out\n",
			driver->problem_count - DRIVER_PROBLEMS_MAX);

	/* Line by line: what is printed so has no ends of lines. */
	for (const char *line = buf_text(notes); *line;) {
		char text[ERR_TEXT_MAX];
		size_t length = strcspn(line, "\n");

		(void)snprintf(text, sizeof(text), "%.*s", (int)length, line);
		cmd_print(stderr, text);
		fputc('\n', stderr);
		line += length + (line[length] == '\n');
	}
}

/* The options that are lists; what generate.h is told of them points into it. */
struct lists {
	struct generate_words names, devices, imex;
	uint32_t channels[WORDS_MAX];
};

static void lists_done(struct lists *lists)
{
	words_done(&lists->names);
	words_done(&lists->devices);
	words_done(&lists->imex);
}
#define _cleanup_lists_ __attribute__((cleanup(lists_done)))

/* A list that is given and names nothing is a script's empty variable: it must not mean everything.
 * 0, or the exit code after the error was printed. */
static int parse_words(const struct cmd_call *call, const char *option,
		       const struct option_list *list, struct generate_words *out)
{
	int rc = words_split(list, out);
	if (rc < 0)
		return cmd_usage(call, "--%s: there are too many words in the list", option);
	if (list->count > 0 && out->count == 0)
		return cmd_usage(call, "--%s names nothing", option);
	return 0;
}

/* The same return. */
static int parse_lists(const struct cmd_call *call, struct lists *lists,
		       struct generate_options *out)
{
	const struct generate_call *options = call->options;
	int rc = parse_words(call, "device-name-strategy", &options->strategies, &lists->names);
	if (rc == 0)
		rc = parse_words(call, "device-id", &options->devices, &lists->devices);
	if (rc == 0)
		rc = parse_words(call, "imex-channel", &options->imex, &lists->imex);

	if (rc != 0)
		return rc;

	for (size_t i = 0; i < lists->imex.count; i++) {
		uint64_t channel;
		if (parse_u64(lists->imex.items[i], 0, UINT16_MAX, &channel) < 0)
			return cmd_usage(call, "--imex-channel: '%s' is no channel",
					 lists->imex.items[i]);
		lists->channels[i] = (uint32_t)channel;
	}

	out->imex = lists->channels;
	out->imex_count = lists->imex.count;
	out->devices = lists->devices.count ? lists->devices.items : NULL;
	out->devices_count = lists->devices.count;

	return parse_names(call, &lists->names, &out->names);
}

/* "nvidia.com/gpu". The same return. */
static int find_kind(const struct cmd_call *call, bool simulated, char out[DOCUMENT_NAME_MAX])
{
	const struct generate_call *options = call->options;
	const char *vendor = options->vendor ? options->vendor
			     : simulated     ? "sluice.sim"
					     : "nvidia.com";

	if ((size_t)snprintf(out, DOCUMENT_NAME_MAX, "%s/%s", vendor, options->class_) >=
		DOCUMENT_NAME_MAX ||
	    !document_is_kind(out))
		return cmd_usage(call, "'%s/%s' is no kind of device", vendor, options->class_);

	return 0;
}

static int run(const struct cmd_call *call)
{
	static const uint32_t layouts[] = {GENERATE_AUTO, GENERATE_DEBIAN, GENERATE_RHEL};
	const struct generate_call *options = call->options;
	struct err err = {0};
	_cleanup_lists_ struct lists lists = {.names = {.count = 0}};
	struct generate_roots roots = {0};
	char kind[DOCUMENT_NAME_MAX];
	struct generate_options how = {.kind = kind,
				       .root = roots.machine,
				       .dev_root = roots.dev,
				       .layout = layouts[options->layout],
				       .versioned = options->versioned,
				       .without_all = options->without_all};
	int code = check_usage(call, options);
	if (code == 0)
		code = parse_lists(call, &lists, &how);

	if (code != 0)
		return code;
	if (driver_capabilities_parse(options->capabilities, &how.capabilities, &err) < 0 ||
	    find_roots(options, &roots, &err) < 0)
		return cmd_usage(call, "%s", err.text);

	_cleanup_gather_ struct gather gather = {.has_driver = false};
	_cleanup_inventory_ struct inventory inventory;

	inventory_init(&inventory);
	code = gather_or_fail(call, &roots, &gather);
	if (code == 0)
		code = ask_nvml(call, &gather, &inventory);
	if (code == 0)
		code = find_kind(call, inventory.simulated, kind);

	if (code != 0)
		return code;

	_cleanup_buf_ struct buf text, notes;
	buf_init(&text, GENERATE_TEXT_MAX);
	buf_init(&notes, WORD_NOTES_MAX);

	int rc =
	    generate_text(&inventory, gather.minors, &gather.driver, &how, &text, &notes, &err);
	print_notes(&gather.driver, &notes);
	return rc < 0 ? cmd_fail(call, exit_of(rc), &err) : put(call, &text);
}

static const struct cmd_exit_row exits[] = {
    {CMD_EXIT_OK, "it was printed, written, or is there already"},
    {GENERATE_EXIT_NO_DRIVER, "no driver: the kernel module is not loaded"},
    {GENERATE_EXIT_MISMATCH, "the driver is of two versions, or only half there"},
    {GENERATE_EXIT_NOTHING, "nothing found: no GPU with its nodes, or no library of a driver"},
    {CMD_EXIT_CANNOT_WRITE, "the specification cannot be written"},
    {CMD_EXIT_NOT_PERMITTED, "this user may not use the driver"},
    {CMD_EXIT_DEADLINE, "the driver as a whole did not answer in time"},
    {0, NULL},
};

static const struct cmd_example examples[] = {
    {"sluice cdi generate --output /etc/cdi/nvidia.json", "writes it where every runtime looks"},
    {"sluice cdi generate --capabilities utility,compute", "without what draws or plays videos"},
    {"sluice sim exec -- sluice cdi generate", "the same for a simulated machine"},
    {NULL, NULL},
};

const struct command cmd_cdi_generate = {
    .name = "generate",
    .summary = "Write the specification of this machine's GPUs",
    .description =
	"Prints what a container gets for each GPU and MIG device: its nodes, and the driver's "
	"libraries, programs and sockets. Libraries are mounted under the names by which programs "
	"ask for them, where the loaders of Debian-like and RHEL-like images look, so that no hook "
	"and no ldconfig is needed. What is left out, and why, is said on standard error. A list "
	"without any device is never written.",
    .group = CMD_GROUP_SERVICE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct generate_call),
    .exits = exits,
    .examples = examples,
};

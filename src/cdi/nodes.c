/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/nodes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "hardware/gpu.h"

enum nodes_numbers {
	NODES_MAJOR = 195, /* of nvidia0, nvidiactl and nvidia-modeset, since ever */
	NODES_MINOR_CTL = 255,
	NODES_MINOR_MODESET = 254,
	NODES_MINOR_UVM = 0,
	NODES_MINOR_UVM_TOOLS = 1,
};

#define NODES_CAPABILITIES "/proc/driver/nvidia/capabilities"

struct nodes {
	const struct nodes_options *options;
	struct nodes_majors majors;
	struct nodes_rule rule; /* of all nodes but the capabilities' */
	struct buf *notes;
	struct err *err;
	int made, failure;
};

/* --- what the driver says -------------------------------------------------------------------- */

/* The next line, without its end; false after the last. */
static bool nodes_line(const char **text, size_t *length, const char **out, size_t *out_length)
{
	if (*length == 0)
		return false;

	const char *end = memchr(*text, '\n', *length);

	*out = *text;
	*out_length = end ? (size_t)(end - *text) : *length;

	size_t taken = *out_length + (end ? 1 : 0);
	*text += taken;
	*length -= taken;

	return true;
}

static bool nodes_is(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* "510 nvidia-uvm" */
static void nodes_take_major(const char *line, size_t length, struct nodes_majors *out)
{
	uint64_t major;
	const char *blank;

	while (length > 0 && *line == ' ') {
		line++;
		length--;
	}

	blank = length > 0 ? memchr(line, ' ', length) : NULL;
	if (!blank || parse_u64_span(line, (size_t)(blank - line), 1, NODES_MAJOR_MAX, &major) < 0)
		return;

	const char *name = blank + 1;
	size_t rest = length - (size_t)(name - line);
	/* "nvidia-frontend" before 550 */
	if (major == NODES_MAJOR && rest >= 6 && memcmp(name, "nvidia", 6) == 0)
		out->nvidia = NODES_MAJOR;
	else if (nodes_is(name, rest, "nvidia-uvm"))
		out->uvm = (uint32_t)major;
	else if (nodes_is(name, rest, "nvidia-caps"))
		out->caps = (uint32_t)major;
}

void nodes_devices_parse(const char *text, size_t length, struct nodes_majors *out)
{
	const char *line;
	size_t line_length;
	while (nodes_line(&text, &length, &line, &line_length)) {
		if (nodes_is(line, line_length, "Block devices:"))
			return;
		nodes_take_major(line, line_length, out);
	}
}

/* "KEY: NUMBER" */
static void nodes_take_rule(const char *line, size_t length, struct nodes_rule *out)
{
	const char *colon = length > 0 ? memchr(line, ':', length) : NULL;
	uint64_t value;

	if (!colon || (size_t)(colon - line) + 2 > length || colon[1] != ' ' ||
	    parse_u64_span(colon + 2, length - (size_t)(colon - line) - 2, 0, UINT32_MAX, &value) <
		0)
		return;

	size_t key = (size_t)(colon - line);
	if (nodes_is(line, key, "ModifyDeviceFiles") || nodes_is(line, key, "DeviceFileModify"))
		out->may_make = value != 0;
	else if (nodes_is(line, key, "DeviceFileUID"))
		out->uid = (uint32_t)value;
	else if (nodes_is(line, key, "DeviceFileGID"))
		out->gid = (uint32_t)value;
	else if (nodes_is(line, key, "DeviceFileMode") && value <= 0777)
		out->mode = (uint32_t)value;
	else if (nodes_is(line, key, "DeviceFileMinor") && value <= NODES_MINOR_MAX) {
		out->minor = (uint32_t)value;
		out->has_minor = true;
	}
}

void nodes_rule_parse(const char *text, size_t length, struct nodes_rule *out)
{
	const char *line;
	size_t line_length;
	while (nodes_line(&text, &length, &line, &line_length))
		nodes_take_rule(line, line_length, out);
}

/* --- making ---------------------------------------------------------------------------------- */

static int nodes_mknod(const char *path, mode_t mode, uid_t uid, gid_t gid, dev_t device)
{
	if (mknod(path, S_IFCHR | 0600, device) < 0)
		return -errno;
	if (lchown(path, uid, gid) == 0 && chmod(path, mode) == 0)
		return 0;
	int code = -errno;
	(void)unlink(path); /* one of another mode than it should have would stay so */
	return code;
}

static void nodes_add(struct nodes *nodes, const char *path, const struct nodes_rule *rule,
		      uint32_t major, uint32_t minor)
{
	const struct nodes_options *options = nodes->options;
	char full[FILE_PATH_MAX];
	struct stat status;

	if (major == 0 || !rule->may_make || file_path(full, NULL, "%s%s", options->root, path) < 0)
		return;
	if (lstat(full, &status) == 0 || errno != ENOENT)
		return; /* whatever it is: somebody else's */

	dev_t device = makedev(major, minor);
	int rc = options->make ? options->make(options->context, full, rule->mode, rule->uid,
					       rule->gid, device)
			       : nodes_mknod(full, rule->mode, rule->uid, rule->gid, device);
	if (rc == -EEXIST)
		return; /* somebody was faster */

	if (rc < 0) {
		if (nodes->failure == 0)
			nodes->failure = err_set(nodes->err, rc,
						 "cannot make the device node "
						 "'%s': %s",
						 full, err_describe(rc));

		return;
	}

	nodes->made++;
	if (nodes->notes)
		(void)buf_printf(nodes->notes, "made %s (%u:%u)\n", full, major, minor);
}

static bool nodes_read(const struct nodes *nodes, struct buf *out, const char *path)
{
	char full[FILE_PATH_MAX];
	buf_clear(out);
	return file_path(full, NULL, "%s%s", nodes->options->root, path) == 0 &&
	       file_read(full, out, NULL) == 0;
}

static bool nodes_has_modeset(const struct nodes *nodes)
{
	char path[FILE_PATH_MAX];
	return file_path(path, NULL, "%s/sys/module/nvidia_modeset", nodes->options->root) == 0 &&
	       file_exists(path);
}

static void nodes_add_capability(struct nodes *nodes, const char *file)
{
	char path[64];
	_cleanup_buf_ struct buf text;
	struct nodes_rule rule = {.mode = 0400};

	buf_init(&text, NODES_TEXT_MAX);
	if (!nodes_read(nodes, &text, file))
		return;

	nodes_rule_parse(buf_text(&text), text.length, &rule);
	if (!rule.has_minor)
		return;

	(void)snprintf(path, sizeof(path), "/dev/nvidia-caps/nvidia-cap%u", rule.minor); /* fits */
	nodes_add(nodes, path, &rule, nodes->majors.caps, rule.minor);
}

static void nodes_add_capabilities(struct nodes *nodes, const struct inventory *inventory)
{
	char path[FILE_PATH_MAX];
	if (inventory->mig_count == 0 || nodes->majors.caps == 0 || !nodes->rule.may_make ||
	    file_path(path, NULL, "%s/dev/nvidia-caps", nodes->options->root) < 0)
		return;

	(void)mkdir(path, 0755); /* what is in the way, making the nodes tells */

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		uint32_t gpu = inventory->gpus[mig->parent].minor;

		(void)snprintf(path, sizeof(path), NODES_CAPABILITIES "/gpu%u/mig/gi%u/access", gpu,
			       mig->gi);
		nodes_add_capability(nodes, path);
		(void)snprintf(path, sizeof(path), NODES_CAPABILITIES "/gpu%u/mig/gi%u/ci%u/access",
			       gpu, mig->gi, mig->ci);
		nodes_add_capability(nodes, path);
	}
}

int nodes_make(const struct nodes_options *options, const struct inventory *inventory,
	       struct buf *notes, struct err *err)
{
	struct nodes nodes = {.options = options,
			      .rule = {.may_make = true, .mode = 0666},
			      .notes = notes,
			      .err = err};
	_cleanup_buf_ struct buf text;

	buf_init(&text, NODES_TEXT_MAX);
	if (nodes_read(&nodes, &text, "/proc/devices"))
		nodes_devices_parse(buf_text(&text), text.length, &nodes.majors);
	if (nodes_read(&nodes, &text, "/proc/driver/nvidia/params"))
		nodes_rule_parse(buf_text(&text), text.length, &nodes.rule);
	nodes_add(&nodes, "/dev/nvidiactl", &nodes.rule, nodes.majors.nvidia, NODES_MINOR_CTL);

	if (nodes_has_modeset(&nodes))
		nodes_add(&nodes, "/dev/nvidia-modeset", &nodes.rule, nodes.majors.nvidia,
			  NODES_MINOR_MODESET);

	nodes_add(&nodes, "/dev/nvidia-uvm", &nodes.rule, nodes.majors.uvm, NODES_MINOR_UVM);
	nodes_add(&nodes, "/dev/nvidia-uvm-tools", &nodes.rule, nodes.majors.uvm,
		  NODES_MINOR_UVM_TOOLS);
	nodes_add_capabilities(&nodes, inventory);

	return nodes.failure < 0 ? nodes.failure : nodes.made;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/selinux.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"

enum { SELINUX_FILE_MAX = 65536, SELINUX_POLICY_MAX = 64 };

#define SELINUX_BOOLEANS "/sys/fs/selinux/booleans/"
/* Both policies for containers have it, under this name. */
#define SELINUX_CONTAINERS SELINUX_BOOLEANS "container_manage_cgroup"
#define SELINUX_CONFIG	   "/etc/selinux/config"
#define SELINUX_STORE	   "/var/lib/selinux"

/* The first number of a file of selinuxfs: 0 or 1. A boolean's second one holds after a commit. */
static int read_switch(const struct selinux_files *files, const char *path)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, SELINUX_FILE_MAX);

	int rc = files->read(files->context, path, &text);
	if (rc < 0)
		return rc;

	const char *said = buf_text(&text);
	if ((said[0] != '0' && said[0] != '1') || (said[1] >= '0' && said[1] <= '9'))
		return -EINVAL;

	return said[0] - '0';
}

/* SELINUXTYPE of the configuration: the policy's directory. The last one counts. */
static void policy_of(const char *text, char out[SELINUX_POLICY_MAX])
{
	static const char key[] = "SELINUXTYPE=";

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, sizeof(key) - 1) != 0)
			continue;

		const char *value = line + sizeof(key) - 1;
		size_t length = strcspn(value, " \t\r\n/");
		if (length == 0 || length >= SELINUX_POLICY_MAX || value[length] == '/')
			continue;

		memcpy(out, value, length);
		out[length] = '\0';
	}
}

/* Whether our module is in the store of the policy that is in force: "targeted" on Fedora and RHEL,
 * "default" on Debian. 0: it is; -ENOENT, ... */
static int find_module(const struct selinux_files *files)
{
	char policy[SELINUX_POLICY_MAX] = "targeted", path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, SELINUX_FILE_MAX);
	if (files->read(files->context, SELINUX_CONFIG, &text) >= 0)
		policy_of(buf_text(&text), policy);

	int rc = file_path(path, NULL, SELINUX_STORE "/%s/active/modules/400/sluice-gpu", policy);
	return rc < 0 ? rc : files->find(files->context, path);
}

static int judge_enforcing(const struct selinux_files *files, enum selinux_state *out,
			   const char **out_path)
{
	static const char *const booleans[] = {
	    SELINUX_BOOLEANS "container_use_devices",
	    /* the same for the type of the GPUs' nodes alone, in newer releases */
	    SELINUX_BOOLEANS "container_use_xserver_devices",
	};
	enum selinux_state otherwise = SELINUX_STATE_NO_POLICY;

	for (size_t i = 0; i < sizeof(booleans) / sizeof(booleans[0]); i++) {
		int rc = read_switch(files, booleans[i]);
		if (rc == 1) {
			*out = SELINUX_STATE_ALLOWED;
			return 0;
		}

		if (rc < 0 && rc != -ENOENT) {
			*out_path = booleans[i];
			return rc;
		}

		if (rc == 0)
			otherwise = SELINUX_STATE_SWITCHED_OFF;
	}

	if (otherwise == SELINUX_STATE_NO_POLICY &&
	    files->find(files->context, SELINUX_CONTAINERS) == 0)
		otherwise = SELINUX_STATE_NO_RULE;

	int rc = find_module(files);
	if (rc < 0 && rc != -ENOENT) {
		*out_path = SELINUX_STORE;
		return rc;
	}

	*out = rc >= 0 ? SELINUX_STATE_ALLOWED : otherwise;
	return 0;
}

int selinux_judge(const struct selinux_files *files, enum selinux_state *out, const char **out_path)
{
	int rc = read_switch(files, SELINUX_ENFORCE);
	if (rc == 1)
		return judge_enforcing(files, out, out_path);
	if (rc < 0 && rc != -ENOENT) {
		*out_path = SELINUX_ENFORCE;
		return rc;
	}

	*out = rc == 0 ? SELINUX_STATE_PERMISSIVE : SELINUX_STATE_ABSENT;
	return 0;
}

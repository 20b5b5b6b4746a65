/* SPDX-License-Identifier: Apache-2.0 */
/* The kubelet's side: its sockets, other device plugins, and who else writes our labels. */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/domain.h"
#include "base/err.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doors/kubelet/allocatable.h"

#define KUBELET_ROOT	"/var/lib/kubelet"
#define KUBELET_PLUGINS KUBELET_ROOT "/device-plugins"

/* --- its sockets ----------------------------------------------------------------------------- */

/* Where others put the kubelet's directory. */
static const char *other_root(const struct doctor *doctor)
{
	static const char *const roots[] = {
	    "/var/lib/k0s/kubelet",
	    "/var/snap/microk8s/common/var/lib/kubelet",
	    "/var/lib/rancher/rke2/agent/kubelet",
	    "/var/data/kubelet",
	};

	for (size_t i = 0; i < array_length(roots); i++)
		if (rootfs_exists(&doctor->rootfs, roots[i]))
			return roots[i];

	return NULL;
}

static void report_no_kubelet(struct doctor *doctor)
{
	const char *other = other_root(doctor);
	if (!other && !doctor_is_for(doctor, DOCTOR_FOR_AGENT)) {
		doctor_skip(doctor, "no kubelet here");
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, KUBELET_ROOT);
	doctor_found(finding, "nothing%s%s", other ? ", but a kubelet's directory at " : "",
		     other ? other : "");
	doctor_need(finding, "the kubelet's directory");

	if (other)
		doctor_do(finding, "mount --bind %s %s   (or a link; then restart the agent)",
			  other, KUBELET_ROOT);
	else
		doctor_do(finding, "systemctl status kubelet");
}

/* Whether there is one, or what stands for it on a simulated machine. */
static int find_socket(struct doctor *doctor, const char *path)
{
	struct stat status;
	int rc = rootfs_stat(&doctor->rootfs, path, &status);
	return rc < 0 ? rc : S_ISSOCK(status.st_mode) ? 0 : -EINVAL;
}

static bool expect_socket(struct doctor *doctor, const char *path, enum doctor_status status,
			  const char *what_for)
{
	int rc = find_socket(doctor, path);
	if (rc == 0)
		return true;
	if (rc != -ENOENT && rc != -EINVAL) {
		doctor_unreadable(doctor, path, rc);
		return false;
	}

	struct doctor_finding *finding = doctor_add(doctor, status, "%s", path);
	doctor_found(finding, rc == -ENOENT ? "nothing" : "something that is no socket");
	doctor_need(finding, "the kubelet's socket, for %s", what_for);
	doctor_do(finding, "systemctl status kubelet\njournalctl -u kubelet -e");

	return false;
}

/* The kubelet by itself, or in the one program of a smaller distribution. */
static bool has_kubelet(struct doctor *doctor)
{
	static const char *const names[] = {"kubelet", "k3s-server", "k3s-agent", "kubelite"};
	for (size_t i = 0; i < array_length(names); i++)
		if (doctor_process(doctor, names[i]) > 0)
			return true;
	return false;
}

void check_kubelet_sockets(struct doctor *doctor)
{
	if (!rootfs_exists(&doctor->rootfs, KUBELET_ROOT)) {
		report_no_kubelet(doctor);
		return;
	}

	/* The directory alone may be left over, or of a package that nobody uses. */
	bool is_node = doctor_is_for(doctor, DOCTOR_FOR_AGENT) || has_kubelet(doctor);
	enum doctor_status otherwise = doctor_sees_processes(doctor) ? DOCTOR_INFO : DOCTOR_WARN;
	bool is_whole = expect_socket(doctor, KUBELET_PLUGINS "/kubelet.sock",
				      is_node ? DOCTOR_FAIL : otherwise, "handing out GPUs");

	is_whole &= expect_socket(doctor, KUBELET_ROOT "/pod-resources/kubelet.sock",
				  is_node ? DOCTOR_WARN : otherwise,
				  "the names of the pods that hold GPUs");
	if (!rootfs_exists(&doctor->rootfs, KUBELET_ROOT "/plugins_registry"))
		doctor_found(doctor_add(doctor, DOCTOR_INFO, KUBELET_ROOT "/plugins_registry"),
			     "nothing: storage and dynamic allocation cannot be registered here");
	if (is_whole)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "kubelet"), "its sockets");
}

/* --- other plugins --------------------------------------------------------------------------- */

/* Where this process finds what is at `path` below the root: links are the root's own. */
static int outer_path(const struct doctor *doctor, const char *path, char out[FILE_PATH_MAX])
{
	char real[FILE_PATH_MAX];
	int rc = rootfs_real(&doctor->rootfs, path, real);
	return rc < 0 ? rc : file_path(out, NULL, "%s%s", doctor->rootfs.path, real);
}

/* Whether somebody answers at a socket. To connect is all that is done. */
static bool is_served(const struct doctor *doctor, const char *path)
{
	char outer[FILE_PATH_MAX];
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (outer_path(doctor, path, outer) < 0)
		return false;

	int length = snprintf(address.sun_path, sizeof(address.sun_path), "%s", outer);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || length < 0 || (size_t)length >= sizeof(address.sun_path))
		return false;

	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN;
}

/* A plugin's socket that is served: device plugins of NVIDIA's resources are "nvidia-gpu.sock". */
static bool find_served(struct doctor *doctor, char out[DOCTOR_TEXT_MAX])
{
	_cleanup_rootfs_names_ struct rootfs_names names;
	if (rootfs_list(&doctor->rootfs, KUBELET_PLUGINS, ".sock", &names) < 0)
		return false;

	for (size_t i = 0; i < names.count; i++) {
		char path[FILE_PATH_MAX];
		if (!text_starts_with(names.name[i], "nvidia") ||
		    file_path(path, NULL, KUBELET_PLUGINS "/%s", names.name[i]) < 0 ||
		    find_socket(doctor, path) < 0 || !is_served(doctor, path))
			continue;

		(void)snprintf(out, DOCTOR_TEXT_MAX, "%.512s", path);
		return true;
	}

	return false;
}

void check_kubelet_other(struct doctor *doctor)
{
	char served[DOCTOR_TEXT_MAX];

	if (!rootfs_exists(&doctor->rootfs, KUBELET_PLUGINS)) {
		doctor_skip(doctor, "no kubelet here");
		return;
	}

	uint32_t pid = doctor_process(doctor, "nvidia-device-plugin");
	uint32_t agent = doctor_agent(doctor);
	bool is_other = pid == 0 && agent == 0 && find_served(doctor, served);
	if (pid == 0 && !is_other) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "device plugins"),
			     agent ? "sluice agent (process %u) and no other of NVIDIA's"
				   : "no other of NVIDIA's",
			     agent);
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "device plugins");

	if (is_other)
		doctor_found(finding, "somebody else serving %s", served);
	else
		doctor_found(finding, "NVIDIA's plugin (process %u)%s", pid,
			     agent ? " beside sluice" : "");

	doctor_need(finding, "one plugin for one resource");
	doctor_do(finding, "kubectl label node NODE nvidia.com/gpu.deploy.device-plugin=false   "
			   "(GPU Operator)\n"
			   "kubectl delete daemonset -n kube-system "
			   "nvidia-device-plugin-daemonset   (alone)");
}

/* --- what it gives out ------------------------------------------------------------------------ */

#define KUBELET_ANSWERS_NS UINT64_C(500000000) /* it is on this machine */

enum { UNITS_MAX = 4096, UNIT_MAX = 64 };

/* The GPUs behind what the kubelet could give to pods. */
struct units {
	char (*gpu)[UNIT_MAX]; /* owned; UUIDs, each once */
	size_t gpu_count;
	size_t total, mig_count;
};

static void take_unit(const char *resource, const char *unit, void *context)
{
	struct units *units = context;

	if (!text_starts_with(resource, "nvidia.com/"))
		return;

	units->total++;
	if (text_starts_with(unit, "MIG-"))
		units->mig_count++;

	/* "GPU-...::3" is a replica */
	size_t length = strcspn(unit, ":");
	if (!text_starts_with(unit, "GPU-") || length >= UNIT_MAX || units->gpu_count == UNITS_MAX)
		return;

	for (size_t i = 0; i < units->gpu_count; i++)
		if (strncmp(units->gpu[i], unit, length) == 0 && units->gpu[i][length] == '\0')
			return;

	(void)snprintf(units->gpu[units->gpu_count++], UNIT_MAX, "%.*s", (int)length, unit);
}

/* How many GPUs a driver has here: others cannot be given out. */
static uint32_t count_bound(const struct doctor_facts *facts)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < facts->gpu_count; i++)
		count += strcmp(facts->gpus[i].driver, "nvidia") == 0;
	return count;
}

static void compare_units(struct doctor *doctor, const struct units *units)
{
	uint32_t bound = count_bound(&doctor->facts);
	if (bound == 0 && units->total == 0) {
		doctor_skip(doctor, "no GPU has NVIDIA's driver");
		return;
	}

	/* Of a GPU with MIG devices no unit names the GPU. */
	if (units->total > 0 && (units->gpu_count >= bound || units->mig_count > 0)) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "kubelet"),
			     "%zu devices of nvidia.com to give out", units->total);
		return;
	}

	struct doctor_finding *finding =
	    doctor_add(doctor, units->total > 0 ? DOCTOR_WARN : DOCTOR_FAIL, "kubelet");

	if (units->total > 0)
		doctor_found(finding, "%zu of %u GPUs to give out", units->gpu_count, bound);
	else
		doctor_found(finding, "no GPU to give out, with %u here", bound);

	doctor_need(finding, "each of them registered by a device plugin");
	doctor_do(finding, "kubectl get pods -A -o wide | grep sluice\nsluice health\n"
			   "journalctl -u kubelet | grep -i 'device plugin'");
}

void check_kubelet_allocatable(struct doctor *doctor)
{
	static const char path[] = KUBELET_ROOT "/pod-resources/kubelet.sock";
	char full[FILE_PATH_MAX];
	struct units units = {.total = 0};
	struct err err = {.code = 0};

	if (find_socket(doctor, path) < 0 || outer_path(doctor, path, full) < 0) {
		doctor_skip(doctor, "no kubelet here that could be asked");
		return;
	}

	units.gpu = calloc(UNITS_MAX, UNIT_MAX);
	int rc = units.gpu ? allocatable_ask(full, KUBELET_ANSWERS_NS, take_unit, &units, &err)
			   : -ENOMEM;
	if (rc < 0) {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_UNKNOWN, "kubelet");
		doctor_found(finding, "that it does not answer: %s",
			     err.text[0] ? err.text : err_describe(rc));
		if (rc == -EACCES || rc == -EPERM)
			doctor_do(finding, "sudo sluice doctor --only kubelet.allocatable");
	} else {
		compare_units(doctor, &units);
	}

	free(units.gpu);
}

/* --- labels ---------------------------------------------------------------------------------- */

#define FEATURES_DIRECTORY "/etc/kubernetes/node-feature-discovery/features.d"
#define OWN_FEATURES	   "gfd"

enum kubelet_label_limits {
	LABEL_KEY_MAX = 320, /* prefix, slash and name of a key */
	LABEL_KEYS_MAX = 4096,
	FEATURE_FILES_MAX = 64,
	FEATURE_SIZE_MAX = 65536, /* a larger file is left out by NFD */
};

struct label_key {
	char *text; /* owned */
	size_t file;
};

struct label_keys {
	struct label_key *items; /* owned */
	size_t count;
	size_t file; /* that is read */
	bool is_bad; /* out of memory */
};

static int feature_line(const char *text, size_t length, void *context)
{
	struct label_keys *keys = context;
	const char *equals = memchr(text, '=', length);
	size_t size = equals ? (size_t)(equals - text) : length;

	while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\r'))
		size--;

	if (size == 0 || size > LABEL_KEY_MAX || text[0] == '#' || keys->count == LABEL_KEYS_MAX)
		return 0;

	struct label_key *key = &keys->items[keys->count];
	key->text = strndup(text, size);
	key->file = keys->file;
	if (!key->text) {
		keys->is_bad = true;
		return 1;
	}

	keys->count++;
	return 0;
}

/* The keys of all files that NFD would read. */
static void read_keys(struct doctor *doctor, const struct rootfs_names *names,
		      struct label_keys *keys)
{
	for (size_t i = 0; i < names->count && i < FEATURE_FILES_MAX && !keys->is_bad; i++) {
		char path[FILE_PATH_MAX];
		struct stat status;

		keys->file = i;
		if (file_path(path, NULL, FEATURES_DIRECTORY "/%s", names->name[i]) < 0 ||
		    rootfs_stat(&doctor->rootfs, path, &status) < 0 ||
		    status.st_size > FEATURE_SIZE_MAX)
			continue;

		(void)rootfs_lines(&doctor->rootfs, path, feature_line, keys);
	}
}

static int compare_keys(const void *a, const void *b)
{
	const struct label_key *left = a, *right = b;
	int order = strcmp(left->text, right->text);
	return order ? order : (left->file > right->file) - (left->file < right->file);
}

/* The first key that two files have; one of ours, or one of NVIDIA's. */
static bool report_clash(struct doctor *doctor, const struct rootfs_names *names,
			 struct label_keys *keys)
{
	uint32_t clashes = 0;
	const struct label_key *first = NULL;

	if (keys->count > 1)
		qsort(keys->items, keys->count, sizeof(*keys->items), compare_keys);

	for (size_t i = 1; i < keys->count; i++) {
		const struct label_key *key = &keys->items[i];
		if (key->file == key[-1].file || strcmp(key->text, key[-1].text) != 0 ||
		    (!text_starts_with(key->text, "nvidia.com/") &&
		     !text_starts_with(key->text, SLUICE_DOMAIN "/")))
			continue;

		first = first ? first : key;
		clashes++;
	}

	if (!first)
		return false;

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "label %s", first->text);
	doctor_found(finding, "it in %s and in %s%s", names->name[first[-1].file],
		     names->name[first->file], clashes > 1 ? ", and others as well" : "");
	doctor_need(finding, "one writer of each key");
	doctor_do(finding, "rm " FEATURES_DIRECTORY "/%s   (when nothing writes it any more)",
		  strcmp(names->name[first->file], OWN_FEATURES) == 0 ? names->name[first[-1].file]
								      : names->name[first->file]);

	return true;
}

/* GPU feature discovery writes the very file that we write. */
static bool report_discovery(struct doctor *doctor)
{
	uint32_t pid = doctor_process(doctor, "gpu-feature-discovery");
	uint32_t agent = doctor_agent(doctor);
	if (pid == 0 || agent == 0)
		return false;
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "labels nvidia.com/*");
	doctor_found(finding, "GPU feature discovery (process %u) beside sluice (process %u)", pid,
		     agent);
	doctor_need(finding, "one writer of each key");
	doctor_do(finding,
		  "kubectl label node NODE nvidia.com/gpu.deploy.gpu-feature-discovery=false");
	return true;
}

/* A file that was left over when the mode was changed is a second source. */
static bool report_mode(struct doctor *doctor, const struct label_keys *keys,
			const struct rootfs_names *names)
{
	const char *mode = doctor->options.labels_mode;
	bool has_own = false;
	for (size_t i = 0; i < keys->count; i++)
		has_own |= strcmp(names->name[keys->items[i].file], OWN_FEATURES) == 0;

	if (!mode || !has_own)
		return false;

	struct doctor_finding *finding =
	    doctor_add(doctor, DOCTOR_WARN, FEATURES_DIRECTORY "/" OWN_FEATURES);
	doctor_found(finding, "it beside sluice.labels.mode: %s", mode);
	doctor_need(finding, "one way of publishing labels");
	doctor_do(finding, "rm " FEATURES_DIRECTORY "/" OWN_FEATURES);

	return true;
}

void check_labels_clash(struct doctor *doctor)
{
	_cleanup_rootfs_names_ struct rootfs_names names;
	struct label_keys keys = {.items = NULL};
	bool is_told = report_discovery(doctor);
	int rc = rootfs_list(&doctor->rootfs, FEATURES_DIRECTORY, NULL, &names);
	if (rc == -ENOENT && !is_told) {
		doctor_skip(doctor, "no node feature discovery here");
		return;
	}

	if (rc < 0 && rc != -ENOENT) {
		doctor_unreadable(doctor, FEATURES_DIRECTORY, rc);
		return;
	}

	keys.items = calloc(LABEL_KEYS_MAX, sizeof(*keys.items));
	if (keys.items)
		read_keys(doctor, &names, &keys);

	if (!keys.items || keys.is_bad)
		doctor_unreadable(doctor, FEATURES_DIRECTORY, -ENOMEM);
	else if (!report_clash(doctor, &names, &keys) && !report_mode(doctor, &keys, &names) &&
		 !is_told)
		doctor_found(doctor_add(doctor, DOCTOR_OK, FEATURES_DIRECTORY),
			     "no key in two files");

	for (size_t i = 0; i < keys.count; i++)
		free(keys.items[i].text);

	free(keys.items);
}

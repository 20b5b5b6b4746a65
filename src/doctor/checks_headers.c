/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of what a driver is built from and of what was built: for exactly one kernel. */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "doctor/buildneeds.h"
#include "doctor/doctor.h"
#include "doctor/modinfo.h"

enum { HEADERS_KERNELS_MAX = 64, HEADERS_REPOSITORIES_MAX = 16 };

/* A path below /lib/modules; what does not fit is not there. */
struct headers_path {
	char text[FILE_PATH_MAX];
};

static const char *headers_kernel(const struct doctor *doctor)
{
	const char *named = doctor->options.kernel;
	return named ? named : doctor->facts.kernel;
}

/* Somebody is going to build, or to load: what is missing for that is a failure. */
static bool headers_are_needed(const struct doctor *doctor)
{
	return (doctor->facts.module_version[0] == '\0' && !doctor_is_passed_through(doctor)) ||
	       doctor_is_for(doctor, DOCTOR_FOR_DRIVER_CONTAINER);
}

static enum buildneeds_system headers_system(const struct doctor *doctor)
{
	if (doctor->options.system != BUILDNEEDS_OTHER)
		return (enum buildneeds_system)doctor->options.system;
	if (doctor_os_is(doctor, "ubuntu"))
		return BUILDNEEDS_UBUNTU;
	if (doctor_os_is(doctor, "debian"))
		return BUILDNEEDS_DEBIAN;
	if (doctor_os_is(doctor, "rhel") || doctor_os_is(doctor, "fedora") ||
	    doctor_os_is(doctor, "centos") || doctor_os_is(doctor, "rhcos"))
		return BUILDNEEDS_RHEL;

	return BUILDNEEDS_OTHER;
}

/* The machine in the name of a kernel of Red Hat's, else our own. */
static void headers_machine(const char *kernel, char out[DOCTOR_WORD_MAX])
{
	static const char *const machines[] = {"x86_64", "aarch64", "ppc64le"};
	struct utsname own;

	for (size_t i = 0; i < array_length(machines); i++) {
		if (!strstr(kernel, machines[i]))
			continue;
		(void)snprintf(out, DOCTOR_WORD_MAX, "%s", machines[i]);
		return;
	}

	(void)snprintf(out, DOCTOR_WORD_MAX, "%s", uname(&own) == 0 ? own.machine : "x86_64");
}

/* The compiler of the kernel that runs; of another nothing is known. */
static void headers_compiler(struct doctor *doctor, struct buildneeds_compiler *out)
{
	char line[DOCTOR_TEXT_MAX];
	*out = (struct buildneeds_compiler){.major = 0};
	if (strcmp(headers_kernel(doctor), doctor->facts.kernel) != 0 ||
	    rootfs_word(&doctor->rootfs, "/proc/version", line, sizeof(line)) < 0)
		return;
	(void)buildneeds_compiler_parse(line, strlen(line), out);
}

/* --- driver.headers: what a module is built from ---------------------------------------------- */

/* The command that installs what is needed, the names after it. */
static void headers_advise(struct doctor *doctor, struct doctor_finding *finding)
{
	struct buildneeds_result wanted[BUILDNEEDS_MAX];
	char machine[DOCTOR_WORD_MAX], line[DOCTOR_DO_MAX] = "";
	struct buildneeds_kernel kernel = {.system = headers_system(doctor),
					   .release = headers_kernel(doctor),
					   .machine = machine};

	headers_machine(kernel.release, machine);
	headers_compiler(doctor, &kernel.compiler);

	uint32_t count = buildneeds_judge(&kernel, NULL, 0, wanted);
	size_t length = 0;
	for (uint32_t i = 0; i < count && length < sizeof(line); i++) {
		/* "gcc 11" is a package and a wish. */
		size_t size = strcspn(wanted[i].wanted, " ");
		length += (size_t)snprintf(line + length, sizeof(line) - length, " %.*s", (int)size,
					   wanted[i].wanted);
	}

	if (doctor_os_is_coreos(doctor))
		doctor_do(finding, "oc get imagestream driver-toolkit -n openshift\n"
				   "oc get node -o yaml | grep OSTREE_VERSION");
	else if (count > 0)
		doctor_do(finding, "%s install%s",
			  kernel.system == BUILDNEEDS_RHEL ? "dnf" : "apt-get", line);
}

static bool headers_have_makefile(struct doctor *doctor, const char *format, const char *kernel)
{
	struct headers_path path;
	return file_path(path.text, NULL, format, kernel) == 0 &&
	       rootfs_exists(&doctor->rootfs, path.text);
}

static void headers_look_for_source(struct doctor *doctor)
{
	/* Where distributions put them, if the link to them is missing. */
	static const char *const places[] = {"/usr/src/kernels/%s/Makefile",
					     "/usr/src/linux-headers-%s/Makefile"};
	const char *kernel = headers_kernel(doctor);
	bool is_needed = headers_are_needed(doctor);

	if (headers_have_makefile(doctor, "/lib/modules/%s/build/Makefile", kernel)) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "headers of kernel %s", kernel),
			     "/lib/modules/%s/build", kernel);
		return;
	}

	for (size_t i = 0; i < array_length(places); i++) {
		if (!headers_have_makefile(doctor, places[i], kernel))
			continue;

		struct headers_path path;
		(void)file_path(path.text, NULL, places[i], kernel);
		*strrchr(path.text, '/') = '\0';

		struct doctor_finding *finding = doctor_add(
		    doctor, is_needed ? DOCTOR_FAIL : DOCTOR_INFO, "headers of kernel %s", kernel);
		doctor_found(finding, "%.300s, but no link to it", path.text);
		doctor_need(finding, "/lib/modules/%s/build", kernel);
		doctor_do(finding, "ln -sfn %.300s /lib/modules/%s/build", path.text, kernel);

		return;
	}

	/* There they are in an image of its own, and never on the node. */
	enum doctor_status status =
	    is_needed && !doctor_os_is_coreos(doctor) ? DOCTOR_FAIL : DOCTOR_INFO;
	struct doctor_finding *finding = doctor_add(doctor, status, "headers of kernel %s", kernel);

	doctor_found(finding, "none");
	doctor_need(finding, "/lib/modules/%s/build with a Makefile", kernel);
	headers_advise(doctor, finding);
}

static void headers_look_at_compiler(struct doctor *doctor)
{
	static const char *const packages[] = {"gcc", NULL};
	struct buildneeds_compiler wanted;
	struct version installed;

	headers_compiler(doctor, &wanted);
	if (!wanted.is_gcc || doctor_version(doctor, "gcc", packages, &installed) < 0)
		return;

	bool is_right = installed.major == wanted.major;
	enum doctor_status status = is_right			 ? DOCTOR_OK
				    : headers_are_needed(doctor) ? DOCTOR_WARN
								 : DOCTOR_INFO;
	struct doctor_finding *finding = doctor_add(doctor, status, "compiler");

	doctor_found(finding, "gcc %u.%u", installed.major, installed.minor);
	if (is_right)
		return;

	doctor_need(finding, "gcc %u: the kernel was built by %s", wanted.major, wanted.version);
	if (headers_system(doctor) == BUILDNEEDS_RHEL)
		doctor_do(finding, "dnf install gcc-%u*", wanted.major);
	else if (headers_system(doctor) != BUILDNEEDS_OTHER)
		doctor_do(finding, "apt-get install gcc-%u", wanted.major);
}

/* --- driver.headers: what was built ----------------------------------------------------------- */

/* "updates/dkms/nvidia.ko.xz: ...": the driver's own module, not nvidia-uvm. Debian has it with a
 * name for each branch. */
static bool headers_is_driver(const char *text, size_t length)
{
	static const char *const names[] = {"nvidia.ko", "nvidia-current.ko", "nvidia-open.ko"};
	const char *slash = memrchr(text, '/', length);
	const char *name = slash ? slash + 1 : text;
	size_t size = length - (size_t)(name - text);

	for (size_t i = 0; i < array_length(names); i++) {
		size_t end = strlen(names[i]);
		if (size >= end && memcmp(name, names[i], end) == 0 &&
		    (size == end || name[end] == '.'))
			return true;
	}

	return false;
}

static int headers_dependency(const char *text, size_t length, void *context)
{
	const char *colon = memchr(text, ':', length);
	char *out = context;
	if (!colon || !headers_is_driver(text, (size_t)(colon - text)) ||
	    memchr(text, '\0', length))
		return 0;
	return file_path(out, NULL, "%.*s", (int)(colon - text), text) == 0;
}

/* Where the module of a kernel is. -ENOENT: it has none. */
static int headers_find_module(struct doctor *doctor, const char *kernel, struct headers_path *out)
{
	struct headers_path list, name;
	int rc = file_path(list.text, NULL, "/lib/modules/%s/modules.dep", kernel);
	if (rc == 0)
		rc = rootfs_lines(&doctor->rootfs, list.text, headers_dependency, name.text);
	if (rc <= 0)
		return rc < 0 ? rc : -ENOENT;

	/* Below /lib/modules/K, or from the root where it was linked from elsewhere. */
	if (name.text[0] == '/')
		return file_path(out->text, NULL, "%s", name.text);

	return file_path(out->text, NULL, "/lib/modules/%s/%s", kernel, name.text);
}

static void headers_judge_module(struct doctor *doctor, const char *path)
{
	const char *kernel = headers_kernel(doctor);
	struct modinfo modinfo;
	struct err err = {0};
	_cleanup_close_ int fd = rootfs_file(&doctor->rootfs, path);
	/* A module of another kernel is linked there when its symbols have the same versions. */
	if (fd == -ENOENT || strstr(path, "/weak-updates/"))
		return;

	int rc = fd < 0 ? fd : modinfo_read(fd, path, &modinfo, &err);
	size_t length = rc == 0 ? strcspn(modinfo.vermagic, " ") : 0;
	if (rc < 0 || length == 0) {
		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_UNKNOWN, "module %.140s", path);
		doctor_found(finding, "that its kernel cannot be told: %.200s",
			     rc == -ENOTSUP ? "it is compressed"
			     : rc < 0	    ? err_describe(rc)
					    : "it has no vermagic");
		doctor_do(finding, "modinfo -k %s -F vermagic nvidia", kernel);

		return;
	}

	bool is_right = length == strlen(kernel) && memcmp(modinfo.vermagic, kernel, length) == 0;
	struct doctor_finding *finding =
	    doctor_add(doctor, is_right ? DOCTOR_OK : DOCTOR_FAIL, "module %.140s", path);

	doctor_found(finding, "version %.60s for kernel %.*s",
		     modinfo.version[0] != '\0' ? modinfo.version : "(not told)", (int)length,
		     modinfo.vermagic);
	if (is_right)
		return;

	doctor_need(finding, "kernel %s", kernel);
	doctor_do(finding, "dkms autoinstall -k %s\ndepmod -a %s", kernel, kernel);
}

/* None for this kernel: has another one? The usual thing after an update of the kernel. */
static void headers_look_for_others(struct doctor *doctor)
{
	const char *kernel = headers_kernel(doctor);
	_cleanup_rootfs_names_ struct rootfs_names names = {.count = 0};
	struct headers_path path;

	if (doctor->facts.module_version[0] != '\0' || doctor_is_passed_through(doctor) ||
	    rootfs_list(&doctor->rootfs, "/lib/modules", NULL, &names) < 0)
		return;

	for (size_t i = names.count; i-- > 0 && names.count <= HEADERS_KERNELS_MAX;) {
		if (headers_find_module(doctor, names.name[i], &path) < 0)
			continue;

		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_FAIL, "module nvidia for kernel %s", kernel);
		doctor_found(finding, "one for kernel %.100s only", names.name[i]);
		doctor_need(finding, "one for kernel %s", kernel);
		doctor_do(finding, "dkms autoinstall -k %s\nmodprobe nvidia", kernel);

		return;
	}
}

static void headers_look_at_module(struct doctor *doctor)
{
	struct headers_path path;
	int rc = headers_find_module(doctor, headers_kernel(doctor), &path);
	if (rc == 0)
		headers_judge_module(doctor, path.text);
	else if (rc == -ENOENT)
		headers_look_for_others(doctor);
	else
		doctor_unreadable(doctor, "/lib/modules", rc);
}

void check_driver_headers(struct doctor *doctor)
{
	if (headers_kernel(doctor)[0] == '\0') {
		doctor_skip(doctor, "it is not known which kernel runs");
		return;
	}
	headers_look_for_source(doctor);
	headers_look_at_compiler(doctor);
	headers_look_at_module(doctor);
}

/* --- driver.packages: what a repository has --------------------------------------------------- */

static void headers_report_packages(struct doctor *doctor, const struct buildneeds_kernel *kernel,
				    const struct buildneeds_list *lists, size_t count)
{
	struct buildneeds_result results[BUILDNEEDS_MAX];
	uint64_t total = 0;
	for (size_t i = 0; i < count; i++)
		total += lists[i].total;

	uint32_t wanted = buildneeds_judge(kernel, lists, count, results);

	for (uint32_t i = 0; i < wanted; i++) {
		const struct buildneeds_result *result = &results[i];
		enum doctor_status status = result->is_there	  ? DOCTOR_OK
					    : result->is_optional ? DOCTOR_WARN
								  : DOCTOR_FAIL;
		struct doctor_finding *finding =
		    doctor_add(doctor, status, "package %.140s", result->wanted);

		if (result->is_there) {
			doctor_found(finding, "%s", result->there);
			continue;
		}

		if (result->there[0] != '\0')
			doctor_found(finding, "%s", result->there);
		else
			doctor_found(finding, "none among %llu packages",
				     (unsigned long long)total);

		doctor_need(finding, "%s for kernel %.120s", result->wanted, kernel->release);
		if (kernel->system == BUILDNEEDS_RHEL)
			doctor_do(finding, "dnf download --resolve %.*s",
				  (int)strcspn(result->wanted, " "), result->wanted);
		else
			doctor_do(finding, "apt-get download %s", result->wanted);
	}
}

/* Takes "USER:PASSWORD@" of an address out of a text: a report goes to others. */
static void headers_hide_user(const char *location, char *text)
{
	const char *user = strstr(location, "://");
	char *at;

	if (!user)
		return;

	user += 3;
	size_t length = strcspn(user, "/ ");
	const char *end = memrchr(user, '@', length);
	if (!end)
		return;

	length = (size_t)(end + 1 - user);
	while ((at = memmem(text, strlen(text), user, length)))
		memmove(at, at + length, strlen(at + length) + 1);
}

/* 0, or what was wrong with it has been reported. */
static int headers_read_repository(struct doctor *doctor, const char *location,
				   const struct buildneeds_kernel *kernel,
				   struct buildneeds_list *out)
{
	struct err err = {0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, BUILDNEEDS_TEXT_MAX);
	int rc = doctor->options.list_packages(location, buildneeds_deb_arch(kernel->machine),
					       buildneeds_patterns(kernel->system), &text, &err);
	if (rc == 0)
		rc = buildneeds_list_parse(buf_text(&text), text.length, out, &err);
	if (rc == 0)
		return 0;

	struct doctor_finding *finding =
	    doctor_add(doctor, DOCTOR_FAIL, "repository %.140s", location);
	doctor_found(finding, "that it cannot be read: %s", err.text);
	headers_hide_user(location, finding->object);
	headers_hide_user(location, finding->found);
	doctor_need(finding, "a directory or the address of a package repository");
	doctor_why(finding, "nothing can be said of packages that cannot be listed");

	return rc;
}

void check_driver_packages(struct doctor *doctor)
{
	struct buildneeds_list lists[HEADERS_REPOSITORIES_MAX] = {{.text = NULL}};
	char machine[DOCTOR_WORD_MAX];
	struct buildneeds_kernel kernel = {.system = headers_system(doctor),
					   .release = headers_kernel(doctor),
					   .machine = machine};
	size_t count = doctor->options.repository_count, used = 0;

	if (count == 0 || !doctor->options.list_packages) {
		doctor_skip(doctor, "no package repository was named with --packages");
		return;
	}

	if (kernel.system == BUILDNEEDS_OTHER || kernel.release[0] == '\0') {
		doctor_skip(doctor,
			    "it is not known what %s needs: name it with --system and "
			    "--kernel",
			    doctor->facts.os_name[0] != '\0' ? doctor->facts.os_name
							     : "this system");
		return;
	}

	headers_machine(kernel.release, machine);
	headers_compiler(doctor, &kernel.compiler);

	for (size_t i = 0; i < count && used < HEADERS_REPOSITORIES_MAX; i++) {
		int rc = headers_read_repository(doctor, doctor->options.repositories[i], &kernel,
						 &lists[used]);
		if (rc == 0)
			used++;
		else
			buildneeds_list_done(&lists[used]);
	}

	/* What is missing in half of the repositories says nothing. */
	if (used == count)
		headers_report_packages(doctor, &kernel, lists, used);

	for (size_t i = 0; i < used; i++)
		buildneeds_list_done(&lists[i]);
}

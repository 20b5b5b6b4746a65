/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/doctor/ward.h"

static void packages(const char *name, const char *version)
{
	char text[1024];
	(void)snprintf(text, sizeof(text),
		       "Package: bash\nStatus: install ok installed\nVersion: 5.2\n\n"
		       "Package: %s\nStatus: install ok installed\nPriority: optional\n"
		       "Description: x\n Version: 0.0.1\nVersion: %s\n\n"
		       "Package: removed\nStatus: deinstall ok config-files\nVersion: 1.0\n",
		       name, version);
	ward_file("/var/lib/dpkg/status", text);
}

static void cdi(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("runtime.cdi", DOCTOR_SKIP);
	packages("docker-ce", "5:28.3.0-1~debian.12~bookworm");
	(void)ward_expect("runtime.cdi", DOCTOR_OK);
	packages("docker-ce", "5:27.3.1-1~debian.12~bookworm");
	const struct doctor_finding *finding = ward_expect("runtime.cdi", DOCTOR_WARN);
	assert_non_null(strstr(finding->do_, "sluice runtime configure --runtime docker --apply"));
	assert_non_null(strstr(finding->do_, "systemctl restart docker"));
	packages("containerd", "1.6.20~ds1-1");
	finding = ward_expect("runtime.cdi", DOCTOR_WARN);
	assert_string_equal(finding->need, "a version that does CDI");
	packages("podman", "4.3.1+ds1-8");
	(void)ward_expect("runtime.cdi", DOCTOR_OK);
	packages("removed", "4.3.1");
	(void)ward_expect("runtime.cdi", DOCTOR_SKIP);
	/* what was removed may leave its configuration, and its name in the list */
	ward_file("/var/lib/dpkg/status",
		  "Package: podman\nStatus: deinstall ok config-files\nVersion: 4.3.1\n");
	(void)ward_expect("runtime.cdi", DOCTOR_SKIP);
	ward_remove("/var/lib/dpkg/status");
	ward_file("/usr/bin/crio", "");
	assert_string_equal(ward_expect("runtime.cdi", DOCTOR_UNKNOWN)->object, "crio");
}

static void not_understood(void **state)
{
	(void)state;
	ward_healthy();
	packages("docker-ce", "5:27.3.1-1~debian.12~bookworm");
	ward_file("/etc/docker/daemon.json", "{ this is no JSON");
	assert_non_null(strstr(ward_expect("runtime.cdi", DOCTOR_UNKNOWN)->found, "daemon.json"));
	(void)ward_expect("runtime.hook", DOCTOR_OK);
}

static void hooks(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("runtime.hook", DOCTOR_SKIP);
	packages("podman", "5.0.0-1");
	(void)ward_expect("runtime.hook", DOCTOR_OK);
	ward_file("/usr/share/containers/oci/hooks.d/other.json",
		  "{\"hook\": {\"path\": \"/usr/bin/other\"}}");
	(void)ward_expect("runtime.hook", DOCTOR_OK);
	ward_file("/usr/share/containers/oci/hooks.d/nvidia.json",
		  "{\"hook\": {\"path\": \"/usr/bin/nvidia-container-toolkit\"}}");
	assert_non_null(strstr(ward_expect("runtime.hook", DOCTOR_WARN)->found, "nvidia.json"));
	(void)ward_expect("runtime.cdi", DOCTOR_OK);
	packages("docker-ce", "28.3.0");
	ward_file("/etc/docker/daemon.json",
		  "{\"default-runtime\": \"nvidia\", \"runtimes\": {\"nvidia\": {\"path\": "
		  "\"nvidia-container-runtime\"}}}");
	assert_non_null(strstr(ward_expect("runtime.hook", DOCTOR_WARN)->found, "default"));
}

static const char *runc, *toolkit;

static int ask(const char *program, struct version *out, struct err *err)
{
	const char *text = strcmp(program, "runc") == 0		? runc
			   : strcmp(program, "nvidia-ctk") == 0 ? toolkit
								: NULL;
	(void)err;
	return text ? version_parse(text, strlen(text), out) : -ENOENT;
}

static void versions(void **state)
{
	(void)state;
	static const struct {
		const char *runc, *toolkit;
		enum doctor_status status;
		const char *hole;
	} cases[] = {
	    {"runc version 1.1.5", NULL, DOCTOR_WARN, "CVE-2024-45310"},
	    {"runc version 1.1.13", NULL, DOCTOR_WARN, "CVE-2024-45310"},
	    {"runc version 1.1.14", NULL, DOCTOR_OK, NULL},
	    {"runc version 1.2.0-rc.2", NULL, DOCTOR_WARN, "CVE-2024-45310"},
	    {"runc version 1.2.0-rc.3", NULL, DOCTOR_OK, NULL},
	    {"runc version 1.2.0", NULL, DOCTOR_OK, NULL},
	    {NULL, "NVIDIA Container Toolkit CLI version 1.17.7", DOCTOR_WARN, "CVE-2025-23266"},
	    {NULL, "NVIDIA Container Toolkit CLI version 1.17.8", DOCTOR_OK, NULL},
	    {"runc version 1.3.0", "version 1.13.0", DOCTOR_WARN, "CVE-2025-23266"},
	    {NULL, NULL, DOCTOR_SKIP, NULL},
	};
	ward_healthy();
	ward_options.ask_version = ask;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		runc = cases[i].runc;
		toolkit = cases[i].toolkit;
		const struct doctor_finding *finding =
		    ward_expect("runtime.version", cases[i].status);
		if (cases[i].hole)
			assert_non_null(strstr(finding->found, cases[i].hole));
	}
}

static void hostile(void **state)
{
	(void)state;
	ward_healthy();
	ward_large("/var/lib/dpkg/status", 'x', 10 << 20);
	(void)ward_expect("runtime.version", DOCTOR_SKIP);
	ward_remove("/var/lib/dpkg/status");
	ward_fifo("/var/lib/dpkg/status");
	(void)ward_expect("runtime.version", DOCTOR_SKIP);
	(void)ward_expect("runtime.cdi", DOCTOR_SKIP);
	ward_remove("/var/lib/dpkg/status");
	packages("runc", "\033[2J");
	(void)ward_expect("runtime.version", DOCTOR_SKIP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(cdi),	 ward_test(not_understood), ward_test(hooks),
	    ward_test(versions), ward_test(hostile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

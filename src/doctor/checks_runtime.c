/* SPDX-License-Identifier: Apache-2.0 */
/* Container runtimes: whether they do CDI, what of NVIDIA's stands beside it, and versions from
 * which a container could break out. */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "doctor/doctor.h"
#include "cdi/runtime/runtime.h"

#define TOOLKIT_URL "https://nvidia.custhelp.com/app/answers/detail/a_id/5659"
#define RUNC_URL    "https://github.com/opencontainers/runc/security/advisories/GHSA-jfvp-7x6p-h2pv"

enum { RUNTIMES = 4 };

/* The packages that a runtime is in, by Debian's, Docker's and CRI-O's names. */
static const struct {
	enum runtime_kind kind;
	const char *packages[4];
} runtimes[RUNTIMES] = {
    {RUNTIME_PODMAN, {"podman", NULL}},
    {RUNTIME_DOCKER, {"docker-ce", "docker.io", NULL}},
    {RUNTIME_CONTAINERD, {"containerd.io", "containerd", NULL}},
    {RUNTIME_CRIO, {"cri-o", "crio", NULL}},
};

/* Whether a program lies below the root, whose version can then not be told. */
static bool is_program(const struct doctor *doctor, const char *name)
{
	static const char *const directories[] = {"/usr/bin", "/usr/sbin", "/usr/local/bin",
						  "/opt/bin"};
	char path[FILE_PATH_MAX];
	for (size_t i = 0; i < array_length(directories); i++)
		if (file_path(path, NULL, "%s/%s", directories[i], name) == 0 &&
		    rootfs_exists(&doctor->rootfs, path))
			return true;

	return false;
}

/* What has to change for a runtime that is installed. -ENOENT: it is not. */
static int plan_of(struct doctor *doctor, size_t index, struct version *version,
		   struct runtime_plan *out, struct err *err)
{
	int rc = doctor_version(doctor, runtime_program(runtimes[index].kind),
				runtimes[index].packages, version);
	if (rc < 0 && rc != -ENOENT && is_program(doctor, runtime_program(runtimes[index].kind)))
		return err_set(err, -ENODATA, "a version that cannot be told from here");
	if (rc < 0)
		return -ENOENT;

	const struct runtime_machine machine = {
	    .kind = runtimes[index].kind, .root = doctor->rootfs.path, .version = *version};
	return runtime_plan(&machine, out, err);
}

static void report_plan(struct doctor *doctor, enum runtime_kind kind,
			const struct runtime_plan *plan)
{
	const char *name = runtime_kind_to_string(kind), *restart = runtime_restart(kind);
	struct doctor_finding *finding =
	    doctor_add(doctor, plan->state == RUNTIME_READY ? DOCTOR_OK : DOCTOR_WARN, "%s", name);

	doctor_found(finding, "%s", plan->text);
	if (plan->state == RUNTIME_CHANGE) {
		doctor_need(finding, "CDI switched on");
		doctor_do(finding, "sluice runtime configure --runtime %s --apply%s%s", name,
			  restart ? "\n" : "", restart ? restart : "");
	} else if (plan->state == RUNTIME_CANNOT) {
		doctor_need(finding, "a version that does CDI");
	}
}

/* Notes about directories and files of CDI itself. */
static void report_notes(struct doctor *doctor, enum runtime_kind kind,
			 const struct runtime_plan *plan, enum runtime_about about)
{
	for (uint32_t i = 0; i < plan->note_count; i++) {
		const struct runtime_note *note = &plan->notes[i];
		if (!note->is_warning || note->about != about)
			continue;

		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_WARN, "%s", runtime_kind_to_string(kind));
		doctor_found(finding, "%s", note->text);
		if (about == RUNTIME_ABOUT_HOOK)
			doctor_need(finding, "one way into containers");
		doctor_do(finding, "sluice runtime configure --runtime %s",
			  runtime_kind_to_string(kind));
	}
}

/* Both checks go through the same plans. */
static void look(struct doctor *doctor, bool is_hook)
{
	uint32_t installed = 0;
	uint32_t before = doctor->count;

	for (size_t i = 0; i < RUNTIMES; i++) {
		struct version version;
		struct err err = {0};
		_cleanup_runtime_plan_ struct runtime_plan plan = {.note_count = 0};
		int rc = plan_of(doctor, i, &version, &plan, &err);

		installed += rc != -ENOENT;
		if (rc < 0 && rc != -ENOENT && !is_hook)
			doctor_found(doctor_add(doctor, DOCTOR_UNKNOWN, "%s",
						runtime_kind_to_string(runtimes[i].kind)),
				     "%s", err.text);

		if (rc < 0)
			continue;
		if (!is_hook)
			report_plan(doctor, runtimes[i].kind, &plan);
		report_notes(doctor, runtimes[i].kind, &plan,
			     is_hook ? RUNTIME_ABOUT_HOOK : RUNTIME_ABOUT_CDI);
	}

	if (installed == 0)
		doctor_skip(doctor, "no container runtime is known here");
	else if (is_hook && doctor->count == before)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "container runtimes"),
			     "no hook or runtime of NVIDIA's beside CDI");
}

void check_runtime_cdi(struct doctor *doctor)
{
	look(doctor, false);
}

void check_runtime_hook(struct doctor *doctor)
{
	look(doctor, true);
}

/* --- versions -------------------------------------------------------------------------------- */

/* Fixed in 1.1.14 and in 1.2.0-rc.3. */
static bool runc_is_fixed(const struct version *version)
{
	bool is_candidate = version->major == 1 && version->minor == 2 && version->patch == 0 &&
			    (strstr(version->text, "rc.1") || strstr(version->text, "rc.2") ||
			     strstr(version->text, "rc1") || strstr(version->text, "rc2"));
	return version_is_at_least(version, 1, 1, 14) && !is_candidate;
}

static void report_version(struct doctor *doctor, const char *program,
			   const struct version *version, bool is_fixed, const char *fixed,
			   const char *hole, const char *url)
{
	struct doctor_finding *finding =
	    doctor_add(doctor, is_fixed ? DOCTOR_OK : DOCTOR_WARN, "%s", program);
	doctor_found(finding, "version %s%s%s", version->text, is_fixed ? "" : ", which has ",
		     is_fixed ? "" : hole);
	if (is_fixed)
		return;

	doctor_need(finding, "version %s, or a distribution's package that has the fix", fixed);
	doctor_do(finding, "apt-get install --only-upgrade %s   (or dnf upgrade %s)", program,
		  program);
	doctor_url(finding, url);
}

void check_runtime_version(struct doctor *doctor)
{
	static const char *const runc[] = {"runc", NULL};
	static const char *const toolkit[] = {"nvidia-container-toolkit-base",
					      "nvidia-container-toolkit", NULL};

	struct version version;
	uint32_t known = 0;

	if (doctor_version(doctor, "runc", runc, &version) == 0) {
		known++;
		report_version(doctor, "runc", &version, runc_is_fixed(&version), "1.1.14",
			       "CVE-2024-45310", RUNC_URL);
	}

	if (doctor_version(doctor, "nvidia-ctk", toolkit, &version) == 0) {
		known++;
		report_version(doctor, "nvidia-container-toolkit", &version,
			       version_is_at_least(&version, 1, 17, 8), "1.17.8", "CVE-2025-23266",
			       TOOLKIT_URL);
	}

	if (known == 0)
		doctor_skip(doctor, "neither runc nor NVIDIA's container toolkit is known here");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which version a program of the machine is, and which processes run there. */
#include "doctor/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "doctor/lines.h"

#define DPKG_STATUS "/var/lib/dpkg/status"

enum { FIRST_COMMS = 256 };

/* A paragraph of the list at a time. */
struct dpkg {
	const char *const *packages;
	bool is_wanted, is_installed;
	char version[VERSION_TEXT_MAX];
};

static int dpkg_line(const char *text, size_t length, void *context)
{
	struct dpkg *dpkg = context;
	char word[DOCTOR_WORD_MAX];

	if (length == 0)
		dpkg->is_wanted = dpkg->is_installed = false;
	if (lines_field(text, length, "Package", word, sizeof(word)))
		for (const char *const *name = dpkg->packages; *name; name++)
			dpkg->is_wanted |= strcmp(word, *name) == 0;
	if (dpkg->is_wanted && lines_field(text, length, "Status", word, sizeof(word)))
		dpkg->is_installed = strcmp(word, "install ok installed") == 0 ||
				     strcmp(word, "hold ok installed") == 0;

	return dpkg->is_wanted && dpkg->is_installed &&
	       lines_field(text, length, "Version", dpkg->version, sizeof(dpkg->version));
}

/* dpkg's list, whose versions may begin with an epoch: "5:28.2.1-1~debian.12". */
static int version_of_package(struct doctor *doctor, const char *const *packages,
			      struct version *out)
{
	struct dpkg dpkg = {.packages = packages};
	int rc = rootfs_lines(&doctor->rootfs, DPKG_STATUS, dpkg_line, &dpkg);
	if (rc == -ENOENT)
		return -ENODATA;
	if (rc <= 0)
		return rc < 0 ? rc : -ENOENT;

	const char *colon = strchr(dpkg.version, ':');
	const char *text = colon ? colon + 1 : dpkg.version;

	return version_parse(text, strlen(text), out) < 0 ? -ENODATA : 0;
}

/* Asks a program, once. */
static int ask_program(struct doctor *doctor, const char *program, struct version *out)
{
	for (uint32_t i = 0; i < doctor->answer_count; i++) {
		const struct doctor_answer *answer = &doctor->answers[i];
		if (strcmp(answer->program, program) != 0)
			continue;
		if (answer->rc == 0)
			*out = answer->version;

		return answer->rc;
	}

	struct doctor_answer answer = {.program = program};
	answer.rc = doctor->options.ask_version(program, &answer.version, NULL);
	if (doctor->answer_count < DOCTOR_ANSWERS_MAX)
		doctor->answers[doctor->answer_count++] = answer;
	if (answer.rc == 0)
		*out = answer.version;

	return answer.rc;
}

int doctor_version(struct doctor *doctor, const char *program, const char *const *packages,
		   struct version *out)
{
	int rc = doctor->options.ask_version ? ask_program(doctor, program, out) : -ENODATA;
	/* A program that does not answer is in the list of packages all the same. */
	if (rc == 0 || rc == -ENOENT)
		return rc;
	return packages ? version_of_package(doctor, packages, out) : -ENODATA;
}

/* --- processes ------------------------------------------------------------------------------- */

static int read_comm(int directory, const char *name, void *context)
{
	struct doctor *doctor = context;
	char path[FILE_PATH_MAX];
	uint64_t pid;

	(void)directory;
	if (doctor->comm_count == DOCTOR_COMMS_MAX)
		return 1;
	if (parse_u64(name, 1, UINT32_MAX, &pid) < 0)
		return 0;

	if (array_room(&doctor->comms, doctor->comm_count, &doctor->comm_room, FIRST_COMMS) < 0)
		return -ENOMEM;

	struct doctor_comm *comm = &doctor->comms[doctor->comm_count];
	if (file_path(path, NULL, "/proc/%s/comm", name) < 0 ||
	    rootfs_word(&doctor->rootfs, path, comm->name, sizeof(comm->name)) < 0)
		return 0;

	comm->pid = (uint32_t)pid;
	doctor->comm_count++;
	return 0;
}

static int compare_comms(const void *a, const void *b)
{
	const struct doctor_comm *left = a, *right = b;
	return (left->pid > right->pid) - (left->pid < right->pid);
}

/* All processes, once: machines have many, and there are many questions. */
static void read_comms(struct doctor *doctor)
{
	if (array_room(&doctor->comms, 0, &doctor->comm_room, FIRST_COMMS) < 0)
		return;
	(void)rootfs_each(&doctor->rootfs, "/proc", read_comm, doctor);
	qsort(doctor->comms, doctor->comm_count, sizeof(*doctor->comms), compare_comms);
}

/* The first process with this name for which `is_it` holds (NULL: any). */
static uint32_t find_process(struct doctor *doctor, const char *name,
			     bool (*is_it)(struct doctor *doctor, uint32_t pid))
{
	if (!doctor->comms)
		read_comms(doctor);

	for (uint32_t i = 0; i < doctor->comm_count; i++) {
		const struct doctor_comm *comm = &doctor->comms[i];
		if (strncmp(comm->name, name, sizeof(comm->name) - 1) == 0 &&
		    (!is_it || is_it(doctor, comm->pid)))
			return comm->pid;
	}

	return 0;
}

uint32_t doctor_process(struct doctor *doctor, const char *name)
{
	return find_process(doctor, name, NULL);
}

bool doctor_sees_processes(struct doctor *doctor)
{
	char name[DOCTOR_WORD_MAX];
	if (doctor->rootfs.path[0] != '\0' && doctor->rootfs.kernel_fd < 0)
		return true;
	return rootfs_word(&doctor->rootfs, "/proc/2/comm", name, sizeof(name)) == 0 &&
	       strcmp(name, "kthreadd") == 0;
}

/* Whether the second word of its command line is "agent". */
static bool is_agent(struct doctor *doctor, uint32_t pid)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, ROOTFS_SMALL_MAX);
	if (file_path(path, NULL, "/proc/%u/cmdline", pid) < 0 ||
	    rootfs_read(&doctor->rootfs, path, &text) < 0)
		return false;

	size_t first = strlen(buf_text(&text)) + 1;
	return first < text.length && strcmp(buf_text(&text) + first, "agent") == 0;
}

uint32_t doctor_agent(struct doctor *doctor)
{
	return find_process(doctor, "sluice", is_agent);
}

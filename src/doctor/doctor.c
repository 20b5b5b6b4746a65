/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/names.h"
#include "base/suggest.h"
#include "doctor/facts.h"

enum { FIRST_FINDINGS = 32 };

const char *doctor_status_to_string(enum doctor_status status)
{
	static const char *const names[] = {
	    [DOCTOR_OK] = "ok",	    [DOCTOR_INFO] = "info",	  [DOCTOR_WARN] = "warn",
	    [DOCTOR_FAIL] = "fail", [DOCTOR_UNKNOWN] = "unknown", [DOCTOR_SKIP] = "skip",
	};
	return names_at(names, status, "unknown");
}

int doctor_new(const struct doctor_options *options, struct doctor **out, struct err *err)
{
	_cleanup_doctor_ struct doctor *doctor = calloc(1, sizeof(*doctor));
	if (!doctor)
		return err_set(err, -ENOMEM, "out of memory");

	doctor->options = *options;
	doctor->rootfs = (struct rootfs)ROOTFS_CLOSED;

	int rc = rootfs_open(options->root, options->own_kernel, &doctor->rootfs, err);
	if (rc < 0)
		return rc;

	facts_find(&doctor->rootfs, &doctor->facts);
	*out = doctor;
	doctor = NULL;

	return 0;
}

struct doctor *doctor_free(struct doctor *doctor)
{
	if (!doctor)
		return NULL;

	rootfs_close(&doctor->rootfs);
	free(doctor->findings);
	free(doctor->comms);
	free(doctor->rdma);
	free(doctor->holders);
	json_decref(doctor->cluster);
	free(doctor);

	return NULL;
}

/* --- which checks ---------------------------------------------------------------------------- */

/* "driver" and "driver.*" stand for each "driver.NAME". */
static bool is_of_group(const char *id, const char *word)
{
	size_t length = strlen(word);
	if (length > 2 && strcmp(word + length - 2, ".*") == 0)
		length -= 2;
	return strncmp(id, word, length) == 0 && id[length] == '.';
}

size_t doctor_mark(const char *word, bool *marks, const char **out_nearest)
{
	struct suggest suggest;
	size_t count = 0;

	suggest_init(&suggest, word);

	for (size_t i = 0; i < doctor_check_count; i++) {
		const char *id = doctor_checks[i].id;
		suggest_offer(&suggest, id);
		if (strcmp(id, word) != 0 && !is_of_group(id, word))
			continue;

		marks[i] = true;
		count++;
	}

	*out_nearest = suggest_best(&suggest);
	return count;
}

void doctor_run(struct doctor *doctor, const bool *marks, const bool *named)
{
	for (size_t i = 0; i < doctor_check_count; i++) {
		const struct doctor_check *check = &doctor_checks[i];

		if (!marks[i])
			continue;

		doctor->check = check;
		if (check->needs_gpu && !named[i] && doctor->facts.gpu_count == 0)
			doctor_skip(doctor, "no NVIDIA GPU here");
		else
			check->run(doctor);
	}

	doctor->check = NULL;
}

uint32_t doctor_total(const struct doctor *doctor, enum doctor_status status)
{
	uint32_t total = 0;
	for (uint32_t i = 0; i < doctor->count; i++)
		total += doctor->findings[i].status == status;
	return total;
}

enum findings_exit doctor_exit(const struct doctor *doctor)
{
	return findings_exit_code(
	    doctor_total(doctor, DOCTOR_FAIL) > 0,
	    doctor_total(doctor, DOCTOR_WARN) > 0 || doctor->lost > 0,
	    doctor_total(doctor, DOCTOR_OK) + doctor_total(doctor, DOCTOR_INFO) > 0);
}

/* --- findings -------------------------------------------------------------------------------- */

static struct doctor_finding *new_finding(struct doctor *doctor)
{
	if (doctor->count == DOCTOR_FINDINGS_MAX ||
	    array_room(&doctor->findings, doctor->count, &doctor->room, FIRST_FINDINGS) < 0) {
		doctor->lost++;
		return &doctor->spare;
	}

	return &doctor->findings[doctor->count++];
}

/* Cut to what fits, with dots where something is missing. */
__attribute__((format(printf, 3, 0))) static void put_text(char *out, size_t size,
							   const char *format, va_list arguments)
{
	static const char dots[] = "...";
	int length = vsnprintf(out, size, format, arguments);
	if (length >= (int)size)
		memcpy(out + size - sizeof(dots), dots, sizeof(dots));
}

struct doctor_finding *doctor_add(struct doctor *doctor, enum doctor_status status,
				  const char *object, ...)
{
	struct doctor_finding *finding = new_finding(doctor);
	*finding = (struct doctor_finding){
	    .id = doctor->check->id,
	    .status = status,
	    .why = doctor->check->why,
	    .url = doctor->check->url,
	};

	va_list arguments;
	va_start(arguments, object);
	put_text(finding->object, sizeof(finding->object), object, arguments);
	va_end(arguments);

	return finding;
}

struct doctor_finding *doctor_found(struct doctor_finding *finding, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	put_text(finding->found, sizeof(finding->found), format, arguments);
	va_end(arguments);
	return finding;
}

struct doctor_finding *doctor_need(struct doctor_finding *finding, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	put_text(finding->need, sizeof(finding->need), format, arguments);
	va_end(arguments);
	return finding;
}

struct doctor_finding *doctor_do(struct doctor_finding *finding, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	put_text(finding->do_, sizeof(finding->do_), format, arguments);
	va_end(arguments);
	return finding;
}

struct doctor_finding *doctor_why(struct doctor_finding *finding, const char *why)
{
	finding->why = why;
	return finding;
}

struct doctor_finding *doctor_url(struct doctor_finding *finding, const char *url)
{
	finding->url = url;
	return finding;
}

void doctor_skip(struct doctor *doctor, const char *format, ...)
{
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_SKIP, "%s", "");
	va_list arguments;
	va_start(arguments, format);
	put_text(finding->found, sizeof(finding->found), format, arguments);
	va_end(arguments);
}

void doctor_unreadable(struct doctor *doctor, const char *path, int code)
{
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_UNKNOWN, "%s", path);

	switch (-code) {
	case EFBIG:
		doctor_found(finding, "a file that is too large to be read");
		break;
	case EINVAL:
		doctor_found(finding, "something that is not understood");
		break;
	default:
		doctor_found(finding, "that it cannot be read: %s", err_describe(code));
	}

	if (code == -EACCES || code == -EPERM)
		doctor_do(finding, "sudo sluice doctor --only %s", doctor->check->id);
}

void doctor_unseen(struct doctor *doctor, const char *daemon)
{
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_UNKNOWN, "%s", daemon);
	doctor_found(finding, "not all processes of the machine to be seen from here");
	doctor_do(finding, "sudo sluice doctor --only %s   # outside of containers",
		  doctor->check->id);
}

/* --- what checks ask ------------------------------------------------------------------------- */

bool doctor_is_for(const struct doctor *doctor, enum doctor_purpose purpose)
{
	return (doctor->options.purpose & (uint32_t)purpose) != 0;
}

bool doctor_is_passed_through(const struct doctor *doctor)
{
	const struct doctor_facts *facts = &doctor->facts;
	for (uint32_t i = 0; i < facts->gpu_count; i++)
		if (strcmp(facts->gpus[i].driver, "vfio-pci") != 0)
			return false;
	return facts->gpu_count > 0;
}

/* Whether `word` is one of the words of `list`, which blanks part. */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = list; *at; at += strspn(at, " ")) {
		size_t size = strcspn(at, " ");
		if (size == length && strncmp(at, word, size) == 0)
			return true;
		at += size;
	}

	return false;
}

bool doctor_os_is(const struct doctor *doctor, const char *id)
{
	return strcmp(doctor->facts.os_id, id) == 0 || has_word(doctor->facts.os_like, id);
}

bool doctor_os_is_coreos(const struct doctor *doctor)
{
	const struct doctor_facts *facts = &doctor->facts;
	return strcmp(facts->os_id, "rhcos") == 0 ||
	       (strcmp(facts->os_id, "fedora") == 0 && facts->os_ostree[0] != '\0');
}

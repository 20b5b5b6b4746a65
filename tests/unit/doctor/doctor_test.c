/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "doctor/checks.h"
#include "tests/unit/doctor/ward.h"

static void ids(void **state)
{
	(void)state;
	bool marks[DOCTOR_CHECKS_MAX] = {false};
	const char *nearest;
	assert_int_equal(doctor_mark("driver.bound", marks, &nearest), 1);
	assert_int_equal(doctor_mark("drivr.bound", marks, &nearest), 0);
	assert_string_equal(nearest, "driver.bound");
	size_t group = doctor_mark("driver", marks, &nearest);
	assert_true(group > 1);
	assert_int_equal(doctor_mark("driver.*", marks, &nearest), group);
	assert_int_equal(doctor_mark("driv", marks, &nearest), 0);
}

static void exits(void **state)
{
	(void)state;
	struct doctor *doctor = ward_run("gpu.pci");
	assert_int_equal(doctor_exit(doctor), 3);
	doctor->check = &doctor_checks[0];
	doctor_add(doctor, DOCTOR_UNKNOWN, "it");
	assert_int_equal(doctor_exit(doctor), 3);
	doctor_add(doctor, DOCTOR_INFO, "it");
	assert_int_equal(doctor_exit(doctor), 0);
	doctor_add(doctor, DOCTOR_WARN, "it");
	assert_int_equal(doctor_exit(doctor), 1);
	doctor_add(doctor, DOCTOR_FAIL, "it");
	assert_int_equal(doctor_exit(doctor), 2);
	assert_int_equal(doctor_total(doctor, DOCTOR_FAIL), 1);
}

static void texts_are_cut(void **state)
{
	(void)state;
	char text[2 * DOCTOR_TEXT_MAX];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	struct doctor *doctor = ward_run("gpu.pci");
	doctor->check = &doctor_checks[0];
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "%s", text);
	doctor_found(finding, "%s", text);
	assert_int_equal(strlen(finding->object), DOCTOR_OBJECT_MAX - 1);
	assert_string_equal(finding->found + DOCTOR_TEXT_MAX - 4, "...");
	assert_string_equal(finding->why, doctor_checks[0].why);
	doctor_why(doctor_url(finding, "https://example.com"), "because");
	assert_string_equal(finding->url, "https://example.com");
	assert_string_equal(finding->why, "because");
}

static void too_many(void **state)
{
	(void)state;
	struct doctor *doctor = ward_run("gpu.pci");
	doctor->check = &doctor_checks[0];
	for (int i = 0; i < DOCTOR_FINDINGS_MAX + 5; i++)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "%d", i), "it");
	assert_int_equal(doctor->count + doctor->lost, DOCTOR_FINDINGS_MAX + 6);
	assert_true(doctor->count <= DOCTOR_FINDINGS_MAX);
	assert_true(doctor->lost > 0);
	assert_int_equal(doctor_exit(doctor), 1);
}

static void unreadable(void **state)
{
	(void)state;
	struct doctor *doctor = ward_run("gpu.pci");
	doctor->check = &doctor_checks[0];
	doctor_unreadable(doctor, "/etc/x", -EACCES);
	const struct doctor_finding *finding = &doctor->findings[doctor->count - 1];
	assert_int_equal(finding->status, DOCTOR_UNKNOWN);
	assert_string_equal(finding->do_, "sudo sluice doctor --only gpu.pci");
	doctor_unreadable(doctor, "/etc/x", -EFBIG);
	assert_string_equal(doctor->findings[doctor->count - 1].do_, "");
}

static void no_such_root(void **state)
{
	(void)state;
	struct doctor *doctor = NULL;
	struct err err;
	const struct doctor_options options = {.root = unit_path(unit_top, "none")};
	assert_int_equal(doctor_new(&options, &doctor, &err), -ENOENT);
	assert_null(doctor);
	assert_non_null(strstr(err.text, "none"));
}

static int asked;

static int ask(const char *program, struct version *out, struct err *err)
{
	(void)err;
	asked++;
	return strcmp(program, "runc") == 0 ? version_parse("1.3.0", 5, out) : -EIO;
}

static void programs_are_asked_once(void **state)
{
	(void)state;
	static const char *const packages[] = {"crun", NULL};
	struct version version = {.major = 0};
	asked = 0;
	ward_options.ask_version = ask;
	ward_file("/var/lib/dpkg/status",
		  "Package: crun\nStatus: install ok installed\nVersion: 1.8.1-1\n");
	struct doctor *doctor = ward_run("gpu.pci");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(doctor_version(doctor, "runc", NULL, &version), 0);
		assert_int_equal(version.minor, 3);
		assert_int_equal(doctor_version(doctor, "crun", NULL, &version), -ENODATA);
		/* it does not answer, but is in the list of packages */
		assert_int_equal(doctor_version(doctor, "crun", packages, &version), 0);
		assert_int_equal(version.minor, 8);
	}
	assert_int_equal(asked, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(ids),
	    ward_test(exits),
	    ward_test(texts_are_cut),
	    ward_test(too_many),
	    ward_test(unreadable),
	    ward_test(no_such_root),
	    ward_test(programs_are_asked_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

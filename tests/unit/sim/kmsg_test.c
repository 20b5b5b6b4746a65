/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kmsg.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/profile.h"
#include "tests/unit/unit.h"

static struct sim_machine machine;
static char *directory;
static char content[65536];

static int setup(void **state)
{
	const struct sim_options options = {.seed = 1};
	struct sim_error error;
	(void)state;
	directory = unit_tmp_new();
	if (sim_profile_load("dgx-a100", &options, &machine, &error) < 0)
		fail_msg("%s", error.text);
	(void)snprintf(machine.root, sizeof(machine.root), "%s", directory);
	unit_write(unit_path(directory, "kmsg"), "");
	unit_write(unit_path(directory, "uevent"), "");
	machine.clock = SIM_CLOCK_VIRTUAL; /* else records are stamped with the real clock */
	machine.tick = 25;
	machine.kmsg_seq = 7;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	directory = unit_tmp_free(directory);
	return 0;
}

static const char *text_of(const char *name)
{
	int fd = open(unit_path(directory, name), O_RDONLY);
	ssize_t length = read(fd, content, sizeof(content) - 1);
	(void)close(fd);
	content[length > 0 ? length : 0] = '\0';
	return content;
}

static void expect(const struct sim_kmsg_xid *xid, const char *text)
{
	struct sim_error error = {0};
	if (sim_kmsg_xid(&machine, xid, &error) != 0)
		fail_msg("%s", error.text);
	assert_string_equal(text_of("kmsg"), text);
}

static void new_form(void **state)
{
	(void)state;
	expect(&(struct sim_kmsg_xid){.xid = 13, .gpu = 1, .gi = SIM_WHOLE_GPU, .text = "what"},
	       "4,7,2500000,-;NVRM: Xid (PCI:0000:0f:00): 13, pid='<unknown>', name=<unknown>, "
	       "what\n");
	assert_int_equal(machine.kmsg_seq, 8);
}

static void old_form(void **state)
{
	(void)state;
	expect(&(struct sim_kmsg_xid){.xid = 13, .form = SIM_KMSG_OLD, .text = "what"},
	       "4,7,2500000,-;NVRM: Xid (0000:07:00): 13, what\n");
}

static void mig_form(void **state)
{
	(void)state;
	expect(&(struct sim_kmsg_xid){.xid = 31, .gi = 5, .form = SIM_KMSG_MIG, .text = "t"},
	       "4,7,2500000,-;NVRM: Xid (PCI:0000:07:00 GPU-I:05): 31, pid='<unknown>', "
	       "name=<unknown>, t\n");
}

static void three_lines(void **state)
{
	(void)state;
	expect(&(struct sim_kmsg_xid){.xid = 79, .form = SIM_KMSG_THREELINE},
	       "4,7,2500000,-;NVRM: The NVIDIA GPU 0000:07:00.0\n"
	       "4,8,2500000,-;NVRM: (PCI ID: 10de:20b0) installed in this system has\n"
	       "4,9,2500000,-;NVRM: fallen off the bus and is not responding to commands.\n");
}

static void nvlink5_form(void **state)
{
	(void)state;
	expect(&(struct sim_kmsg_xid){.xid = 149, .form = SIM_KMSG_NVLINK5, .link = 9},
	       "4,7,2500000,-;NVRM: Xid (PCI:0000:07:00): 149, NETIR       Fatal    XC0 i0 Link 09 "
	       "(0x00000004 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)\n");
}

static void forms_that_do_not_fit(void **state)
{
	struct sim_error error = {0};
	(void)state;
	const struct sim_kmsg_xid wrong[] = {
	    {.xid = 13, .form = SIM_KMSG_THREELINE},
	    {.xid = 143, .form = SIM_KMSG_NVLINK5},
	    {.xid = 151, .form = SIM_KMSG_NVLINK5},
	};
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(sim_kmsg_xid(&machine, &wrong[i], &error), -1);
		assert_int_equal(error.exit_code, SIM_EXIT_INPUT);
	}
	assert_string_equal(text_of("kmsg"), "");
	assert_int_equal(machine.kmsg_seq, 7);
}

static void forged_records_have_another_facility(void **state)
{
	(void)state;
	expect(&(struct sim_kmsg_xid){.xid = 48, .form = SIM_KMSG_OLD, .text = "t", .forged = true},
	       "12,7,2500000,-;NVRM: Xid (0000:07:00): 48, t\n");
}

static void hostile_text_is_escaped(void **state)
{
	struct sim_error error = {0};
	(void)state;
	assert_int_equal(sim_kmsg_line(&machine, SIM_KMSG_INFO, "+pci:0000:07:00.0", &error, "%s",
				       "a\n6,1,2,-;b\\\x7f\xc3"),
			 0);
	assert_string_equal(text_of("kmsg"), "6,7,2500000,-;a\\x0a6,1,2,-;b\\x5c\\x7f\\xc3\n"
					     " SUBSYSTEM=pci\n DEVICE=+pci:0000:07:00.0\n");
}

static void long_text_stays_one_record(void **state)
{
	struct sim_error error = {0};
	(void)state;
	assert_int_equal(sim_kmsg_line(&machine, SIM_KMSG_INFO, NULL, &error, "%05000d", 1), 0);
	const char *text = text_of("kmsg");
	assert_true(strlen(text) < 1024);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void overwriting_leaves_a_gap(void **state)
{
	struct sim_error error = {0};
	(void)state;
	assert_int_equal(sim_kmsg_flood(&machine, 100, &error), 0);
	assert_int_equal(machine.kmsg_seq, 107);
	assert_int_equal(sim_kmsg_overwrite(&machine, 50, &error), 0);
	assert_memory_equal(text_of("kmsg"), "6,157,", 6);
}

static void a_link_is_never_written_through(void **state)
{
	struct sim_error error = {0};
	(void)state;
	const char *victim = unit_path(directory, "victim");
	unit_write(victim, "");
	(void)unlink(unit_path(directory, "kmsg"));
	assert_int_equal(symlink(victim, unit_path(directory, "kmsg")), 0);
	assert_int_equal(sim_kmsg_line(&machine, SIM_KMSG_INFO, NULL, &error, "x"), -1);
	assert_string_equal(text_of("victim"), "");
	assert_int_equal(machine.kmsg_seq, 7);
}

static void uevents(void **state)
{
	struct sim_error error = {0};
	(void)state;
	assert_int_equal(sim_kmsg_uevent(&machine, 0, "remove", &error), 0);
	const char *record = text_of("uevent");
	assert_memory_equal(record, "remove@/devices/pci0000:", 24);
	assert_string_equal(record + strlen(record) + 1, "ACTION=remove");
	assert_int_equal(machine.uevent_seq, 1);
}

static void held_uevents_come_when_they_are_sent(void **state)
{
	struct sim_error error = {0};
	(void)state;
	sim_kmsg_hold_uevents();
	assert_int_equal(sim_kmsg_uevent(&machine, 0, "remove", &error), 0);
	sim_kmsg_drop_uevents();
	assert_string_equal(text_of("uevent"), "");

	sim_kmsg_hold_uevents();
	assert_int_equal(sim_kmsg_uevent(&machine, 0, "remove", &error), 0);
	assert_int_equal(sim_kmsg_uevent(&machine, 0, "add", &error), 0);
	assert_string_equal(text_of("uevent"), "");
	assert_int_equal(sim_kmsg_send_uevents(&error), 0);
	const char *record = text_of("uevent");
	assert_memory_equal(record, "remove@/devices/pci0000:", 24);
	while (*record) /* the empty string ends it */
		record += strlen(record) + 1;
	assert_memory_equal(record + 1, "add@/devices/pci0000:", 21);
	assert_int_equal(sim_kmsg_send_uevents(&error), 0); /* nothing is held any more */
	assert_int_equal(machine.uevent_seq, 3);
}

static void no_root_no_log(void **state)
{
	struct sim_error error = {0};
	(void)state;
	machine.root[0] = '\0';
	assert_int_equal(sim_kmsg_xid(&machine, &(struct sim_kmsg_xid){.xid = 13}, &error), 0);
	assert_int_equal(sim_kmsg_flood(&machine, 3, &error), 0);
	assert_string_equal(text_of("kmsg"), "");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(new_form),
	    CASE(old_form),
	    CASE(mig_form),
	    CASE(three_lines),
	    CASE(nvlink5_form),
	    CASE(forms_that_do_not_fit),
	    CASE(forged_records_have_another_facility),
	    CASE(hostile_text_is_escaped),
	    CASE(long_text_stays_one_record),
	    CASE(overwriting_leaves_a_gap),
	    CASE(a_link_is_never_written_through),
	    CASE(uevents),
	    CASE(held_uevents_come_when_they_are_sent),
	    CASE(no_root_no_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/validations/ready_files.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "unit/unit.h"

static struct ready_files_wish wish;
static struct ready_files_report report;
static char state_path[FILE_PATH_MAX];
static struct err err;

static const char *place(const char *name)
{
	static char path[FILE_PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s" READY_DIRECTORY "/%s", unit_top, name);
	return path;
}

static int setup(void **state)
{
	(void)unit_top_setup(state);
	(void)umask(022);
	(void)snprintf(state_path, sizeof(state_path), "%s/validations.json", unit_top);
	wish = (struct ready_files_wish){
	    .root = unit_top, .state_path = state_path, .driver = {.is_host = true}};
	for (int i = 0; i < READY_COUNT; i++)
		wish.facts[i].state = READY_NO;
	return 0;
}

static int run(void)
{
	err = (struct err){0};
	return ready_files_run(&wish, &report, &err);
}

static char *text_of(const char *name)
{
	static char text[READY_TEXT_MAX];
	struct buf buf;
	buf_init(&buf, READY_TEXT_MAX);
	text[0] = '\0';
	if (file_read(place(name), &buf, NULL) == 0)
		(void)snprintf(text, sizeof(text), "%s", buf_text(&buf));
	buf_done(&buf);
	return text;
}

static void test_written_and_removed(void **state)
{
	(void)state;
	struct stat status;
	assert_int_equal(run(), 0); /* nothing to write: not even the directory is made */
	assert_false(file_exists(place("")));
	wish.facts[READY_DRIVER].state = wish.facts[READY_PLUGIN].state = READY_YES;
	(void)umask(077);
	assert_int_equal(run(), 0);
	(void)umask(022);
	assert_int_equal(report.written, 2);
	assert_true(report.is_there[READY_DRIVER] && report.is_there[READY_PLUGIN]);
	assert_int_equal(stat(place("driver-ready"), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0644);
	assert_non_null(strstr(text_of("driver-ready"), "IS_HOST_DRIVER=true\n"));
	assert_int_equal(stat(place("plugin-ready"), &status), 0);
	assert_int_equal(status.st_size, 0);
	assert_int_equal(run(), 0); /* all is right */
	assert_int_equal(report.written + report.removed, 0);
	wish.driver.is_host = false;
	wish.facts[READY_PLUGIN].state = READY_UNKNOWN; /* as after a start: it stays */
	assert_int_equal(run(), 0);
	assert_int_equal(report.written, 1);
	assert_non_null(strstr(text_of("driver-ready"), "IS_HOST_DRIVER=false\n"));
	assert_true(report.is_there[READY_PLUGIN] && file_exists(place("plugin-ready")));
	wish.facts[READY_PLUGIN].state = READY_NO;
	assert_int_equal(run(), 0);
	assert_int_equal(report.removed, 1);
	assert_false(file_exists(place("plugin-ready")));
	wish.withdraws = true;
	assert_int_equal(run(), 0);
	assert_false(file_exists(place("driver-ready")));
	assert_int_equal(report.removed, 1);
}

static void test_another_program_owns_the_directory(void **state)
{
	(void)state;
	wish.facts[READY_DRIVER].state = wish.facts[READY_TOOLKIT].state = READY_YES;
	assert_int_equal(run(), 0);
	/* What a container leaves that is no validation is nobody's business. */
	unit_write(place(".driver-ctr-ready"), "GDRCOPY_ENABLED: true\n");
	assert_int_equal(run(), 0);
	assert_string_equal(report.foreign, "");
	/* It opens our file and writes: the same inode, another time. */
	struct stat before, now;
	assert_int_equal(stat(place("driver-ready"), &before), 0);
	do {
		unit_write(place("driver-ready"), "its own\n");
		assert_int_equal(stat(place("driver-ready"), &now), 0);
	} while (now.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
	assert_int_equal(now.st_ino, before.st_ino);
	assert_int_equal(run(), 0);
	assert_string_equal(report.foreign, "driver-ready");
	assert_string_equal(text_of("driver-ready"), "its own\n");
	assert_false(file_exists(place("toolkit-ready"))); /* one owner */
	assert_false(report.is_there[READY_DRIVER] || report.is_there[READY_TOOLKIT]);
	assert_int_equal(run(), 0); /* and it stays so */
	assert_int_equal(report.written + report.removed, 0);
	assert_int_equal(unlink(place("driver-ready")), 0); /* it goes */
	assert_int_equal(run(), 0);
	assert_int_equal(report.written, 2);
	/* There before us, by any of its names. */
	wish.withdraws = true;
	assert_int_equal(run(), 0);
	wish.withdraws = false;
	unit_write(place("vfio-pci-ready"), "");
	assert_int_equal(run(), 0);
	assert_string_equal(report.foreign, "vfio-pci-ready");
	assert_false(file_exists(place("driver-ready")));
}

static void test_insisting(void **state)
{
	(void)state;
	wish.facts[READY_DRIVER].state = READY_YES;
	assert_int_equal(run(), 0);
	unit_write(place("workload-ready"), "");
	assert_int_equal(unlink(place("driver-ready")), 0);
	unit_write(place("driver-ready"), "its own\n");
	wish.insists = true;
	assert_int_equal(run(), 0);
	assert_string_equal(report.foreign, "driver-ready");
	assert_non_null(strstr(text_of("driver-ready"), "NVIDIA_DRIVER_ROOT=/\n"));
	assert_true(file_exists(place("workload-ready")));
	/* One of others that we would not write stays. */
	unit_write(place("plugin-ready"), "");
	assert_int_equal(run(), 0);
	assert_true(file_exists(place("plugin-ready")));
}

static void test_who_died_in_between(void **state)
{
	(void)state;
	wish.facts[READY_DRIVER].state = READY_YES;
	assert_int_equal(run(), 0);
	unit_write(place(".sluice-driver-ready.tmp"), "half");
	wish.driver.is_host = false;
	assert_int_equal(run(), 0);
	assert_int_equal(report.written, 1);
	assert_false(file_exists(place(".sluice-driver-ready.tmp")));
	/* A record that nobody can read: what is there is nobody's, and is left alone. */
	unit_write(state_path, "{");
	assert_int_equal(run(), 0);
	assert_true(report.record_was_damaged);
	assert_string_equal(report.foreign, "driver-ready");
}

static void test_no_directory(void **state)
{
	(void)state;
	char link[FILE_PATH_MAX];
	wish.facts[READY_DRIVER].state = READY_YES;
	(void)snprintf(link, sizeof(link), "%s/run/nvidia", unit_top);
	assert_int_equal(file_mkdirs(link, 0755, NULL), 0);
	(void)snprintf(link, sizeof(link), "%s" READY_DIRECTORY, unit_top);
	assert_int_equal(symlink("/tmp", link), 0);
	assert_int_equal(run(), -ELOOP);
	assert_non_null(strstr(err.text, READY_DIRECTORY "' is a symlink, not writing"));
	assert_int_equal(unlink(link), 0);
	unit_write(link, "");
	assert_int_equal(run(), -ENOTDIR);
	assert_non_null(strstr(err.text, READY_DIRECTORY "' is no directory, not writing"));
}

/* --- a reader never sees half of it -------------------------------------------------------------
 */

static atomic_bool reader_ends;

static void *read_on(void *context)
{
	size_t *torn = context;
	while (!atomic_load(&reader_ends)) {
		char path[FILE_PATH_MAX], text[READY_TEXT_MAX] = "";
		(void)snprintf(path, sizeof(path), "%s" READY_DIRECTORY "/driver-ready", unit_top);
		FILE *file = fopen(path, "re");
		if (!file) {
			++*torn;
			continue;
		}
		size_t length = fread(text, 1, sizeof(text) - 1, file);
		(void)fclose(file);
		text[length] = '\0';
		size_t lines = 0;
		for (const char *at = text; (at = strchr(at, '\n')); at++)
			lines++;
		*torn += lines != 5;
	}
	return NULL;
}

static void test_a_reader(void **state)
{
	(void)state;
	pthread_t reader;
	size_t torn = 0;
	wish.facts[READY_DRIVER].state = READY_YES;
	assert_int_equal(run(), 0);
	atomic_store(&reader_ends, false);
	assert_int_equal(pthread_create(&reader, NULL, read_on, &torn), 0);
	for (int i = 0; i < 50; i++) {
		wish.driver.is_host = !wish.driver.is_host;
		assert_int_equal(run(), 0);
		assert_int_equal(report.written, 1);
	}
	atomic_store(&reader_ends, true);
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_int_equal(torn, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_written_and_removed, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_another_program_owns_the_directory, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_insisting, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_who_died_in_between, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_no_directory, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_a_reader, setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

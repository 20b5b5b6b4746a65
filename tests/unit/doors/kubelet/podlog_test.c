/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/podlog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/file.h"
#include "unit/unit.h"

#define ID   "ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12"
#define UUID "3f1c2b4a-0d9e-4c6b-8a57-91e2d3c4b5a6"
#define HASH "9d1f7c40b25a4e6f8392c1d0aa55ee71"

static void test_containers(void **state)
{
	static const char good[] = "train-0.x_ml_side-car-" ID ".log";
	static const char *const bad[] = {
	    "",
	    ".log",
	    "train-0_ml_main-" ID,
	    "train-0_ml_main-" ID ".log.1",
	    "train-0_ml-" ID ".log",
	    "train-0_ml_-" ID ".log",
	    "_ml_main-" ID ".log",
	    "train-0__main-" ID ".log",
	    "Train_ml_main-" ID ".log",
	    "train-0_m.l_main-" ID ".log",
	    "train-0_ml_ma_in-" ID ".log",
	    "train-0_ml_main-A" ID ".log",
	    "train-0_ml_main" ID ".log",
	    "train-0_ml_ma\xc3\xa4n-" ID ".log",
	};
	struct podlog_name name;
	(void)state;
	assert_int_equal(podlog_parse_container(good, strlen(good), &name), 0);
	assert_string_equal(name.pod, "train-0.x");
	assert_string_equal(name.name_space, "ml");
	assert_string_equal(name.container, "side-car");
	assert_string_equal(name.id, ID);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(podlog_parse_container(bad[i], strlen(bad[i]), &name), -EINVAL);
}

static void test_pods(void **state)
{
	static const char *const bad[] = {"",
					  "ml_train-0",
					  "ml_train-0_",
					  "ml_train-0_" UUID "0",
					  "ml_train-0_3F1C2B4A-0d9e-4c6b-8a57-91e2d3c4b5a6",
					  "_train-0_" UUID,
					  "ml__" UUID,
					  "ml_train_0_" UUID};
	struct podlog_name name;
	(void)state;
	assert_int_equal(podlog_parse_pod("ml_train-0_" UUID, strlen("ml_train-0_" UUID), &name),
			 0);
	assert_string_equal(name.pod, "train-0");
	assert_string_equal(name.name_space, "ml");
	assert_string_equal(name.container, "");
	assert_string_equal(name.id, UUID);
	assert_int_equal(
	    podlog_parse_pod("kube-system_etcd-n_" HASH, strlen("kube-system_etcd-n_" HASH), &name),
	    0);
	assert_string_equal(name.id, HASH);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(podlog_parse_pod(bad[i], strlen(bad[i]), &name), -EINVAL);
}

static struct podlog *read_log(void)
{
	struct podlog *log = NULL;
	struct err err = {0};
	return podlog_read(unit_top, &log, &err) == 0 ? log : NULL;
}

static void test_directories(void **state)
{
	(void)state;
	struct podlog *log = read_log();
	assert_non_null(log);
	assert_false(podlog_is_known(log)); /* no directory: nothing is said */
	assert_false(podlog_has(log, "ml", "train-0", "main"));
	log = podlog_free(log);

	assert_int_equal(
	    file_mkdirs(unit_path(unit_top, "var/log/pods/ml_train-0_" UUID), 0755, NULL), 0);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "var/log/containers"), 0755, NULL), 0);
	unit_write(unit_path(unit_top, "var/log/containers/b-1_ml_main-" ID ".log"), "");
	unit_write(unit_path(unit_top, "var/log/containers/somebody-elses"), "");
	log = read_log();
	assert_non_null(log);
	assert_true(podlog_is_known(log));
	assert_int_equal(podlog_count(log), 2);
	assert_true(podlog_has(log, "ml", "train-0", "whichever"));
	assert_true(podlog_has(log, "ml", "b-1", "main"));
	assert_false(podlog_has(log, "ml", "b-1", "other"));
	assert_false(podlog_has(log, "else", "train-0", "main"));
	const struct podlog_entry *entry = podlog_find_container(log, ID);
	assert_non_null(entry);
	assert_string_equal(entry->pod, "b-1");
	assert_string_equal(entry->container, "main");
	entry = podlog_find_pod(log, UUID);
	assert_non_null(entry);
	assert_string_equal(entry->pod, "train-0");
	assert_null(podlog_find_pod(log, ID));
	assert_null(podlog_find_container(NULL, ID));
	log = podlog_free(log);
	assert_null(log);
}

/* More names than are kept: the rest is not, and nothing breaks. */
static void test_many(void **state)
{
	enum { COUNT = 300 };
	char name[256];
	(void)state;
	assert_int_equal(file_mkdirs(unit_path(unit_top, "var/log/containers"), 0755, NULL), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(name, sizeof(name), "var/log/containers/p%u_ml_main-%064x.log", i,
			       i);
		unit_write(unit_path(unit_top, name), "");
	}
	struct podlog *log = read_log();
	assert_non_null(log);
	assert_int_equal(podlog_count(log), COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(name, sizeof(name), "%064x", i);
		const struct podlog_entry *entry = podlog_find_container(log, name);
		assert_non_null(entry);
		assert_true(podlog_has(log, "ml", entry->pod, "main"));
	}
	log = podlog_free(log);
	assert_null(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_containers),
	    cmocka_unit_test(test_pods),
	    cmocka_unit_test_setup_teardown(test_directories, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_many, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

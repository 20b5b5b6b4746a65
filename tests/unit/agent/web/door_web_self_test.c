/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_self.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit/unit.h"

static void test_it_is_this_process(void **state)
{
	struct web_self self = {.probe = 0};
	web_self_look(&self, -1);
	assert_true(self.rss_bytes > 100000 && self.rss_bytes < UINT64_C(10000000000));
	uint64_t before = self.cpu_ns;
	uint64_t end = unit_now_ns() + UINT64_C(10000000000);
	while (self.cpu_ns <= before + 1000000) {
		web_self_look(&self, -1);
		assert_true(unit_now_ns() < end);
	}
	web_self_count_fds(&self);
	uint64_t fds = self.open_fds;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	web_self_count_fds(&self);
	assert_int_equal(self.open_fds, fds + 1);
	(void)close(fd);
}

/* The time of a probe that is gone was spent all the same. */
static void test_time_never_falls(void **state)
{
	struct web_self self = {.probe = 0};
	web_self_look(&self, getpid()); /* one with some time */
	uint64_t before = self.cpu_ns;
	web_self_look(&self, -1);
	assert_true(self.cpu_ns >= before);
	before = self.cpu_ns;
	web_self_look(&self, getppid());
	assert_true(self.cpu_ns >= before);
	before = self.cpu_ns;
	web_self_look(&self, 999999999);
	assert_true(self.cpu_ns >= before);
}

static void test_boot(void **state)
{
	uint64_t boot = web_self_boot_unix_s();
	assert_true(boot > 1500000000 && boot <= (uint64_t)time(NULL) + 1);
}

/* That nobody could look for once is no end of it. */
static void test_a_probe_that_could_not_be_looked_at(void **state)
{
	struct web_self self = {.probe = 0};
	struct rlimit before, none;
	(void)state;
	while (self.probe_cpu_ns == 0)
		web_self_look(&self, getpid());
	uint64_t told_ns = self.probe_cpu_ns;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	web_self_look(&self, getpid());
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(self.probe_cpu_ns, told_ns);
	assert_int_equal(self.ended_cpu_ns, 0);
	web_self_look(&self, getpid());
	assert_int_equal(self.ended_cpu_ns, 0);
	web_self_look(&self, -1); /* it has ended */
	assert_in_range(self.ended_cpu_ns, told_ns, UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_it_is_this_process),
	    cmocka_unit_test(test_time_never_falls),
	    cmocka_unit_test(test_a_probe_that_could_not_be_looked_at),
	    cmocka_unit_test(test_boot),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

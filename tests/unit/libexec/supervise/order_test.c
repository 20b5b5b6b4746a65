/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/order.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/launch.h"
#include "unit/unit.h"

enum { TEXT_MAX = 256 };

struct fixture {
	char directory[64], text[TEXT_MAX];
	int job_fd, fds[INTERLEAVE_STREAMS];
	struct launch launch;
	struct order order;
	struct watch_source source;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	(void)snprintf(fixture->directory, sizeof(fixture->directory), "%s",
		       "/tmp/sluice-unit-order.XXXXXX");
	if (!mkdtemp(fixture->directory))
		return -1;

	fixture->job_fd = open(fixture->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < INTERLEAVE_STREAMS; i++)
		fixture->fds[i] = openat(fixture->job_fd, i ? "err.1" : "out.1",
					 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	launch_init(&fixture->launch);
	fixture->launch.attempt = 1;
	fixture->launch.keeps_order = true;
	fixture->launch.spec.uid = geteuid();
	fixture->launch.spec.gid = getegid();
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"out.1", "err.1", "order.1"};
	struct fixture *fixture = *state;
	order_done(&fixture->order);
	for (int i = 0; i < 3; i++)
		(void)unlinkat(fixture->job_fd, names[i], 0);
	for (int i = 0; i < INTERLEAVE_STREAMS; i++)
		(void)close(fixture->fds[i]);
	(void)close(fixture->job_fd);
	(void)rmdir(fixture->directory);
	launch_done(&fixture->launch);
	free(fixture);
	return 0;
}

static void begin(struct fixture *fixture)
{
	order_open(&fixture->order, fixture->job_fd, &fixture->launch, fixture->fds[INTERLEAVE_OUT],
		   fixture->fds[INTERLEAVE_ERR]);
	fixture->source = order_source(&fixture->order);
	order_listen(&fixture->order, &fixture->source);
	if (fixture->source.fd < 0) {
		print_message("skipped: needs an instance of inotify\n");
		skip();
	}
}

/* Each line goes to the output, or where it begins with "e" to the errors, by a write of its own.
 */
static void job_writes(const struct fixture *fixture, const char *lines)
{
	for (const char *at = lines; *at;) {
		size_t length = strcspn(at, "\n") + 1;
		int fd = fixture->fds[*at == 'e' ? INTERLEAVE_ERR : INTERLEAVE_OUT];
		assert_int_equal(write(fd, at, length), length);
		at += length;
	}
}

static void look(struct fixture *fixture)
{
	fixture->source.ready(fixture->source.context, 0);
}

/* "o3 e4 ..."; "none" where there is no index. */
static const char *kept_in(struct fixture *fixture, const char *name)
{
	uint8_t record[INTERLEAVE_RECORD];
	enum interleave_stream stream;
	uint64_t length;
	size_t at = 0;
	int fd = openat(fixture->job_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return "none";

	fixture->text[0] = '\0';
	while (read(fd, record, sizeof(record)) == (ssize_t)sizeof(record)) {
		assert_int_equal(interleave_parse(record, &stream, &length), 0);
		at += (size_t)snprintf(fixture->text + at, TEXT_MAX - at, "%c%d ",
				       stream == INTERLEAVE_OUT ? 'o' : 'e', (int)length);
	}
	(void)close(fd);
	return fixture->text;
}

static const char *kept(struct fixture *fixture)
{
	return kept_in(fixture, "order.1");
}

static void turns_are_kept_however_late_it_is_looked(void **state)
{
	struct fixture *fixture = *state;
	begin(fixture);
	job_writes(fixture, "a\ne1\nbbb\ne22\nc\n");
	look(fixture);
	assert_string_equal(kept(fixture), "o2 e3 o4 e4 o2 ");
	job_writes(fixture, "ddd\ne333\n"); /* the last one grows */
	order_done(&fixture->order);
	assert_string_equal(kept(fixture), "o2 e3 o4 e4 o6 e5 ");
}

static void one_output_alone_needs_no_index(void **state)
{
	struct fixture *fixture = *state;
	begin(fixture);
	job_writes(fixture, "a\nb\n");
	look(fixture);
	assert_string_equal(kept(fixture), "none");
	job_writes(fixture, "e1\n");
	look(fixture);
	assert_string_equal(kept(fixture), "o4 e3 ");
}

/* By one instance of inotify for all; each has its own files. */
static void workers_have_orders_of_their_own(void **state)
{
	struct fixture *fixture = *state, worker = {.job_fd = fixture->job_fd};
	static const char *const names[] = {"w3.out.1", "w3.err.1", "w3.order.1"};
	begin(fixture);
	for (int i = 0; i < INTERLEAVE_STREAMS; i++)
		worker.fds[i] = openat(fixture->job_fd, names[i],
				       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	order_add_worker(&fixture->order, &worker.order, 3, worker.fds[INTERLEAVE_OUT],
			 worker.fds[INTERLEAVE_ERR]);
	job_writes(&worker, "e1\nbbb\n");
	job_writes(fixture, "a\n");
	job_writes(&worker, "e22\n");
	job_writes(fixture, "e1\n");
	look(fixture);
	assert_string_equal(kept(fixture), "o2 e3 ");
	assert_string_equal(kept_in(fixture, names[2]), "e3 o4 e4 ");
	job_writes(&worker, "c\n");
	look(fixture); /* at the worker alone */
	assert_string_equal(kept_in(fixture, names[2]), "e3 o4 e4 o2 ");
	job_writes(&worker, "e333\n");
	order_done(&fixture->order);
	assert_string_equal(kept(fixture), "o2 e3 ");
	assert_string_equal(kept_in(fixture, names[2]), "e3 o4 e4 o2 e5 ");
	for (int i = 0; i < 3; i++)
		(void)unlinkat(fixture->job_fd, names[i], 0);
	for (int i = 0; i < INTERLEAVE_STREAMS; i++)
		(void)close(worker.fds[i]);
}

static void so_many_workers_and_no_more(void **state)
{
	struct fixture *fixture = *state;
	static struct order workers[ORDER_WORKERS_MAX + 1];
	begin(fixture);
	for (uint32_t i = 0; i <= ORDER_WORKERS_MAX; i++)
		order_add_worker(&fixture->order, &workers[i], i + 1, fixture->fds[INTERLEAVE_OUT],
				 fixture->fds[INTERLEAVE_ERR]);
	assert_ptr_equal(workers[ORDER_WORKERS_MAX - 2].next, &workers[ORDER_WORKERS_MAX - 1]);
	assert_null(workers[ORDER_WORKERS_MAX - 1].next);
	order_done(&fixture->order);
	assert_null(fixture->order.next);
}

static void who_is_not_asked_keeps_none(void **state)
{
	struct fixture *fixture = *state;
	fixture->launch.keeps_order = false;
	order_open(&fixture->order, fixture->job_fd, &fixture->launch, fixture->fds[INTERLEAVE_OUT],
		   fixture->fds[INTERLEAVE_ERR]);
	assert_int_equal(order_source(&fixture->order).fd, -1);
	job_writes(fixture, "a\ne1\n");
	order_done(&fixture->order);
	assert_string_equal(kept(fixture), "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(turns_are_kept_however_late_it_is_looked, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(one_output_alone_needs_no_index, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(workers_have_orders_of_their_own, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(so_many_workers_and_no_more, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(who_is_not_asked_keeps_none, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

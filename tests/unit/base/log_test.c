/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

struct scene {
	char *directory;
	int ends[2];
	char path[108];
	int journal;
};

static struct scene scene;

static int setup(void **state)
{
	scene.directory = unit_tmp_new();
	assert_int_equal(pipe2(scene.ends, O_CLOEXEC | O_NONBLOCK), 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	(void)snprintf(scene.path, sizeof(scene.path), "%s/journal", scene.directory);
	memcpy(address.sun_path, scene.path, sizeof(scene.path));
	scene.journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(scene.journal, (struct sockaddr *)&address, sizeof(address)), 0);
	(void)unsetenv("JOURNAL_STREAM");
	log_set_level(LOG_LEVEL_INFO);
	return 0;
}

static int teardown(void **state)
{
	(void)close(scene.ends[0]);
	(void)close(scene.ends[1]);
	(void)close(scene.journal);
	scene.directory = unit_tmp_free(scene.directory);
	return 0;
}

static struct log *open_log(enum log_format format)
{
	struct log_options options = {
	    .format = format, .fd = scene.ends[1], .program = "unit", .journal_path = scene.path};
	struct log *log = log_new(&options, NULL);
	assert_non_null(log);
	return log;
}

static const char *piped(void)
{
	static char out[1 << 17];
	ssize_t count = read(scene.ends[0], out, sizeof(out) - 1);
	out[count > 0 ? count : 0] = '\0';
	return out;
}

static void test_chooses_by_where_it_writes(void **state)
{
	struct log *log = open_log(LOG_FORMAT_AUTO);
	assert_int_equal(log_format_of(log), LOG_FORMAT_JSON);
	log = log_free(log);

	struct stat status;
	char stream[64];
	assert_int_equal(fstat(scene.ends[1], &status), 0);
	(void)snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev,
		       (uintmax_t)status.st_ino);
	assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
	log = open_log(LOG_FORMAT_AUTO);
	assert_int_equal(log_format_of(log), LOG_FORMAT_JOURNAL);
	log = log_free(log);
	assert_int_equal(setenv("JOURNAL_STREAM", "1:1", 1), 0); /* of somebody above us */
	log = open_log(LOG_FORMAT_AUTO);
	assert_int_equal(log_format_of(log), LOG_FORMAT_JSON);
	log = log_free(log);
}

static void test_terminal_gets_text(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
		printf("SKIPPED: no pseudo terminals here\n");
		skip();
	}
	int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(terminal >= 0);
	struct log_options options = {.fd = terminal};
	struct log *log = log_new(&options, NULL);
	assert_non_null(log);
	assert_int_equal(log_format_of(log), LOG_FORMAT_TEXT);
	log_write(log, LOG_LEVEL_ERROR, NULL, "hot");
	char out[256] = {0};
	struct pollfd ready = {.fd = master, .events = POLLIN};
	assert_int_equal(poll(&ready, 1, 20000), 1);
	assert_true(read(master, out, sizeof(out) - 1) > 0);
	assert_non_null(strstr(out, "\x1b[1;31merror:\x1b[0m hot"));
	log = log_free(log);
	(void)close(terminal);
	(void)close(master);
}

static void test_levels(void **state)
{
	struct log *log = open_log(LOG_FORMAT_TEXT);
	log_write(log, LOG_LEVEL_DEBUG, NULL, "quiet");
	assert_string_equal(piped(), "");
	log_set_level(LOG_LEVEL_DEBUG);
	log_write(log, LOG_LEVEL_DEBUG, NULL, "%s", "loud");
	assert_non_null(strstr(piped(), "debug: loud\n"));
	log_write(NULL, LOG_LEVEL_ERROR, NULL, "nowhere");
	log = log_free(log);

	assert_string_equal(log_level_to_string(LOG_LEVEL_ERROR), "error");
}

static void test_journal_gets_fields(void **state)
{
	struct log *log = open_log(LOG_FORMAT_JOURNAL);
	struct log_field fields[] = {{"GPU_UUID", "GPU-1"}, {0}};
	log_write(log, LOG_LEVEL_NOTICE, fields, "XID %d", 79);
	char out[512] = {0};
	assert_true(recv(scene.journal, out, sizeof(out) - 1, 0) > 0);
	assert_string_equal(out, "PRIORITY=5\nSYSLOG_IDENTIFIER=unit\nMESSAGE=XID 79\n"
				 "GPU_UUID=GPU-1\n");
	assert_string_equal(piped(), "");
	log = log_free(log);
}

/* Receives what was sent as a memory file, and checks that it is sealed. */
static char *receive_memfd(size_t *out_length)
{
	char byte;
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	assert_int_equal(recvmsg(scene.journal, &message, MSG_CMSG_CLOEXEC), 0);
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	assert_non_null(header);
	assert_int_equal(header->cmsg_type, SCM_RIGHTS);
	int fd;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	assert_true(fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE);
	struct stat status;
	assert_int_equal(fstat(fd, &status), 0);
	char *data = calloc(1, (size_t)status.st_size + 1);
	assert_non_null(data);
	assert_int_equal(pread(fd, data, (size_t)status.st_size, 0), status.st_size);
	(void)close(fd);
	*out_length = (size_t)status.st_size;
	return data;
}

static void test_large_entries_go_by_memfd(void **state)
{
	struct log *log = open_log(LOG_FORMAT_JOURNAL);
	char *big = malloc(LOG_MESSAGE_MAX);
	assert_non_null(big);
	memset(big, 'x', LOG_MESSAGE_MAX - 1);
	big[LOG_MESSAGE_MAX - 1] = '\0';
	struct log_field fields[] = {{"A", big}, {"B", big}, {"C", big}, {"D", big}, {0}};
	log_write(log, LOG_LEVEL_INFO, fields, "%s", big);
	size_t length;
	char *data = receive_memfd(&length);
	assert_true(length > 5 * (LOG_MESSAGE_MAX - 1));
	assert_non_null(strstr(data, "\nMESSAGE=xxx"));
	assert_non_null(strstr(data, "\nD=xxx"));
	assert_int_equal(log_dropped(log), 0);
	free(data);
	free(big);
	log = log_free(log);
}

static void test_long_messages_are_cut(void **state)
{
	static const enum log_format formats[] = {LOG_FORMAT_TEXT, LOG_FORMAT_JSON};
	char *big = malloc(3 * LOG_MESSAGE_MAX);
	assert_non_null(big);
	memset(big, '\x01', 3 * LOG_MESSAGE_MAX - 1); /* each grows when it is escaped */
	big[3 * LOG_MESSAGE_MAX - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		struct log *log = open_log(formats[i]);
		struct log_field fields[] = {{"A", big}, {0}};
		log_write(log, LOG_LEVEL_INFO, fields, "%s", big);
		const char *out = piped();
		size_t length = strlen(out);
		assert_in_range(length, 200, LOG_LINE_MAX);
		assert_int_equal(out[length - 1], '\n');
		assert_non_null(strstr(out, "..."));
		assert_int_equal(log_dropped(log), 0);
		log = log_free(log);
	}
	free(big);
}

static void test_missing_journal_becomes_prefixed_text(void **state)
{
	assert_int_equal(unlink(scene.path), 0);
	struct log *log = open_log(LOG_FORMAT_JOURNAL);
	assert_int_equal(log_format_of(log), LOG_FORMAT_TEXT);
	log_write(log, LOG_LEVEL_WARNING, NULL, "still here");
	assert_string_equal(piped(), "<4>still here\n");
	log = log_free(log);
}

static void test_a_full_pipe_loses_entries_and_says_so(void **state)
{
	struct log *log = open_log(LOG_FORMAT_TEXT);
	char text[1000];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	unsigned written = 0;
	while (log_dropped(log) == 0 && written < 1000) {
		log_write(log, LOG_LEVEL_INFO, NULL, "%s", text);
		written++;
	}
	assert_true(log_dropped(log) == 1);
	log_write(log, LOG_LEVEL_INFO, NULL, "%s", text);
	assert_true(log_dropped(log) == 2);
	(void)piped();
	log_write(log, LOG_LEVEL_INFO, NULL, "after");
	const char *out = piped();
	const char *lost = strstr(out, "warning: 2 log entries were lost before this one\n");
	assert_non_null(lost);
	assert_non_null(strstr(lost, "info: after\n"));
	log_write(log, LOG_LEVEL_INFO, NULL, "again");
	assert_null(strstr(piped(), "lost"));
	log = log_free(log);
}

static void test_a_full_journal_does_not_block(void **state)
{
	struct log *log = open_log(LOG_FORMAT_JOURNAL);
	for (int i = 0; i < 100000 && log_dropped(log) == 0; i++)
		log_write(log, LOG_LEVEL_INFO, NULL, "entry %d", i);
	assert_true(log_dropped(log) == 1);
	log = log_free(log);
}

static void test_unknown_format(void **state)
{
	struct log_options options = {.format = (enum log_format)77, .fd = 2};
	struct err err = {0};
	assert_null(log_new(&options, &err));
	assert_int_equal(err.code, -EINVAL);
}

static int use_log(void *context)
{
	static const enum log_format formats[] = {LOG_FORMAT_TEXT, LOG_FORMAT_JSON,
						  LOG_FORMAT_JOURNAL};
	struct err err = {0};
	for (int i = 0; i < 3; i++) {
		struct log_options options = {
		    .format = formats[i], .fd = scene.ends[1], .journal_path = scene.path};
		struct log *log = log_new(&options, &err);
		if (!log)
			return err.code;
		struct log_field fields[] = {{"A", "b"}, {0}};
		log_write(log, LOG_LEVEL_INFO, fields, "message %d", i);
		log = log_free(log);
		(void)piped();
		char data[256];
		(void)recv(scene.journal, data, sizeof(data), 0);
	}
	return 0;
}

static void test_out_of_memory(void **state)
{
	assert_true(failmalloc_each(use_log, NULL) > 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_chooses_by_where_it_writes),
	    TEST(test_terminal_gets_text),
	    TEST(test_levels),
	    TEST(test_journal_gets_fields),
	    TEST(test_large_entries_go_by_memfd),
	    TEST(test_long_messages_are_cut),
	    TEST(test_missing_journal_becomes_prefixed_text),
	    TEST(test_a_full_pipe_loses_entries_and_says_so),
	    TEST(test_a_full_journal_does_not_block),
	    TEST(test_unknown_format),
	    TEST(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "doors/queue/ticket.h"
#include "unit/unit.h"

static char *directory;

static struct token_place private_place(void)
{
	struct token_place place;
	directory = unit_tmp_new();
	unit_write(unit_path(directory, "state"), "x");
	assert_int_equal(token_place_open(NULL, unit_path(directory, "state"), &place, NULL), 0);
	return place;
}

static struct ticket_wants wants_of(const char *first, const char *second)
{
	struct ticket_wants wants = {0};
	ticket_want(&wants, first);
	if (second)
		ticket_want(&wants, second);
	return wants;
}

static void who_came_first_is_before(void **state)
{
	struct token_place place = private_place();
	struct ticket_wants wants = wants_of("GPU-a", NULL);
	struct ticket ticket[3];
	for (int i = 0; i < 3; i++)
		assert_int_equal(ticket_take(&place, &wants, &ticket[i], NULL), 0);

	struct note holder;
	size_t ahead = 99;
	assert_int_equal(ticket_watch(&place, &ticket[0], &holder, &ahead, NULL), -ENOENT);
	int behind_first = ticket_watch(&place, &ticket[1], &holder, &ahead, NULL);
	assert_true(behind_first >= 0);
	assert_int_equal(ahead, 1);
	assert_int_equal(holder.pid, getpid());
	int behind_second = ticket_watch(&place, &ticket[2], &holder, &ahead, NULL);
	assert_true(behind_second >= 0);
	assert_int_equal(ahead, 2);

	ticket_release(&ticket[0]);
	struct pollfd wait[2] = {{.fd = behind_first, .events = POLLRDHUP},
				 {.fd = behind_second, .events = POLLRDHUP}};
	assert_int_equal(poll(wait, 2, 10000), 1);
	assert_true(wait[0].revents != 0);
	assert_int_equal(ticket_watch(&place, &ticket[1], &holder, &ahead, NULL), -ENOENT);
	close(behind_first);
	close(behind_second);

	/* One that leaves from the middle is not missed either. */
	ticket_release(&ticket[1]);
	assert_int_equal(ticket_watch(&place, &ticket[2], &holder, &ahead, NULL), -ENOENT);
	ticket_release(&ticket[2]);
	unit_tmp_free(directory);
}

static void only_who_wants_the_same_waits(void **state)
{
	struct token_place place = private_place();
	struct ticket_wants a = wants_of("GPU-a", NULL), b = wants_of("GPU-b", NULL);
	struct ticket_wants both = wants_of("GPU-a", "GPU-b");
	assert_false(ticket_wants_overlap(&a, &b));
	struct ticket first, second, third;
	struct note holder;
	size_t ahead;
	assert_int_equal(ticket_take(&place, &a, &first, NULL), 0);
	assert_int_equal(ticket_take(&place, &b, &second, NULL), 0);
	assert_int_equal(ticket_take(&place, &both, &third, NULL), 0);
	assert_int_equal(ticket_watch(&place, &second, &holder, &ahead, NULL), -ENOENT);
	int fd = ticket_watch(&place, &third, &holder, &ahead, NULL);
	assert_true(fd >= 0);
	assert_int_equal(ahead, 2);
	close(fd);
	ticket_release(&first);
	ticket_release(&second);
	assert_int_equal(ticket_watch(&place, &third, &holder, &ahead, NULL), -ENOENT);
	ticket_release(&third);
	unit_tmp_free(directory);
}

static void other_machines_have_their_own_line(void **state)
{
	struct token_place one = private_place();
	char *first_directory = directory;
	struct token_place two = private_place();
	struct ticket_wants wants = wants_of("GPU-a", NULL);
	struct ticket first, second;
	struct note holder;
	size_t ahead;
	assert_int_equal(ticket_take(&one, &wants, &first, NULL), 0);
	assert_int_equal(ticket_take(&two, &wants, &second, NULL), 0);
	assert_int_equal(ticket_watch(&two, &second, &holder, &ahead, NULL), -ENOENT);
	ticket_release(&first);
	ticket_release(&second);
	unit_tmp_free(first_directory);
	unit_tmp_free(directory);
}

/* A ticket before us whose owner accepts nobody any more, which is what one that was stopped for an
 * hour looks like, costs it its place and not us our wait. */
static void one_that_does_not_answer_is_passed_over(void **state)
{
	struct token_place place = private_place();
	struct ticket_wants wants = wants_of("GPU-a", NULL);
	struct ticket first, second;
	struct note holder;
	size_t ahead;
	assert_int_equal(ticket_take(&place, &wants, &first, NULL), 0);
	assert_int_equal(ticket_take(&place, &wants, &second, NULL), 0);
	assert_int_equal(listen(first.fd, 0), 0); /* full with one */
	int fd = ticket_watch(&place, &second, &holder, &ahead, NULL);
	assert_true(fd >= 0);
	assert_int_equal(ahead, 1);
	assert_int_equal(ticket_watch(&place, &second, &holder, &ahead, NULL), -ENOENT);
	close(fd);
	ticket_release(&first);
	ticket_release(&second);
	unit_tmp_free(directory);
}

/* Anybody may bind a name that looks like a ticket's. */
static void what_is_no_ticket_is_passed_over(void **state)
{
	struct token_place place = private_place();
	struct ticket_wants wants = wants_of("GPU-a", NULL);
	struct ticket ticket;
	struct note holder;
	size_t ahead;
	int false_one = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char rest[64];
	(void)snprintf(rest, sizeof(rest), "%012x/%016llx%016llx", 1,
		       (unsigned long long)wants.bits[0], (unsigned long long)wants.bits[1]);
	char name[TOKEN_SOCKET_NAME_MAX];
	assert_int_equal(token_socket_name(&place, "queue", rest, name, NULL), 0);
	memcpy(address.sun_path + 1, name, strlen(name));
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	assert_int_equal(bind(false_one, (struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(false_one, 8), 0);

	assert_int_equal(ticket_take(&place, &wants, &ticket, NULL), 0);
	assert_int_equal(ticket.number, 2);
	assert_int_equal(ticket_watch(&place, &ticket, &holder, &ahead, NULL), -ENOENT);
	close(false_one);
	ticket_release(&ticket);
	unit_tmp_free(directory);
}

#define LINE(state, name)                                                                          \
	"0000000000000000: 00000002 00000000 " state " 0001 01 26471 @sluice/queue/" name
#define WANTS "00000000000000010000000000000002"

static void lines_of_proc_are_read_strictly(void **state)
{
	struct {
		const char *line, *machine;
		bool good;
	} rows[] = {
	    {LINE("00010000", "0000000000ff/" WANTS), "", true},
	    {LINE("00010000", "fe01-9/0000000000ff/" WANTS), "fe01-9", true},
	    {LINE("00010000", "fe01-9/0000000000ff/" WANTS), "", false},
	    {LINE("00010000", "0000000000ff/" WANTS), "fe01-9", false},
	    {LINE("00000000", "0000000000ff/" WANTS), "", false}, /* nobody listens */
	    {LINE("00010000", "0000000000ff/" WANTS "0"), "", false},
	    {LINE("00010000", "0000000000ff/" WANTS "/"), "", false},
	    {LINE("00010000", "0000000000ff-" WANTS), "", false},
	    {LINE("00010000", "-000000000ff/" WANTS), "", false},
	    {LINE("00010000", "ffffffffffff/" WANTS), "", false}, /* beyond the highest */
	    {"0: 2 0 00010000 1 1 5 /run/sluice/queue/1", "", false},
	    {"Num       RefCount Protocol Flags    Type St Inode Path", "", false},
	    {"", "", false},
	    {"@", "", false},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t number = 0;
		struct ticket_wants wants = {0};
		print_message("line %zu: %s\n", i, rows[i].good ? "a ticket" : "none");
		assert_int_equal(ticket_parse(rows[i].line, strlen(rows[i].line), rows[i].machine,
					      &number, &wants),
				 rows[i].good);
		if (rows[i].good) {
			assert_int_equal(number, 255);
			assert_int_equal(wants.bits[0], 1);
			assert_int_equal(wants.bits[1], 2);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_came_first_is_before),
	    cmocka_unit_test(only_who_wants_the_same_waits),
	    cmocka_unit_test(other_machines_have_their_own_line),
	    cmocka_unit_test(one_that_does_not_answer_is_passed_over),
	    cmocka_unit_test(what_is_no_ticket_is_passed_over),
	    cmocka_unit_test(lines_of_proc_are_read_strictly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

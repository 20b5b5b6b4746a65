/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks are threads; one that dies is a process. Every wait has a deadline. */
#include "bench/collectives/bootstrap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "unit/unit.h"

enum { RANKS = 4, ROUNDS = 200 };
#define LONG_NS	 (20 * CLOCK_NS_PER_S)
#define SHORT_NS (200 * CLOCK_NS_PER_MS)

struct member {
	pthread_t thread;
	struct bootstrap_board *board;
	struct bootstrap_plan plan;
	uint32_t rank;
	int result;
	struct err err;
};

/* What rank `rank` says in round `round`. */
static uint32_t said(uint32_t rank, uint32_t round)
{
	return rank * 1000003u + round * 7919u;
}

static int talk(struct bootstrap *bootstrap, struct err *err)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t words[BOOTSTRAP_SHARE_MAX / 4] = {0}, all[RANKS * BOOTSTRAP_SHARE_MAX / 4];
		size_t count = round % 3 == 0 ? 1 : round % 3 == 1 ? 17 : BOOTSTRAP_SHARE_MAX / 4;
		for (size_t i = 0; i < count; i++)
			words[i] = said(bootstrap_rank(bootstrap), round) + (uint32_t)i;
		int result = bootstrap_share(bootstrap, words, all, count * 4, LONG_NS, err);
		if (result < 0)
			return result;
		for (uint32_t rank = 0; rank < RANKS; rank++) {
			for (size_t i = 0; i < count; i++) {
				if (all[rank * count + i] != said(rank, round) + i)
					return err_set(err, -EBADMSG, "round %u, rank %u", round,
						       rank);
			}
		}
		result = bootstrap_share(bootstrap, NULL, NULL, 0, LONG_NS, err);
		if (result < 0)
			return result;
	}
	return 0;
}

static void *member_main(void *context)
{
	struct member *member = context;
	struct bootstrap *bootstrap = NULL;
	member->result =
	    member->board ? bootstrap_enter(member->board, member->rank, &bootstrap, &member->err)
			  : bootstrap_connect(&member->plan, LONG_NS, &bootstrap, &member->err);
	if (member->result == 0)
		member->result = talk(bootstrap, &member->err);
	(void)bootstrap_free(bootstrap);
	return NULL;
}

static void start_ranks(struct member member[RANKS], uint32_t first, uint32_t end)
{
	for (uint32_t rank = first; rank < end; rank++) {
		member[rank].rank = rank;
		assert_int_equal(
		    pthread_create(&member[rank].thread, NULL, member_main, &member[rank]), 0);
	}
}

static void join_ranks(struct member member[RANKS])
{
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		assert_int_equal(pthread_join(member[rank].thread, NULL), 0);
		assert_string_equal(member[rank].err.text, "");
		assert_int_equal(member[rank].result, 0);
	}
}

static void run_all(struct member member[RANKS])
{
	start_ranks(member, 0, RANKS);
	join_ranks(member);
}

static void everybody_hears_everybody_on_a_board(void **state)
{
	(void)state;
	struct member member[RANKS] = {0};
	struct bootstrap_board *board = NULL;
	assert_int_equal(bootstrap_board_new(RANKS, &board, NULL), 0);
	for (uint32_t rank = 0; rank < RANKS; rank++)
		member[rank].board = board;
	run_all(member);
	assert_null(bootstrap_board_free(board));
}

static void a_board_has_its_limits(void **state)
{
	(void)state;
	struct bootstrap_board *board = NULL;
	struct bootstrap *first = NULL, *second = NULL;
	struct err err = {0};
	uint8_t much[BOOTSTRAP_SHARE_MAX + 1] = {0};
	assert_int_equal(bootstrap_board_new(0, &board, &err), -EINVAL);
	assert_int_equal(bootstrap_board_new(BOOTSTRAP_BOARD_RANKS_MAX + 1, &board, &err), -EINVAL);
	assert_int_equal(bootstrap_board_new(1, &board, &err), 0);
	assert_int_equal(bootstrap_enter(board, 1, &first, &err), -EINVAL);
	assert_int_equal(bootstrap_enter(board, 0, &first, &err), 0);
	assert_int_equal(bootstrap_enter(board, 0, &second, &err), -EEXIST);
	assert_int_equal(bootstrap_share(first, much, much, sizeof(much), LONG_NS, &err), -E2BIG);
	assert_null(bootstrap_free(first));
	assert_null(bootstrap_free(NULL));
	(void)bootstrap_board_free(board);
	assert_null(bootstrap_board_free(NULL));
}

static void who_does_not_come_is_named(void **state)
{
	(void)state;
	struct bootstrap_board *board = NULL;
	struct bootstrap *first = NULL;
	struct err err = {0};
	assert_int_equal(bootstrap_board_new(2, &board, NULL), 0);
	assert_int_equal(bootstrap_enter(board, 0, &first, NULL), 0);
	assert_int_equal(bootstrap_share(first, NULL, NULL, 0, SHORT_NS, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "rank 1 did not come"));
	(void)bootstrap_free(first);
	(void)bootstrap_board_free(board);
}

static void who_gives_up_is_named(void **state)
{
	(void)state;
	struct bootstrap_board *board = NULL;
	struct bootstrap *first = NULL, *second = NULL;
	struct err err = {0};
	assert_int_equal(bootstrap_board_new(2, &board, NULL), 0);
	assert_int_equal(bootstrap_enter(board, 0, &first, NULL), 0);
	assert_int_equal(bootstrap_enter(board, 1, &second, NULL), 0);
	bootstrap_abort(second);
	assert_int_equal(bootstrap_share(first, NULL, NULL, 0, LONG_NS, &err), -EPIPE);
	assert_non_null(strstr(err.text, "rank 1 has given up"));
	(void)bootstrap_free(first);
	(void)bootstrap_free(second);
	(void)bootstrap_board_free(board);
}

static void who_dies_is_named(void **state)
{
	(void)state;
	struct bootstrap_board *board = NULL;
	struct bootstrap *first = NULL;
	struct err err = {0};
	int status = 0;
	assert_int_equal(bootstrap_board_new(2, &board, NULL), 0);
	assert_int_equal(bootstrap_enter(board, 0, &first, NULL), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct bootstrap *second = NULL;
		_exit(bootstrap_enter(board, 1, &second, NULL) != 0); /* without leaving */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(bootstrap_share(first, NULL, NULL, 0, LONG_NS, &err), -EPIPE);
	assert_non_null(strstr(err.text, "rank 1 is gone"));
	(void)bootstrap_free(first);
	(void)bootstrap_board_free(board);
}

/* A port that was free a moment ago. */
static uint16_t free_port(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(any);
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &length), 0);
	return ntohs(any.sin_port);
}

static struct bootstrap_plan plan_of(uint32_t rank, uint16_t port)
{
	struct bootstrap_plan plan = {.rank = rank, .ranks = RANKS, .port = port};
	memcpy(plan.host, "127.0.0.1", sizeof("127.0.0.1"));
	return plan;
}

static void everybody_hears_everybody_over_tcp(void **state)
{
	(void)state;
	struct member member[RANKS] = {0};
	uint16_t port = free_port();
	for (uint32_t rank = 0; rank < RANKS; rank++)
		member[rank].plan = plan_of(rank, port);
	run_all(member);
}

static void ranks_find_each_other_by_a_file(void **state)
{
	(void)state;
	struct member member[RANKS] = {0};
	const char *path = unit_path(unit_top, "meet");
	/* of a run before, where nobody listens any more */
	unit_write(path, "sluice-nccl/1 127.0.0.1 1 0123\n");
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		member[rank].plan = plan_of(rank, 0);
		(void)memcpy(member[rank].plan.file, path, strlen(path) + 1);
	}
	run_all(member);
	assert_int_not_equal(access(path, F_OK), 0);
}

struct stranger {
	uint16_t port;
	atomic_bool is_enough;
	atomic_uint told;
};

/* Says all that a rank should not say, as long as it is let. */
static void *stranger_main(void *context)
{
	struct stranger *stranger = context;
	struct sockaddr_in there = {.sin_family = AF_INET,
				    .sin_port = htons(stranger->port),
				    .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const struct bootstrap_head lies[] = {
	    {.kind = BOOTSTRAP_HELLO, .rank = 0, .ranks = RANKS},
	    {.kind = BOOTSTRAP_HELLO, .rank = 1, .ranks = RANKS + 1},
	    {.kind = BOOTSTRAP_HELLO, .rank = 1, .ranks = RANKS, .token = 1},
	    {.kind = BOOTSTRAP_SHARE, .rank = 1, .ranks = RANKS},
	    {.kind = BOOTSTRAP_HELLO, .rank = 9, .ranks = RANKS},
	};
	for (size_t i = 0; !atomic_load(&stranger->is_enough); i++) {
		uint8_t bytes[BOOTSTRAP_HEAD];
		_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&there, sizeof(there)) != 0)
			continue;
		bootstrap_head_write(&lies[i % 5], bytes);
		(void)send(fd, bytes, i % 7 == 0 ? 5 : sizeof(bytes), MSG_NOSIGNAL);
		atomic_fetch_add(&stranger->told, 1);
	}
	return NULL;
}

static void strangers_are_not_taken_in(void **state)
{
	(void)state;
	struct member member[RANKS] = {0};
	struct stranger stranger = {.port = free_port()};
	pthread_t thread;
	for (uint32_t rank = 0; rank < RANKS; rank++)
		member[rank].plan = plan_of(rank, stranger.port);
	start_ranks(member, 0, 1);
	assert_int_equal(pthread_create(&thread, NULL, stranger_main, &stranger), 0);
	/* every lie is told before any rank comes */
	uint64_t deadline_ns = unit_now_ns() + LONG_NS;
	while (atomic_load(&stranger.told) < 40 && unit_now_ns() < deadline_ns)
		(void)sched_yield();
	start_ranks(member, 1, RANKS);
	join_ranks(member);
	atomic_store(&stranger.is_enough, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void absent_ranks_are_named_over_tcp(void **state)
{
	(void)state;
	struct bootstrap *bootstrap = NULL;
	struct err err = {0};
	struct bootstrap_plan plan = plan_of(0, free_port());
	assert_int_equal(bootstrap_connect(&plan, SHORT_NS, &bootstrap, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "3 of 4 ranks did not come: 1 2 3"));
	plan.rank = 2;
	assert_int_equal(bootstrap_connect(&plan, SHORT_NS, &bootstrap, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "rank 2 of 4 does not reach rank 0"));
}

static int plan_from(const char *const *environment, struct bootstrap_plan *out, struct err *err)
{
	memset(out, 0, sizeof(*out));
	memset(err, 0, sizeof(*err));
	return bootstrap_plan((char *const *)(uintptr_t)environment, out, err);
}

static void the_environment_says_who_we_are(void **state)
{
	(void)state;
	struct bootstrap_plan plan;
	struct err err;
	const char *const none[] = {"PATH=/bin", "RANKS=3", NULL};
	const char *const torch[] = {"RANK=3",
				     "WORLD_SIZE=8",
				     "LOCAL_RANK=1",
				     "MASTER_ADDR=head",
				     "MASTER_PORT=29500",
				     "OMPI_COMM_WORLD_RANK=7",
				     "OMPI_COMM_WORLD_SIZE=8",
				     NULL};
	const char *const open[] = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
				    "SLUICE_NCCL_ID_FILE=/shared/id", NULL};
	const char *const slurm[] = {"SLURM_PROCID=0", "SLURM_NTASKS=1", NULL};
	const char *const nowhere[] = {"RANK=0", "WORLD_SIZE=2", NULL};
	const char *const above[] = {"RANK=2", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1",
				     NULL};
	const char *const nonsense[] = {"RANK=two", "WORLD_SIZE=2", NULL};
	const char *const port[] = {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=65536",
				    NULL};
	assert_int_equal(plan_from(none, &plan, &err), 0);
	assert_int_equal(plan_from(torch, &plan, &err), 1);
	assert_int_equal(plan.rank, 3);
	assert_int_equal(plan.ranks, 8);
	assert_int_equal(plan.local_rank, 1);
	assert_string_equal(plan.host, "head");
	assert_int_equal(plan.port, 29500);
	assert_int_equal(plan_from(open, &plan, &err), 1);
	assert_string_equal(plan.file, "/shared/id");
	assert_int_equal(plan.rank, 1);
	assert_int_equal(plan_from(slurm, &plan, &err), 1);
	assert_int_equal(plan_from(nowhere, &plan, &err), -EINVAL);
	assert_non_null(strstr(err.text, "MASTER_ADDR"));
	assert_non_null(strstr(err.text, "SLUICE_NCCL_ID_FILE"));
	assert_int_equal(plan_from(above, &plan, &err), -EINVAL);
	assert_int_equal(plan_from(nonsense, &plan, &err), -EINVAL);
	assert_non_null(strstr(err.text, "RANK=two"));
	assert_int_equal(plan_from(port, &plan, &err), -EINVAL);
}

static void heads_are_read_as_written(void **state)
{
	(void)state;
	const struct bootstrap_head head = {.kind = BOOTSTRAP_SHARE,
					    .rank = 5,
					    .ranks = 1024,
					    .bytes = BOOTSTRAP_SHARE_MAX,
					    .sequence = 0x01020304,
					    .token = UINT64_C(0x1122334455667788)};
	struct bootstrap_head back, bad = head;
	uint8_t bytes[BOOTSTRAP_HEAD];
	bootstrap_head_write(&head, bytes);
	assert_int_equal(bootstrap_head_parse(bytes, &back), 0);
	assert_int_equal(back.kind, head.kind);
	assert_int_equal(back.rank, head.rank);
	assert_int_equal(back.ranks, head.ranks);
	assert_int_equal(back.bytes, head.bytes);
	assert_int_equal(back.sequence, head.sequence);
	assert_true(back.token == head.token);
	bytes[0] ^= 1;
	assert_int_equal(bootstrap_head_parse(bytes, &back), -EPROTO);
	bad.bytes++;
	bootstrap_head_write(&bad, bytes);
	assert_int_equal(bootstrap_head_parse(bytes, &back), -EMSGSIZE);
	bad.bytes = 0;
	bad.rank = bad.ranks;
	bootstrap_head_write(&bad, bytes);
	assert_int_equal(bootstrap_head_parse(bytes, &back), -ERANGE);
	bad.rank = 0;
	bad.ranks = BOOTSTRAP_RANKS_MAX + 1;
	bootstrap_head_write(&bad, bytes);
	assert_int_equal(bootstrap_head_parse(bytes, &back), -ERANGE);
	bad.ranks = 2;
	bad.kind = BOOTSTRAP_HELLO;
	bad.bytes = 1;
	bootstrap_head_write(&bad, bytes);
	assert_int_equal(bootstrap_head_parse(bytes, &back), -EMSGSIZE);
}

static int file_parse(const char *text, char host[BOOTSTRAP_HOST_MAX], uint16_t *port,
		      uint64_t *token)
{
	return bootstrap_file_parse(text, strlen(text), host, port, token);
}

static void the_file_is_one_line(void **state)
{
	(void)state;
	char host[BOOTSTRAP_HOST_MAX];
	uint16_t port = 0;
	uint64_t token = 0;
	assert_int_equal(file_parse("sluice-nccl/1 node-1 29500 ff00\n", host, &port, &token), 0);
	assert_string_equal(host, "node-1");
	assert_int_equal(port, 29500);
	assert_true(token == 0xff00);
	assert_int_equal(file_parse("sluice-nccl/1 node-1 295", host, &port, &token), -EAGAIN);
	assert_int_equal(file_parse("slui", host, &port, &token), -EAGAIN);
	assert_int_equal(file_parse("", host, &port, &token), -EAGAIN);
	assert_int_equal(file_parse("sluice-nccl/2 a 1 1\n", host, &port, &token), -EINVAL);
	assert_int_equal(file_parse("sluice-nccl/1 a 0 1\n", host, &port, &token), -EINVAL);
	assert_int_equal(file_parse("sluice-nccl/1 a 65536 1\n", host, &port, &token), -EINVAL);
	assert_int_equal(file_parse("sluice-nccl/1  1 1\n", host, &port, &token), -EINVAL);
	assert_int_equal(file_parse("sluice-nccl/1 a 1 g\n", host, &port, &token), -EINVAL);
	assert_int_equal(file_parse("sluice-nccl/1 a 1\n", host, &port, &token), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(everybody_hears_everybody_on_a_board),
	    cmocka_unit_test(a_board_has_its_limits),
	    cmocka_unit_test(who_does_not_come_is_named),
	    cmocka_unit_test(who_gives_up_is_named),
	    cmocka_unit_test(who_dies_is_named),
	    cmocka_unit_test(everybody_hears_everybody_over_tcp),
	    cmocka_unit_test_setup_teardown(ranks_find_each_other_by_a_file, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test(strangers_are_not_taken_in),
	    cmocka_unit_test(absent_ranks_are_named_over_tcp),
	    cmocka_unit_test(the_environment_says_who_we_are),
	    cmocka_unit_test(heads_are_read_as_written),
	    cmocka_unit_test(the_file_is_one_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

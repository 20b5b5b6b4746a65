/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Against the simulated libnccl and libcuda on a simulated DGX-1; each rank is a process of its
 * own, and what it finds wrong is its exit code and a line on standard error.
 */
#include "bench/collectives/nccl/nccl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/collectives/backend.h"
#include "bench/collectives/bootstrap.h"
#include "bench/collectives/measure.h"
#include "bench/collectives/nccl/nccl_private.h"
#include "bench/collectives/nccl/nccl_transport.h"
#include "sim/error.h"
#include "sim/profile.h"
#include "sim/state.h"
#include "unit/unit.h"

enum { RANKS = 4, LEAK_EXIT = 70 };
#define LONG_NS	 (20 * CLOCK_NS_PER_S)
#define SHORT_NS (300 * CLOCK_NS_PER_MS)

/* One rank of a case. */
struct seat {
	uint32_t rank, ranks;
	struct bootstrap *bootstrap;
	uint64_t timeout_ns;
	bool reads_transport;
};

static char *nccl_path, *cuda_path;

/* In a rank's process: says what is wrong, and which code ends it. */
__attribute__((format(printf, 3, 4))) static int want(bool is_so, const struct seat *seat,
						      const char *format, ...)
{
	va_list arguments;
	if (is_so)
		return 0;
	va_start(arguments, format);
	(void)fprintf(stderr, "rank %u: ", seat->rank);
	(void)vfprintf(stderr, format, arguments);
	(void)fputc('\n', stderr);
	va_end(arguments);
	return 1;
}

static int connect_rank(const struct seat *seat, struct backend **out, struct err *err)
{
	const struct nccl_options options = {.library = nccl_path,
					     .cuda_library = cuda_path,
					     .device = seat->rank,
					     .bootstrap = seat->bootstrap,
					     .timeout_ns = seat->timeout_ns,
					     .start_timeout_ns = seat->timeout_ns,
					     .reads_transport = seat->reads_transport};
	return nccl_backend_new(&options, out, err);
}

/* Forks the ranks, each of which does `each`; all must end with `code`. */
static void fork_ranks(uint32_t ranks, uint64_t timeout_ns, int (*each)(const struct seat *seat),
		       int code)
{
	struct bootstrap_board *board = NULL;
	pid_t pid[BOOTSTRAP_BOARD_RANKS_MAX];
	assert_int_equal(bootstrap_board_new(ranks, &board, NULL), 0);
	for (uint32_t rank = 0; rank < ranks; rank++) {
		pid[rank] = fork();
		if (pid[rank] == 0) {
			struct seat seat = {.rank = rank,
					    .ranks = ranks,
					    .timeout_ns = timeout_ns,
					    .reads_transport = true};
			if (bootstrap_enter(board, rank, &seat.bootstrap, NULL) < 0)
				_exit(99);
			int result = each(&seat);
			seat.bootstrap = bootstrap_free(seat.bootstrap);
			exit(result); /* with the library's own look at what was left */
		}
	}
	for (uint32_t rank = 0; rank < ranks; rank++) {
		int status = 0;
		assert_int_equal(waitpid(pid[rank], &status, 0), pid[rank]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), code);
	}
	(void)bootstrap_board_free(board);
}

static struct measure_plan plan_of(enum collective_op op, uint64_t bytes, uint32_t ranks)
{
	struct measure_plan plan = {.op = op,
				    .type = COLLECTIVE_F32,
				    .redop = COLLECTIVE_SUM,
				    .root = ranks - 1,
				    .warmups = 0,
				    .iterations = 1,
				    .checks = 1,
				    .has_stream = true,
				    .has_isolated = true,
				    .average = MEASURE_MEAN,
				    .seed = 7};
	collective_shape(op, plan.type, bytes, ranks, &plan.shape);
	return plan;
}

static int measure_one(struct backend *backend, const struct seat *seat, struct measure_plan *plan)
{
	struct measure_row row;
	struct err err = {0};
	collective_shape(plan->op, plan->type, 4096 + 64 * seat->ranks, seat->ranks, &plan->shape);
	int result = measure_run(backend, plan, NULL, &row, &err);
	if (want(result == 0, seat, "%s of %s, %s: %s", collective_op_to_string(plan->op),
		 collective_type_to_string(plan->type), collective_redop_to_string(plan->redop),
		 err.text))
		return 1;
	bool is_right = row.out_of_place.is_checked && row.out_of_place.wrong == 0 &&
			row.in_place.wrong == 0 && !row.out_of_place.is_guard_hurt &&
			!row.in_place.is_guard_hurt;
	result =
	    want(is_right, seat, "%s of %s, %s: %llu wrong, in place %llu: %s%s",
		 collective_op_to_string(plan->op), collective_type_to_string(plan->type),
		 collective_redop_to_string(plan->redop),
		 (unsigned long long)row.out_of_place.wrong, (unsigned long long)row.in_place.wrong,
		 row.out_of_place.wrong_text, row.in_place.wrong_text);
	measure_row_done(&row);
	return result;
}

static int every_operation_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct err err = {0};
	int bad = 0;
	if (want(connect_rank(seat, &backend, &err) == 0, seat, "%s", err.text))
		return 1;
	for (uint32_t op = 0; op < COLLECTIVE_OP_COUNT && !bad; op++) {
		struct measure_plan plan = plan_of((enum collective_op)op, 4096, seat->ranks);
		if (op == COLLECTIVE_HYPERCUBE && (seat->ranks & (seat->ranks - 1)) != 0)
			continue;
		bad = measure_one(backend, seat, &plan);
		plan.memory = BACKEND_REGISTERED;
		plan.is_unaligned = true;
		bad = bad || measure_one(backend, seat, &plan);
	}
	/* three cannot divide, which is the harder case */
	uint32_t types = seat->ranks == 3 ? COLLECTIVE_TYPE_COUNT : 0;
	for (uint32_t type = 0; type < types && !bad; type++) {
		for (uint32_t redop = 0; redop < COLLECTIVE_REDOP_COUNT && !bad; redop++) {
			struct measure_plan plan =
			    plan_of(COLLECTIVE_ALL_REDUCE, 4096, seat->ranks);
			plan.type = (enum collective_type)type;
			plan.redop = (enum collective_redop)redop;
			bad = measure_one(backend, seat, &plan);
			plan.op = COLLECTIVE_REDUCE_SCATTER;
			bad = bad || measure_one(backend, seat, &plan);
		}
	}
	bad = bad || want(strstr(backend->description, "(simulated)") != NULL, seat, "%s",
			  backend->description);
	backend->ops->free_backend(backend);
	return bad;
}

static void every_operation_is_right(void **state)
{
	(void)state;
	fork_ranks(RANKS, LONG_NS, every_operation_rank, 0);
}

static void three_ranks_are_right_too(void **state)
{
	(void)state;
	fork_ranks(3, LONG_NS, every_operation_rank, 0);
}

static int hypercube_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct measure_row row;
	struct err err = {0};
	const struct measure_plan plan = plan_of(COLLECTIVE_HYPERCUBE, 4096, seat->ranks);
	if (want(connect_rank(seat, &backend, &err) == 0, seat, "%s", err.text))
		return 1;
	int result = measure_run(backend, &plan, NULL, &row, &err);
	backend->ops->free_backend(backend);
	return want(result == -EOPNOTSUPP && strstr(err.text, "power of two"), seat, "%s",
		    err.text);
}

static void a_hypercube_has_a_power_of_two(void **state)
{
	(void)state;
	fork_ranks(3, LONG_NS, hypercube_rank, 0);
}

static int wrong_element_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct measure_row row;
	struct err err = {0};
	const struct measure_plan plan = plan_of(COLLECTIVE_ALL_REDUCE, 4096, seat->ranks);
	if (want(connect_rank(seat, &backend, &err) == 0, seat, "%s", err.text) ||
	    want(measure_run(backend, &plan, NULL, &row, &err) == 0, seat, "%s", err.text))
		return 1;
	int bad = want(row.out_of_place.wrong > 0 && row.out_of_place.wrong_rank == 2 &&
			   row.out_of_place.wrong_element == 5,
		       seat, "%llu wrong, rank %u, element %llu",
		       (unsigned long long)row.out_of_place.wrong, row.out_of_place.wrong_rank,
		       (unsigned long long)row.out_of_place.wrong_element);
	measure_row_done(&row);
	backend->ops->free_backend(backend);
	return bad;
}

static void a_wrong_element_is_found(void **state)
{
	(void)state;
	(void)setenv("SLUICE_SIM_NCCL_FAULT", "wrong=2:5", 1);
	fork_ranks(RANKS, LONG_NS, wrong_element_rank, 0);
}

/* Runs until it fails; `*out_result`. */
static int run_until_failure(const struct seat *seat, int *out_result, struct err *err)
{
	struct backend *backend = NULL;
	struct measure_row row;
	const struct measure_plan plan = plan_of(COLLECTIVE_ALL_REDUCE, 65536, seat->ranks);
	if (want(connect_rank(seat, &backend, err) == 0, seat, "%s", err->text))
		return 1;
	*out_result = measure_run(backend, &plan, NULL, &row, err);
	if (*out_result == 0)
		measure_row_done(&row);
	else
		backend->ops->abort(backend);
	backend->ops->free_backend(backend);
	return 0;
}

static int hang_rank(const struct seat *seat)
{
	struct err err = {0};
	int result = 0;
	return run_until_failure(seat, &result, &err) ||
	       want(result == -ETIMEDOUT || result == -EPIPE, seat, "%d: %s", result, err.text);
}

static void an_operation_that_hangs_is_given_up(void **state)
{
	(void)state;
	(void)setenv("SLUICE_SIM_NCCL_FAULT", "hang=65536", 1);
	fork_ranks(RANKS, SHORT_NS, hang_rank, 0);
}

static int async_rank(const struct seat *seat)
{
	struct err err = {0};
	int result = 0;
	return run_until_failure(seat, &result, &err) ||
	       want(result == -EPIPE &&
			(strstr(err.text, "remote process exited") ||
			 strstr(err.text, "has given up") || strstr(err.text, "gone")),
		    seat, "%d: %s", result, err.text);
}

static void an_error_behind_the_calls_is_seen(void **state)
{
	(void)state;
	(void)setenv("SLUICE_SIM_NCCL_FAULT", "async=65536", 1);
	fork_ranks(RANKS, LONG_NS, async_rank, 0);
}

static int shm_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct err err = {0};
	int result = connect_rank(seat, &backend, &err);
	return want(result == -EPIPE && strstr(err.text, "No space left") &&
			strstr(err.text, "NCCL may need 80 MiB for 4 ranks"),
		    seat, "%d: %s", result, err.text);
}

static void no_room_for_shared_memory_has_a_hint(void **state)
{
	(void)state;
	(void)setenv("SLUICE_SIM_NCCL_FAULT", "shm", 1);
	fork_ranks(RANKS, LONG_NS, shm_rank, 0);
}

static int start_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct err err = {0};
	int result = connect_rank(seat, &backend, &err);
	return want(result == -ETIMEDOUT && strstr(err.text, "ncclCommInitRank is not done"), seat,
		    "%d: %s", result, err.text);
}

static void a_start_that_hangs_is_given_up(void **state)
{
	(void)state;
	(void)setenv("SLUICE_SIM_NCCL_FAULT", "init", 1);
	fork_ranks(RANKS, SHORT_NS, start_rank, 0);
}

static int transport_rank(const struct seat *seat, const char *network)
{
	struct backend *backend = NULL;
	struct nccl_transport transport = {0};
	struct err err = {0};
	if (want(connect_rank(seat, &backend, &err) == 0, seat, "%s", err.text) ||
	    want(nccl_backend_transport(backend, &transport, &err) == 0, seat, "%s", err.text))
		return 1;
	/* the cube mesh of a DGX-1: 0 to 3 are all connected */
	int bad = want(strcmp(transport.network, network) == 0 &&
			   transport.pairs[NCCL_PATH_P2P] == RANKS * (RANKS - 1) / 2 &&
			   transport.pairs[NCCL_PATH_SHM] == 0,
		       seat, "network %s, %u pairs P2P", transport.network,
		       transport.pairs[NCCL_PATH_P2P]);
	nccl_transport_done(&transport);
	backend->ops->free_backend(backend);
	return bad;
}

static int infiniband_rank(const struct seat *seat)
{
	return transport_rank(seat, "IB");
}

static int socket_rank(const struct seat *seat)
{
	return transport_rank(seat, "Socket");
}

static void the_log_says_how_ranks_are_connected(void **state)
{
	(void)state;
	fork_ranks(RANKS, LONG_NS, infiniband_rank, 0);
	(void)setenv("SLUICE_SIM_NCCL_FAULT", "socket", 1);
	fork_ranks(RANKS, LONG_NS, socket_rank, 0);
}

static int debug_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct nccl_transport transport;
	struct err err = {0};
	if (want(connect_rank(seat, &backend, &err) == 0, seat, "%s", err.text))
		return 1;
	int bad = want(nccl_backend_transport(backend, &transport, &err) == -ENODATA, seat,
		       "the user's log was read");
	backend->ops->free_backend(backend);
	return bad;
}

static void a_log_of_the_users_is_left_alone(void **state)
{
	(void)state;
	(void)setenv("NCCL_DEBUG", "VERSION", 1);
	fork_ranks(2, LONG_NS, debug_rank, 0);
	(void)unsetenv("NCCL_DEBUG");
}

/* The ranks do not call the same: the real library would hang or spoil data. */
static int mismatch_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct err err = {0};
	struct collective_shape shape;
	void *memory = NULL;
	if (want(connect_rank(seat, &backend, &err) == 0, seat, "%s", err.text) ||
	    want(backend->ops->alloc(backend, BACKEND_PRIVATE, 65536, &memory, &err) == 0, seat,
		 "%s", err.text))
		return 1;
	collective_shape(COLLECTIVE_ALL_REDUCE, COLLECTIVE_F32, seat->rank == 0 ? 4096 : 8192,
			 seat->ranks, &shape);
	const struct backend_call call = {.op = COLLECTIVE_ALL_REDUCE,
					  .type = COLLECTIVE_F32,
					  .redop = COLLECTIVE_SUM,
					  .shape = &shape,
					  .send = memory,
					  .receive = memory};
	int result = backend->ops->run(backend, &call, &err);
	if (result == 0)
		result = backend->ops->sync(backend, &err);
	backend->ops->abort(backend);
	backend->ops->free_backend(backend);
	return want(result == -EPIPE, seat, "%d: %s", result, err.text);
}

static void ranks_that_differ_are_told(void **state)
{
	(void)state;
	fork_ranks(2, LONG_NS, mismatch_rank, 0);
}

/* Calls that a program must not make, one after the other. */
static int strict_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct err err = {0};
	void *memory = NULL, *handle = NULL;
	if (want(connect_rank(seat, &backend, &err) == 0, seat, "%s", err.text) ||
	    want(backend->ops->alloc(backend, BACKEND_REGISTERED, 65536, &memory, &err) == 0, seat,
		 "%s", err.text))
		return 1;
	struct nccl_backend *nccl = nccl_of(backend);
	struct nccl_calls *call = &nccl->call;
	int bad =
	    want(call->ncclGroupEnd() == 5, seat, "a group ended that was not begun") ||
	    want(call->ncclCommDestroy(nccl->comm) == 5, seat,
		 "destroyed with memory registered") ||
	    want(call->ncclMemFree(memory) == 5, seat, "freed while registered") ||
	    want(call->ncclMemFree(&handle) == 4, seat, "freed what is not its") ||
	    want(call->ncclCommRegister(nccl->comm, (void *)(uintptr_t)16, 8, &handle) == 4, seat,
		 "registered what is nobody's memory") ||
	    want(call->ncclAllReduce(memory, memory, 65536 / 4 + 1, 7, 0, nccl->comm,
				     nccl->stream) == 4,
		 seat, "past its buffer") ||
	    want(call->ncclAllReduce(memory, memory, 4, 99, 0, nccl->comm, nccl->stream) == 4, seat,
		 "no such type") ||
	    want(call->ncclAllReduce(memory, memory, 4, 7, 0, nccl->comm,
				     (struct cuda_stream *)(uintptr_t)0x1234) == 5,
		 seat, "no such stream") ||
	    want(call->ncclAllReduce(memory, memory, 4, 7, 0, &handle, nccl->stream) == 4, seat,
		 "no such communicator") ||
	    want(call->ncclSend(memory, 4, 7, (int)seat->ranks, nccl->comm, nccl->stream) == 4,
		 seat, "no such peer") ||
	    want(call->ncclSend(memory, 4, 7, (int)seat->rank, nccl->comm, nccl->stream) == 5, seat,
		 "sent to itself and did not receive");
	backend->ops->free(backend, memory);
	backend->ops->free_backend(backend);
	return bad;
}

static void the_simulated_library_is_strict(void **state)
{
	(void)state;
	fork_ranks(2, LONG_NS, strict_rank, 0);
}

static int leak_rank(const struct seat *seat)
{
	static struct backend *backend; /* no leak to a sanitizer, whose exit code would be other */
	struct err err = {0};
	return want(connect_rank(seat, &backend, &err) == 0, seat, "%s", err.text);
}

static void a_communicator_that_nobody_ends_is_told(void **state)
{
	(void)state;
	fork_ranks(2, LONG_NS, leak_rank, LEAK_EXIT);
}

static int fault_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct err err = {0};
	int result = connect_rank(seat, &backend, &err);
	return want(result == -EPIPE && strstr(err.text, "'hang=x' is no fault"), seat, "%d: %s",
		    result, err.text);
}

static void a_fault_that_nobody_knows_is_refused(void **state)
{
	(void)state;
	(void)setenv("SLUICE_SIM_NCCL_FAULT", "socket,hang=x", 1);
	fork_ranks(1, LONG_NS, fault_rank, 0);
}

static void versions_have_two_forms(void **state)
{
	(void)state;
	char text[32];
	assert_string_equal(nccl_version_to_string(2804, text), "NCCL 2.8.4");
	assert_string_equal(nccl_version_to_string(21005, text), "NCCL 2.10.5");
	assert_string_equal(nccl_version_to_string(22105, text), "NCCL 2.21.5");
}

static int absent_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct err err = {0};
	nccl_path[0] = '~';
	int result = connect_rank(seat, &backend, &err);
	return want(result == -ENOENT && strstr(err.text, "cannot load ~") && !backend, seat,
		    "%d: %s", result, err.text);
}

static void a_library_that_is_not_there_is_named(void **state)
{
	(void)state;
	fork_ranks(1, LONG_NS, absent_rank, 0);
}

static int no_gpu_rank(const struct seat *seat)
{
	struct backend *backend = NULL;
	struct err err = {0};
	struct seat other = *seat;
	other.rank = 99;
	int result = connect_rank(&other, &backend, &err);
	return want(result == -ENODEV, seat, "%d: %s", result, err.text);
}

static void a_gpu_that_is_not_there_is_refused(void **state)
{
	(void)state;
	fork_ranks(1, LONG_NS, no_gpu_rank, 0);
}

/* A simulated DGX-1 in a directory of its own. */
static int setup(void **state)
{
	struct sim_error error = {0};
	const struct sim_options options = {.seed = 1};
	struct sim_machine *machine = calloc(1, sizeof(*machine));
	const char *libraries = getenv("SLUICE_SIM_LIBDIR");
	if (!machine || !libraries || unit_top_setup(state) != 0)
		return -1;
	if (asprintf(&nccl_path, "%s/580/libnccl.so.2", libraries) < 0 ||
	    asprintf(&cuda_path, "%s/580/libcuda.so.1", libraries) < 0)
		return -1;
	(void)unsetenv("SLUICE_SIM_NCCL_FAULT");
	(void)unsetenv("NCCL_DEBUG");
	(void)setenv("SLUICE_SIM_STATE", unit_path(unit_top, "sim.state"), 1);
	int result = sim_profile_load("dgx1", &options, machine, &error);
	if (result == 0)
		result = sim_state_create(getenv("SLUICE_SIM_STATE"), machine, &error);
	if (result != 0)
		print_error("%s\n", error.text);
	free(machine);
	return result;
}

static int teardown(void **state)
{
	free(nccl_path);
	free(cuda_path);
	return unit_top_teardown(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(every_operation_is_right),
	    CASE(three_ranks_are_right_too),
	    CASE(a_hypercube_has_a_power_of_two),
	    CASE(a_wrong_element_is_found),
	    CASE(an_operation_that_hangs_is_given_up),
	    CASE(an_error_behind_the_calls_is_seen),
	    CASE(no_room_for_shared_memory_has_a_hint),
	    CASE(a_start_that_hangs_is_given_up),
	    CASE(the_log_says_how_ranks_are_connected),
	    CASE(a_log_of_the_users_is_left_alone),
	    CASE(ranks_that_differ_are_told),
	    CASE(the_simulated_library_is_strict),
	    CASE(a_communicator_that_nobody_ends_is_told),
	    CASE(a_fault_that_nobody_knows_is_refused),
	    CASE(a_library_that_is_not_there_is_named),
	    CASE(a_gpu_that_is_not_there_is_refused),
	    cmocka_unit_test(versions_have_two_forms),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

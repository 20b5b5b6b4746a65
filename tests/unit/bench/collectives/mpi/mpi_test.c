/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/mpi/mpi.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "bench/collectives/backend.h"
#include "unit/unit.h"

/* A library of fake_mpi.c: what it says, and what it does. */
struct fake {
	const char *path;
	char *said;
	int *code, *rank, *size, *finalized, *aborted, *ops;
};

static const char *const open_path = FAKE_MPI_DIR "/libfake-mpi-open.so";
static const char *const mpich_path = FAKE_MPI_DIR "/libfake-mpi-mpich.so";

static struct fake fake_load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		fail_msg("%s", dlerror());
	struct fake fake = {
	    .path = path,
	    .said = dlsym(library, "fake_mpi_said"),
	    .code = dlsym(library, "fake_mpi_code"),
	    .rank = dlsym(library, "fake_mpi_rank"),
	    .size = dlsym(library, "fake_mpi_size"),
	    .finalized = dlsym(library, "fake_mpi_finalized"),
	    .aborted = dlsym(library, "fake_mpi_aborted"),
	    .ops = dlsym(library, "fake_mpi_ops"),
	};
	assert_non_null(fake.ops);
	*fake.code = *fake.rank = *fake.finalized = *fake.aborted = *fake.ops = 0;
	*fake.size = 1;
	return fake;
}

static int forget_launchers(void **state)
{
	(void)unsetenv("OMPI_COMM_WORLD_SIZE");
	(void)unsetenv("PMI_SIZE");
	(void)unsetenv("WORLD_SIZE");
	return 0;
}

/* As rank `rank` of `size`, unless there is no memory: NULL. */
static struct backend *backend_of(const struct fake *fake, int rank, int size)
{
	struct err err = {0};
	struct backend *backend = NULL;
	*fake->rank = rank;
	*fake->size = size;
	int rc = mpi_backend_new(fake->path, &backend, &err);
	if (rc == -ENOMEM)
		return NULL;
	if (rc < 0)
		fail_msg("%s", err.text);
	return backend;
}

static float memory[64];

static const char *run(struct backend *backend, const struct fake *fake, enum collective_op op,
		       const struct collective_shape *shape, size_t send, size_t receive)
{
	const struct backend_call call = {
	    .op = op,
	    .type = COLLECTIVE_F32,
	    .redop = COLLECTIVE_MAX,
	    .root = 1,
	    .shape = shape,
	    .send = memory + send,
	    .receive = memory + receive,
	};
	struct err err = {0};
	int rc = backend->ops->run(backend, &call, &err);
	if (rc == -ENOMEM)
		return NULL;
	assert_int_equal(rc, 0);
	return fake->said;
}

/* As rank 1 of 2, the root, with 4 elements for each rank. */
static void calls_have_the_handles_of_the_family(void **state)
{
	static const struct {
		enum collective_op op;
		size_t send, receive; /* offsets in `memory` */
		const char *open, *mpich;
	} wanted[] = {
	    {COLLECTIVE_ALL_REDUCE, 0, 32, "allreduce memory memory 8 float op_max comm_world",
	     "allreduce memory memory 8 4c00040a 58000001 44000000"},
	    {COLLECTIVE_ALL_REDUCE, 0, 0, "allreduce in place memory 8 float op_max comm_world",
	     "allreduce in place memory 8 4c00040a 58000001 44000000"},
	    {COLLECTIVE_REDUCE, 0, 0, "reduce in place memory 8 float op_max to 1 comm_world",
	     "reduce memory memory 8 4c00040a 58000001 to 1 44000000"}, /* https://github.com/pmodels/mpich/issues/6540
									 */
	    {COLLECTIVE_BROADCAST, 0, 32, "bcast memory 8 float from 1 comm_world",
	     "bcast memory 8 4c00040a from 1 44000000"},
	    {COLLECTIVE_SENDRECV, 0, 32,
	     "sendrecv memory 8 float to 0 memory 8 float from 0 comm_world tags 0 0 status 0",
	     "sendrecv memory 8 4c00040a to 0 memory 8 4c00040a from 0 44000000 tags 0 0 status 1"},
	    {COLLECTIVE_REDUCE_SCATTER, 0, 32,
	     "reduce_scatter memory memory 4 float op_max comm_world",
	     "reduce_scatter memory memory 4 4c00040a 58000001 44000000"},
	    {COLLECTIVE_ALL_GATHER, 0, 32, "allgather memory 4 float memory 4 float comm_world",
	     "allgather memory 4 4c00040a memory 4 4c00040a 44000000"},
	    {COLLECTIVE_ALL_GATHER, 4, 0, "allgather in place 4 float memory 4 float comm_world",
	     "allgather in place 4 4c00040a memory 4 4c00040a 44000000"},
	    {COLLECTIVE_GATHER, 4, 0, "gather in place 4 float memory 4 float to 1 comm_world",
	     "gather in place 4 4c00040a memory 4 4c00040a to 1 44000000"},
	    {COLLECTIVE_SCATTER, 0, 4, "scatter memory 4 float in place 4 float from 1 comm_world",
	     "scatter memory 4 4c00040a in place 4 4c00040a from 1 44000000"},
	    {COLLECTIVE_ALLTOALL, 0, 32, "alltoall memory 4 float memory 4 float comm_world",
	     "alltoall memory 4 4c00040a memory 4 4c00040a 44000000"},
	    {COLLECTIVE_ALLTOALLV, 0, 32, "8@0:8@0 0@8:0@8 memory float memory float comm_world",
	     "8@0:8@0 0@8:0@8 memory 4c00040a memory 4c00040a 44000000"},
	    {COLLECTIVE_HYPERCUBE, 4, 0,
	     "sendrecv memory 4 float to 0 memory 4 float from 0 comm_world tags 0 0 status 0",
	     "sendrecv memory 4 4c00040a to 0 memory 4 4c00040a from 0 44000000 tags 0 0 status 1"},
	};
	const struct fake fakes[] = {fake_load(open_path), fake_load(mpich_path)};
	for (int family = 0; family < 2; family++) {
		struct backend *backend = backend_of(&fakes[family], 1, 2);
		for (size_t i = 0; backend && i < array_length(wanted); i++) {
			struct collective_shape shape;
			collective_shape(wanted[i].op, COLLECTIVE_F32, 32, 2, &shape);
			const char *said = run(backend, &fakes[family], wanted[i].op, &shape,
					       wanted[i].send, wanted[i].receive);
			if (said)
				assert_string_equal(said,
						    family ? wanted[i].mpich : wanted[i].open);
		}
		if (backend)
			(void)backend->ops->free_backend(backend);
	}
}

static void a_reduced_part_in_place_comes_where_it_belongs(void **state)
{
	const struct fake fake = fake_load(open_path);
	struct backend *backend = backend_of(&fake, 1, 2);
	if (!backend)
		return;
	struct collective_shape shape;
	collective_shape(COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_F32, 32, 2, &shape);
	memset(memory, 1, sizeof(memory));
	if (run(backend, &fake, COLLECTIVE_REDUCE_SCATTER, &shape, 0, 4)) {
		assert_int_equal(((const char *)memory)[0], 1); /* the input stays */
		assert_int_equal(((const char *)memory)[16], 0x5a);
	}
	(void)backend->ops->free_backend(backend);
}

static void averages_are_divided_sums(void **state)
{
	const struct fake fake = fake_load(mpich_path);
	struct backend *backend = backend_of(&fake, 1, 2);
	if (!backend)
		return;
	struct collective_shape shape;
	collective_shape(COLLECTIVE_ALL_REDUCE, COLLECTIVE_F32, 8, 2, &shape);
	memory[0] = 3;
	memory[1] = 5;
	memory[2] = 7;
	struct backend_call call = {.op = COLLECTIVE_ALL_REDUCE,
				    .type = COLLECTIVE_F32,
				    .redop = COLLECTIVE_AVG,
				    .shape = &shape,
				    .send = memory,
				    .receive = memory};
	assert_int_equal(backend->ops->run(backend, &call, NULL), 0);
	assert_string_equal(fake.said, "allreduce in place memory 2 4c00040a 58000003 44000000");
	assert_true(memory[0] == 1.5f && memory[1] == 2.5f && memory[2] == 7);

	double *doubles = (double *)(void *)memory;
	doubles[0] = 9;
	call.type = COLLECTIVE_F64;
	collective_shape(COLLECTIVE_ALL_REDUCE, COLLECTIVE_F64, 8, 2, &shape);
	assert_int_equal(backend->ops->run(backend, &call, NULL), 0);
	assert_true(doubles[0] == 4.5);

	int32_t *integers = (int32_t *)(void *)memory;
	integers[0] = -9;
	call.type = COLLECTIVE_I32;
	collective_shape(COLLECTIVE_ALL_REDUCE, COLLECTIVE_I32, 4, 2, &shape);
	assert_int_equal(backend->ops->run(backend, &call, NULL), 0);
	assert_int_equal(integers[0], -4);
	doubles[0] = 4.5;
	call.type = COLLECTIVE_F64;
	collective_shape(COLLECTIVE_ALL_REDUCE, COLLECTIVE_F64, 8, 2, &shape);

	/* Only the root has a sum to divide. */
	call.op = COLLECTIVE_REDUCE;
	call.root = 0;
	assert_int_equal(backend->ops->run(backend, &call, NULL), 0);
	assert_true(doubles[0] == 4.5);
	(void)backend->ops->free_backend(backend);
}

/* Open MPI's sums of bytes saturate: https://github.com/open-mpi/ompi/issues/8045 */
static void reductions_that_mpi_has_not_are_ours(void **state)
{
	static const struct {
		enum collective_type type;
		enum collective_redop redop;
		const char *open, *mpich;
	} wanted[] = {
	    {COLLECTIVE_F16, COLLECTIVE_SUM, "allreduce memory memory 2 uint16_t own op comm_world",
	     "allreduce memory memory 2 4c00023c 98000000 44000000"},
	    {COLLECTIVE_BF16, COLLECTIVE_MAX,
	     "allreduce memory memory 2 uint16_t own op comm_world",
	     "allreduce memory memory 2 4c00023c 98000000 44000000"},
	    {COLLECTIVE_I8, COLLECTIVE_SUM, "allreduce memory memory 4 int8_t own op comm_world",
	     "allreduce memory memory 4 4c000137 58000003 44000000"},
	    {COLLECTIVE_I8, COLLECTIVE_PROD, "allreduce memory memory 4 int8_t op_prod comm_world",
	     "allreduce memory memory 4 4c000137 58000004 44000000"},
	};
	const struct fake fakes[] = {fake_load(open_path), fake_load(mpich_path)};
	for (int family = 0; family < 2; family++) {
		struct backend *backend = backend_of(&fakes[family], 1, 2);
		for (size_t i = 0; backend && i < array_length(wanted); i++) {
			struct collective_shape shape;
			collective_shape(COLLECTIVE_ALL_REDUCE, wanted[i].type, 4, 2, &shape);
			const struct backend_call call = {.op = COLLECTIVE_ALL_REDUCE,
							  .type = wanted[i].type,
							  .redop = wanted[i].redop,
							  .shape = &shape,
							  .send = memory,
							  .receive = memory + 32};
			assert_int_equal(backend->ops->run(backend, &call, NULL), 0);
			assert_string_equal(fakes[family].said,
					    family ? wanted[i].mpich : wanted[i].open);
		}
		if (backend)
			(void)backend->ops->free_backend(backend);
		assert_int_equal(*fakes[family].ops, 0);
	}
}

static void what_mpi_cannot_do_is_refused(void **state)
{
	static const struct {
		enum collective_op op;
		enum collective_type type;
		enum collective_redop redop;
		uint64_t count;
		int ranks;
		const char *text;
	} refused[] = {
	    {COLLECTIVE_ALL_GATHER, COLLECTIVE_U8, COLLECTIVE_SUM, UINT64_C(1) << 31, 2,
	     "all_gather of 2147483648 elements"},
	    {COLLECTIVE_ALLTOALLV, COLLECTIVE_U8, COLLECTIVE_SUM, UINT64_C(1) << 30, 4,
	     "alltoallv of 4294967296 elements"},
	    {COLLECTIVE_HYPERCUBE, COLLECTIVE_U8, COLLECTIVE_SUM, UINT64_C(1) << 30, 4,
	     "hypercube of 2147483648 elements"},
	    {COLLECTIVE_HYPERCUBE, COLLECTIVE_U8, COLLECTIVE_SUM, 8, 3, "3 ranks are not"},
	};
	const struct fake fake = fake_load(open_path);
	for (size_t i = 0; i < array_length(refused); i++) {
		struct backend *backend = backend_of(&fake, 1, refused[i].ranks);
		if (!backend)
			return;
		const struct collective_shape shape = {
		    .param_count = refused[i].count,
		    .send_count = refused[i].count * (uint64_t)refused[i].ranks,
		    .receive_count = refused[i].count * (uint64_t)refused[i].ranks,
		    .element_bytes = (uint32_t)collective_type_size(refused[i].type)};
		const struct backend_call call = {.op = refused[i].op,
						  .type = refused[i].type,
						  .redop = refused[i].redop,
						  .shape = &shape,
						  .send = memory,
						  .receive = memory};
		struct err err = {0};
		assert_int_equal(backend->ops->run(backend, &call, &err), -EOPNOTSUPP);
		assert_non_null(strstr(err.text, refused[i].text));
		(void)backend->ops->free_backend(backend);
	}
	assert_int_equal(*fake.finalized, array_length(refused)); /* nothing has failed */
}

/* All elements are alike there: several calls instead of one with too many. The fake library does
 * not look at the memory. */
static void many_elements_are_split(void **state)
{
	const struct fake fake = fake_load(open_path);
	struct backend *backend = backend_of(&fake, 0, 2);
	if (!backend)
		return;
	const struct collective_shape shape = {.param_count = (UINT64_C(2) << 30) + 5,
					       .element_bytes = 4};
	assert_string_equal(run(backend, &fake, COLLECTIVE_ALL_REDUCE, &shape, 0, 0),
			    "allreduce in place memory 5 float op_max comm_world");
	(void)backend->ops->free_backend(backend);
}

static void errors_are_in_the_words_of_mpi(void **state)
{
	const struct fake fake = fake_load(mpich_path);
	struct backend *backend = backend_of(&fake, 1, 2);
	if (!backend)
		return;
	struct err err = {0};
	*fake.code = 17;
	assert_int_equal(backend->ops->barrier(backend, &err), -EPIPE);
	if (!strstr(err.text, "failed with code")) /* no memory for the words */
		assert_string_equal(err.text, "rank 1: MPI_Barrier: made-up error 17");
	*fake.code = 0;
	(void)backend->ops->free_backend(backend);
	assert_int_equal(*fake.finalized, 0); /* that would wait for who is gone */
}

static void an_abort_is_not_followed_by_a_wait(void **state)
{
	const struct fake fake = fake_load(open_path);
	struct backend *backend = backend_of(&fake, 0, 2);
	if (!backend)
		return;
	assert_int_equal(backend->ops->barrier(backend, NULL), 0);
	backend->ops->abort(backend);
	assert_int_equal(*fake.aborted, 2);
	(void)backend->ops->free_backend(backend);
	assert_int_equal(*fake.finalized, 0);
}

static void ranks_that_run_alone_are_refused(void **state)
{
	const struct fake fake = fake_load(mpich_path);
	struct backend *backend = NULL;
	struct err err = {0};
	assert_int_equal(setenv("PMI_SIZE", "4", 1), 0);
	int rc = mpi_backend_new(mpich_path, &backend, &err);
	if (rc == -ENOMEM)
		return;
	assert_int_equal(rc, -ENOTCONN);
	assert_null(backend);
	assert_non_null(strstr(err.text, "4 ranks were started (PMI_SIZE), but for MPICH Version: "
					 "9.8.7, "));
	assert_non_null(strstr(err.text, "there is 1"));
	assert_int_equal(*fake.finalized, 1);
	assert_int_equal(setenv("PMI_SIZE", "1", 1), 0);
	backend = backend_of(&fake, 0, 1);
	if (backend)
		(void)backend->ops->free_backend(backend);
}

static void a_library_that_does_not_fit_is_named(void **state)
{
	struct backend *backend = NULL;
	struct err err = {0};
	assert_int_equal(mpi_backend_new("/nowhere/libmpi.so.40", &backend, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cannot load /nowhere/libmpi.so.40: "));
	int rc = mpi_backend_new("libc.so.6", &backend, &err);
	assert_true(rc == -ENOENT || rc == -ENOMEM);
	if (rc == -ENOENT)
		assert_non_null(strstr(err.text, "libc.so.6: "));
	rc = mpi_backend_new(FAKE_MPI_DIR "/libfake-mpi-unknown.so", &backend, &err);
	assert_true(rc == -ENOENT || rc == -ENOMEM);
	if (rc == -ENOENT)
		assert_non_null(strstr(err.text, "neither of Open MPI nor of MPICH"));
	assert_null(backend);
}

static void memory_is_private_and_zeroed(void **state)
{
	const struct fake fake = fake_load(open_path);
	struct backend *backend = backend_of(&fake, 0, 1);
	if (!backend)
		return;
	unsigned char *bytes = NULL;
	void *other = NULL;
	struct err err = {0};
	assert_int_equal(backend->ops->alloc(backend, BACKEND_REGISTERED, 100, &other, &err),
			 -EOPNOTSUPP);
	assert_null(other);
	if (backend->ops->alloc(backend, BACKEND_PRIVATE, 5000, (void **)&bytes, &err) == 0) {
		assert_int_equal(bytes[0] | bytes[4999], 0);
		assert_int_equal((uintptr_t)bytes % 4096, 0);
		assert_int_equal(backend->ops->put(backend, bytes, "ab", 2, &err), 0);
		char back[2];
		assert_int_equal(backend->ops->get(backend, back, bytes, 2, &err), 0);
		assert_memory_equal(back, "ab", 2);
		backend->ops->free(backend, bytes);
	}
	assert_int_equal(backend->ops->alloc(backend, BACKEND_PRIVATE, SIZE_MAX, &other, &err),
			 -ENOMEM);
	assert_int_equal(backend->ops->sync(backend, &err), 0);
	assert_int_equal(backend->ops->share(backend, memory, memory, 8, &err), 0);
	assert_string_equal(fake.said, "allgather memory 8 byte memory 8 byte comm_world");
	assert_int_equal(backend->ops->share(backend, memory, memory, BACKEND_SHARE_MAX + 1, &err),
			 -E2BIG);
	const char *description = backend->description;
	assert_int_equal(strncmp(description, "Open MPI v9.8.7, /", 18), 0);
	const struct backend_ops *ops = backend->ops;
	assert_null(ops->free_backend(backend));
	assert_null(ops->free_backend(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(calls_have_the_handles_of_the_family, forget_launchers),
	    cmocka_unit_test_setup(a_reduced_part_in_place_comes_where_it_belongs,
				   forget_launchers),
	    cmocka_unit_test_setup(averages_are_divided_sums, forget_launchers),
	    cmocka_unit_test_setup(reductions_that_mpi_has_not_are_ours, forget_launchers),
	    cmocka_unit_test_setup(what_mpi_cannot_do_is_refused, forget_launchers),
	    cmocka_unit_test_setup(many_elements_are_split, forget_launchers),
	    cmocka_unit_test_setup(errors_are_in_the_words_of_mpi, forget_launchers),
	    cmocka_unit_test_setup(an_abort_is_not_followed_by_a_wait, forget_launchers),
	    cmocka_unit_test_setup(ranks_that_run_alone_are_refused, forget_launchers),
	    cmocka_unit_test_setup(a_library_that_does_not_fit_is_named, forget_launchers),
	    cmocka_unit_test_setup(memory_is_private_and_zeroed, forget_launchers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "bench/collectives/backend.h"
#include "bench/collectives/mpi/mpi.h"
#include "bench/collectives/mpi/mpi_launch.h"
#include "bench/collectives/shm.h"
#include "bench/collectives/world.h"
#include "bench/gpu/driver.h"

enum {
	RANKS_RANKS_LEAST = 2, /* one rank alone moves nothing */
	RANKS_LOOK_MS = 30000, /* a driver can take long to start, and hang */
};

const char *ranks_backend_to_string(enum request_backend backend)
{
	static const char *const names[] = {
	    [REQUEST_BACKEND_AUTO] = "auto",
	    [REQUEST_BACKEND_SHM] = "shm",
	    [REQUEST_BACKEND_MPI] = "mpi",
	    [REQUEST_BACKEND_NCCL] = "nccl",
	};
	return names_at(names, backend, "?");
}

uint32_t ranks_processors(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		return (uint32_t)CPU_COUNT(&set);
	long count = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than the set has room for */
	return count > 0 ? (uint32_t)count : 1;
}

/* In the child: what ranks_gpus() says. */
static uint32_t ranks_look(void)
{
	struct driver driver = {0};
	struct driver_device devices[DRIVER_DEVICES_MAX];
	uint32_t count = 0;
	void *nccl = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
	if (!nccl || driver_open(NULL, DRIVER_BY_DLSYM, &driver, NULL) < 0 ||
	    driver_devices(&driver, devices, &count, NULL) < 0)
		return 0;

	return count;
}

uint32_t ranks_gpus(void)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return 0;

	_cleanup_close_ int from = ends[0];
	pid_t child = fork();
	if (child == 0) {
		uint8_t count = (uint8_t)ranks_look();
		_exit(write(ends[1], &count, 1) == 1 ? 0 : 1);
	}

	(void)close(ends[1]);
	if (child < 0)
		return 0;

	struct pollfd look = {.fd = from, .events = POLLIN};
	uint8_t count = 0;

	if (poll(&look, 1, RANKS_LOOK_MS) != 1 || read(from, &count, 1) != 1)
		count = 0;
	(void)kill(child, SIGKILL); /* a driver that hangs does not end by itself */

	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;

	return count;
}

/* How many of the ranks that an mpirun started are on this machine, as it says; else all. */
static uint32_t ranks_local(char *const *environment, uint32_t announced)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE=", "MPI_LOCALNRANKS="};
	uint64_t count;

	for (; environment && *environment; environment++)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			size_t length = strlen(names[i]);
			if (strncmp(*environment, names[i], length) == 0 &&
			    parse_u64(*environment + length, 1, COLLECTIVE_RANKS_MAX, &count) == 0)
				return (uint32_t)count;
		}

	return announced ? announced : 1;
}

/* Ranks that somebody else started. */
static int ranks_choose_mpi(const struct request *request, const struct ranks_place *place,
			    struct ranks *out, struct err *err)
{
	uint32_t announced = 0;
	bool is_launched = mpi_is_launched(place->environment, &announced);
	const struct request_options *options = &request->options;

	if (!is_launched && request->ranks > 1)
		return err_set(err, -EINVAL,
			       "--backend mpi: the ranks are started by an mpirun; try 'mpirun -n "
			       "%u sluice bench collectives ...'",
			       request->ranks);

	if (options->threads * options->gpus > 1 && announced != request->ranks)
		return err_set(err, -EINVAL,
			       "-t and -g: each process of an mpirun is one rank here; start %u "
			       "processes instead",
			       request->ranks * (announced ? announced : 1));

	if (request->ranks && announced && request->ranks != announced)
		return err_set(err, -EINVAL, "--ranks %u, but %u were started", request->ranks,
			       announced);

	*out = (struct ranks){.backend = REQUEST_BACKEND_MPI,
			      .ranks = announced ? announced : 1,
			      .local = ranks_local(place->environment, announced),
			      .leaves_gpus = place->gpus > 0};
	return 0;
}

/* Ranks of NCCL that somebody else started and that meet by themselves. 1: this is one of them. */
static int ranks_choose_planned(const struct request *request, const struct ranks_place *place,
				struct ranks *out, struct err *err)
{
	struct bootstrap_plan plan;
	int rc = bootstrap_plan(place->environment, &plan, err);
	if (rc <= 0 || plan.ranks < RANKS_RANKS_LEAST)
		return rc < 0 ? rc : 0;
	if (request->ranks && request->ranks != plan.ranks)
		return err_set(err, -EINVAL, "--ranks %u, but %u were started", request->ranks,
			       plan.ranks);

	*out = (struct ranks){.backend = REQUEST_BACKEND_NCCL,
			      .ranks = plan.ranks,
			      .is_planned = true,
			      .plan = plan,
			      .local = 1};
	return 1;
}

static int ranks_choose_forked(const struct request *request, const struct ranks_place *place,
			       enum request_backend backend, struct ranks *out, struct err *err)
{
	uint32_t announced = 0;
	const char *name = ranks_backend_to_string(backend);

	if (mpi_is_launched(place->environment, &announced) && announced > 1)
		return err_set(err, -EINVAL,
			       "--backend %s: %u processes were started, and each would measure by "
			       "itself; use --backend mpi, or start one process",
			       name, announced);

	uint32_t usual = backend == REQUEST_BACKEND_NCCL ? place->gpus : place->processors;
	if (backend == REQUEST_BACKEND_SHM && usual < RANKS_RANKS_LEAST)
		usual = RANKS_RANKS_LEAST;
	if (usual > COLLECTIVE_SHM_RANKS_MAX)
		usual = COLLECTIVE_SHM_RANKS_MAX;

	uint32_t ranks = request->ranks ? request->ranks : usual;
	struct mpi_launch launch = mpi_launch_read(place->environment);
	if (launch.ranks > 1 && launch.ranks != ranks)
		return err_set(err, -EINVAL,
			       "--backend %s: %s says that %u processes were started, and each "
			       "would measure %u ranks of its own; start one process, or unset %s "
			       "if that is meant",
			       name, launch.variable, launch.ranks, ranks, launch.variable);

	if (ranks > COLLECTIVE_SHM_RANKS_MAX)
		return err_set(err, -EINVAL, "--ranks %u: --backend %s takes 1 to %d", ranks, name,
			       COLLECTIVE_SHM_RANKS_MAX);

	if (backend == REQUEST_BACKEND_NCCL && place->gpus && ranks > place->gpus)
		return err_set(err, -EINVAL,
			       "--ranks %u: there are %u GPUs, and each rank of NCCL "
			       "needs one of its own",
			       ranks, place->gpus);

	*out = (struct ranks){
	    .backend = backend, .forks = true, .ranks = ranks ? ranks : RANKS_RANKS_LEAST};
	out->local = out->ranks;
	return 0;
}

int ranks_choose(const struct request *request, const struct ranks_place *place, struct ranks *out,
		 struct err *err)
{
	enum request_backend backend = request->options.backend;
	uint32_t announced = 0;
	bool is_launched = mpi_is_launched(place->environment, &announced);
	struct bootstrap_plan plan;
	bool can_meet = !is_launched || bootstrap_plan(place->environment, &plan, NULL) == 1;

	if (backend == REQUEST_BACKEND_AUTO)
		backend = place->gpus && can_meet ? REQUEST_BACKEND_NCCL
			  : is_launched		  ? REQUEST_BACKEND_MPI
						  : REQUEST_BACKEND_SHM;

	int rc =
	    backend == REQUEST_BACKEND_NCCL ? ranks_choose_planned(request, place, out, err) : 0;
	if (rc == 0)
		rc = backend == REQUEST_BACKEND_MPI
			 ? ranks_choose_mpi(request, place, out, err)
			 : ranks_choose_forked(request, place, backend, out, err);

	if (rc < 0)
		return rc;

	uint32_t ranks = out->forks || out->is_planned ? out->ranks : announced;
	if (ranks && !request->all_roots && request->root >= ranks)
		return err_set(err, -EINVAL, "-r %u: there are %u ranks, from 0 to %u",
			       request->root, ranks, ranks - 1);

	if (request_split_groups(&request->split, ranks) > 1)
		return err_set(err, -EINVAL,
			       "NCCL_TESTS_SPLIT: that makes %u groups of %u ranks; here all ranks "
			       "are one group",
			       request_split_groups(&request->split, ranks), ranks);

	out->environment = place->environment;
	out->library = request->options.library;
	out->timeout_ns = request->options.timeout_s
			      ? request->options.timeout_s * UINT64_C(1000000000)
			      : UINT64_MAX;
	out->start_timeout_ns = WORLD_START_TIMEOUT_NS;

	return 0;
}

int ranks_prepare(struct ranks *ranks, struct err *err)
{
	if (ranks->backend == REQUEST_BACKEND_SHM)
		return shm_world_new(ranks->ranks, &ranks->world, err);
	if (ranks->backend == REQUEST_BACKEND_NCCL)
		return nccl_ranks_prepare(ranks->ranks, ranks->is_planned ? &ranks->plan : NULL,
					  &ranks->nccl, err);
	return 0;
}

int ranks_start(struct ranks *ranks, struct world_seat *seat, struct backend **out, struct err *err)
{
	switch (ranks->backend) {
	case REQUEST_BACKEND_SHM:
		return shm_backend_new(ranks->world, world_seat_rank(seat), ranks->timeout_ns, out,
				       err);
	case REQUEST_BACKEND_MPI:
		return mpi_backend_new(ranks->library, out, err);
	case REQUEST_BACKEND_NCCL:
		return nccl_ranks_start(&ranks->nccl, world_seat_rank(seat), ranks->library,
					ranks->root ? ranks->root : "", ranks->timeout_ns,
					ranks->start_timeout_ns, out, err);
	case REQUEST_BACKEND_AUTO:
		break;
	}

	return err_set(err, -ENOENT, "there is no such backend");
}

void ranks_done(struct ranks *ranks)
{
	ranks->world = shm_world_free(ranks->world);
	nccl_ranks_done(&ranks->nccl);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An all_reduce of floats between two ranks through our shared memory, beside Open MPI and MPICH.
 * The ranks of all of them are alive at the same time and asleep but for those whose turn it is; in
 * each round every library has one turn, in random order, so that all of them meet the same noise.
 * What is judged is the ratio within a round: its median over the rounds, and its exact 95 %
 * interval. Against the better MPI at each size, of the variants in `worlds`.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"
#include "bench/collectives/backend.h"
#include "bench/collectives/mpi/mpi.h"
#include "bench/collectives/shm.h"
#include "perf/collectives_kill.h"
#include "perf/collectives_rank.h"
#include "perf/gate.h"
#include "bench/stats.h"

extern char **environ;

enum {
	RANKS = 2,
	ARGUMENTS_MAX = 24,
	ROUNDS = 20,
	ROUNDS_MAX = 100,
	ROUNDS_BEFORE_DROP = 3,
	STREAMS = 10, /* in a turn */
	ITERATIONS_MAX = 2000,
	START_MS = 30000,
	ANSWER_MS = 60000,
	END_MS = 5000,
	SHM_TIMEOUT_S = 30,
};
#define LARGE		 (UINT64_C(16) << 20)
#define SIZE_FIRST	 UINT64_C(8)
#define REGISTERED_FIRST (UINT64_C(64) << 10) /* from here registered memory is judged */
#define SIZE_LAST	 (UINT64_C(64) << 20)
#define TURN_S		 3e-3 /* that a turn takes, as far as one operation is shorter */
#define DROP_RATIO	 1.5  /* a variant of MPI so much slower than another is left out */

static const struct world_kind {
	const char *name;
	const char *mpirun; /* NULL: ours, forked */
	const char *options[8];
} worlds[] = {
    {"shm", NULL, {NULL}},
    {"Open MPI", "mpirun.openmpi", {"--bind-to", "core"}},
    {"Open MPI, no CMA",
     "mpirun.openmpi",
     {"--bind-to", "core", "--mca", "btl_vader_single_copy_mechanism", "none"}},
    {"Open MPI, coll/sm",
     "mpirun.openmpi",
     {"--bind-to", "core", "--mca", "coll_sm_priority", "100"}},
    {"MPICH", "mpirun.mpich", {"-bind-to", "core"}},
    {"MPICH, posix", "mpirun.mpich", {"-bind-to", "core", "-genv", "UCX_TLS", "posix,self"}},
};
enum { WORLDS = array_length(worlds), CONTESTS = WORLDS + 1, REGISTERED = WORLDS, OURS = 0 };

struct world {
	pid_t pids[RANKS]; /* ours; or mpirun alone. 0: none */
	int fds[RANKS];	   /* -1: not there */
	char description[RANK_TEXT_MAX];
	bool is_there;
};

/* Of one size and timing: seconds per operation, [contest][round]; NAN: left out. */
struct samples {
	double seconds[CONTESTS][ROUNDS_MAX];
	size_t rounds;
};

struct comparison {
	uint32_t best;	      /* of MPI; 0: none */
	double ours_s, mpi_s; /* medians */
	double ratio, low, high;
};

static struct bench {
	struct gate_report *report;
	struct world worlds[WORLDS];
	struct shm_world *shm;
	char directory[64], path[96];
	int listener;
	size_t rounds;
	uint64_t wrong;
	struct stats_random random;
} bench = {.listener = -1};

static void bench_close(void)
{
	for (size_t i = 0; i < WORLDS; i++) {
		for (size_t j = 0; j < RANKS; j++) {
			if (bench.worlds[i].fds[j] >= 0)
				(void)close(bench.worlds[i].fds[j]);
			bench.worlds[i].fds[j] = -1;
		}
	}

	uint64_t begin = gate_now_ns();

	for (size_t i = 0; i < WORLDS * RANKS; i++) {
		pid_t pid = bench.worlds[i / RANKS].pids[i % RANKS];
		bool has_ended = pid == 0;
		/* They end by themselves, once nobody has orders for them. */
		while (!has_ended && gate_now_ns() - begin < END_MS * UINT64_C(1000000)) {
			has_ended = waitpid(pid, NULL, WNOHANG) == pid;
			if (!has_ended)
				(void)poll(NULL, 0, 5);
		}

		if (!has_ended) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
		}

		bench.worlds[i / RANKS].pids[i % RANKS] = 0;
	}

	(void)shm_world_free(bench.shm);
	bench.shm = NULL;
	if (bench.listener >= 0)
		(void)close(bench.listener);
	bench.listener = -1;
	(void)unlink(bench.path);
	(void)rmdir(bench.directory);
}

#define bench_must(condition, ...)                                                                 \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "collectives: " __VA_ARGS__);                        \
			(void)fprintf(stderr, "\n");                                               \
			bench_close();                                                             \
			(void)gate_close(bench.report); /* what was measured before */             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void bench_listen(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)snprintf(bench.directory, sizeof(bench.directory), "/tmp/collectives.XXXXXX");
	bench_must(mkdtemp(bench.directory), "cannot make '%s'", bench.directory);
	(void)snprintf(bench.path, sizeof(bench.path), "%s/orders", bench.directory);
	memcpy(address.sun_path, bench.path, strlen(bench.path));
	bench.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bench_must(bench.listener >= 0 &&
		       bind(bench.listener, (const struct sockaddr *)&address, sizeof(address)) ==
			   0 &&
		       listen(bench.listener, RANKS) == 0,
		   "cannot listen at '%s'", bench.path);
}

/* Each to a processor of its own, as --bind-to core does. */
static void bench_pin(uint32_t rank)
{
	cpu_set_t allowed, one;
	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return;

	for (int cpu = 0, nth = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nth++ != (int)rank)
			continue;
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one); /* else it is only less steady */
		return;
	}
}

static _Noreturn void bench_be_shm_rank(uint32_t rank)
{
	struct err err = {0};
	struct backend *backend = NULL;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* it also ends when the socket closes */
	bench_pin(rank);

	int rc =
	    shm_backend_new(bench.shm, rank, SHM_TIMEOUT_S * UINT64_C(1000000000), &backend, &err);
	if (rc < 0)
		(void)fprintf(stderr, "collectives: %s\n", err.text);
	else
		rc = rank_serve(backend, OURS, bench.path);

	if (backend)
		(void)backend->ops->free_backend(backend);
	_exit(rc == 0 ? 0 : 1);
}

static int bench_be_mpi_rank(const char *path, const char *world_text)
{
	struct err err = {0};
	struct backend *backend = NULL;
	uint64_t world;

	if (parse_u64(world_text, 0, WORLDS - 1, &world) < 0 ||
	    mpi_backend_new(NULL, &backend, &err) < 0) {
		(void)fprintf(stderr, "collectives: %s\n", err.text);
		return 1;
	}

	int rc = rank_serve(backend, (uint32_t)world, path);
	(void)backend->ops->free_backend(backend);
	return rc;
}

static void bench_launch(size_t index)
{
	const struct world_kind *kind = &worlds[index];
	const char *arguments[ARGUMENTS_MAX] = {kind->mpirun, "-n", "2"};
	char self[512], number[16];
	size_t count = 3;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	bench_must(length > 0, "cannot find the own program");
	self[length] = '\0';
	(void)snprintf(number, sizeof(number), "%zu", index); /* fits */

	for (size_t i = 0; i < array_length(kind->options) && kind->options[i]; i++)
		arguments[count++] = kind->options[i];

	arguments[count++] = self;
	arguments[count++] = "--rank";
	arguments[count++] = bench.path;
	arguments[count++] = number;

	posix_spawn_file_actions_t files;
	bench_must(
	    posix_spawn_file_actions_init(&files) == 0 &&
		posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", 0, 0) == 0 &&
		posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO) == 0 &&
		posix_spawnp(&bench.worlds[index].pids[0], kind->mpirun, &files, NULL,
			     (char *const *)(uintptr_t)arguments, environ) == 0,
	    "cannot start '%s'", kind->mpirun);
	(void)posix_spawn_file_actions_destroy(&files);
}

static void bench_accept(size_t index)
{
	struct world *world = &bench.worlds[index];

	for (int i = 0; i < RANKS; i++) {
		struct pollfd wait = {.fd = bench.listener, .events = POLLIN};
		struct rank_hello hello;

		bench_must(poll(&wait, 1, START_MS) == 1, "%s does not start", worlds[index].name);
		int fd = accept4(bench.listener, NULL, NULL, SOCK_CLOEXEC);
		bench_must(fd >= 0 && recv(fd, &hello, sizeof(hello), 0) == sizeof(hello) &&
			       hello.world == index && hello.ranks == RANKS && hello.rank < RANKS &&
			       world->fds[hello.rank] < 0,
			   "%s: a rank says what it cannot be", worlds[index].name);
		world->fds[hello.rank] = fd;
		(void)snprintf(world->description, sizeof(world->description), "%.*s",
			       RANK_TEXT_MAX - 1, hello.description);
	}

	world->is_there = true;
}

static bool bench_has(const char *program)
{
	char command[128];
	(void)snprintf(command, sizeof(command), "command -v %s >/dev/null", program); /* fits */
	return system(command) == 0;
}

static void bench_start(void)
{
	struct err err = {0};

	for (size_t i = 0; i < WORLDS; i++)
		bench.worlds[i].fds[0] = bench.worlds[i].fds[1] = -1;

	bench_listen();
	bench_must(shm_world_new(RANKS, &bench.shm, &err) == 0, "%s", err.text);

	for (uint32_t rank = 0; rank < RANKS; rank++) {
		pid_t pid = fork();
		bench_must(pid >= 0, "cannot fork");
		if (pid == 0)
			bench_be_shm_rank(rank);
		bench.worlds[OURS].pids[rank] = pid;
	}

	bench_accept(OURS);

	for (size_t i = 1; i < WORLDS; i++) {
		if (!bench_has(worlds[i].mpirun)) {
			gate_note(bench.report, "SKIP %s: %s is not installed: tools/setup mpi",
				  worlds[i].name, worlds[i].mpirun);
			continue;
		}

		bench_launch(i);
		bench_accept(i);
	}

	for (size_t i = 0; i < WORLDS; i++) {
		if (bench.worlds[i].is_there)
			gate_note(bench.report, "%s: %s", worlds[i].name,
				  bench.worlds[i].description);
	}
}

/* Lets one contest have its turn: the slower rank's time per operation; median of single ones. */
static double bench_turn(uint32_t contest, struct rank_order order)
{
	struct world *world = &bench.worlds[contest == REGISTERED ? OURS : contest];
	const char *name = worlds[contest == REGISTERED ? OURS : contest].name;
	static struct rank_answer answers[RANKS];

	order.is_registered = contest == REGISTERED;
	for (int rank = 0; rank < RANKS; rank++)
		bench_must(send(world->fds[rank], &order, sizeof(order), MSG_NOSIGNAL) ==
			       sizeof(order),
			   "%s: rank %d is gone", name, rank);

	for (int rank = 0; rank < RANKS; rank++) {
		struct pollfd wait = {.fd = world->fds[rank], .events = POLLIN};
		bench_must(poll(&wait, 1, ANSWER_MS) == 1, "%s: rank %d does not answer", name,
			   rank);
		bench_must(recv(world->fds[rank], &answers[rank], sizeof(answers[rank]), 0) ==
			       sizeof(answers[rank]),
			   "%s: rank %d is gone", name, rank);
		bench_must(answers[rank].error[0] == '\0', "%s: %s", name, answers[rank].error);
		bench.wrong += answers[rank].wrong;
	}

	uint32_t count = answers[0].sample_count;
	bench_must(count > 0 && count <= RANK_SAMPLES_MAX && answers[1].sample_count == count,
		   "%s: an answer without samples", name);

	for (uint32_t i = 0; i < count; i++)
		answers[0].samples[i] = fmax(answers[0].samples[i], answers[1].samples[i]);

	return stats_median(answers[0].samples, count);
}

/* As many operations as fit into a turn; a stream is as long as a tenth of it, if it can. */
static struct rank_order bench_order(uint64_t bytes, enum rank_timing timing, double seconds)
{
	struct rank_order order = {.bytes = bytes, .timing = timing};
	double fit = TURN_S / fmax(seconds, 1e-8);

	if (timing == RANK_STREAM) {
		order.iterations = (uint32_t)fmax(2, fmin(fit / STREAMS, ITERATIONS_MAX));
		order.streams = (uint32_t)fmax(1, fmin(fit / order.iterations, STREAMS));
	} else {
		order.iterations = (uint32_t)fmax(2, fmin(fit, RANK_SAMPLES_MAX));
	}

	order.warmups = 1 + order.iterations * (order.streams ? order.streams : 1) / 10;
	return order;
}

static double bench_median(const struct samples *samples, uint32_t contest)
{
	double values[ROUNDS_MAX];
	memcpy(values, samples->seconds[contest], samples->rounds * sizeof(*values));
	return stats_median(values, samples->rounds);
}

/* Those whose every round was measured. 0: no MPI is there. */
static uint32_t bench_best(const struct samples *samples, const bool takes_part[CONTESTS])
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < WORLDS; i++) {
		if (takes_part[i] &&
		    (best == 0 || bench_median(samples, i) < bench_median(samples, best)))
			best = i;
	}
	return best;
}

static void bench_shuffle(uint32_t order[CONTESTS])
{
	for (uint32_t i = 0; i < CONTESTS; i++)
		order[i] = i;

	for (uint32_t i = CONTESTS - 1; i > 0; i--) {
		uint32_t other = (uint32_t)(stats_random_next(&bench.random) % (i + 1));
		uint32_t kept = order[i];
		order[i] = order[other];
		order[other] = kept;
	}
}

static void bench_measure(uint64_t bytes, enum rank_timing timing, bool takes_part[CONTESTS],
			  struct samples *out)
{
	struct rank_order turns[CONTESTS];
	uint32_t order[CONTESTS];

	for (uint32_t i = 0; i < CONTESTS; i++) {
		takes_part[i] = i == REGISTERED ? timing != RANK_STREAM : bench.worlds[i].is_there;
		if (!takes_part[i])
			continue;

		struct rank_order first = bench_order(bytes, timing, bytes < LARGE ? 1e-4 : 1);
		first.is_checked = 1;
		turns[i] = bench_order(bytes, timing, bench_turn(i, first));
	}

	for (out->rounds = 0; out->rounds < bench.rounds;) {
		bench_shuffle(order);

		for (uint32_t i = 0; i < CONTESTS; i++) {
			uint32_t contest = order[i];
			if (takes_part[contest])
				out->seconds[contest][out->rounds] =
				    bench_turn(contest, turns[contest]);
		}

		out->rounds++;
		uint32_t best = bench_best(out, takes_part);
		for (uint32_t i = 1; out->rounds == ROUNDS_BEFORE_DROP && i < WORLDS; i++) {
			if (takes_part[i] &&
			    bench_median(out, i) > DROP_RATIO * bench_median(out, best))
				takes_part[i] = false;
		}
	}
}

/* How many times faster `contest` is than the best of MPI. */
static struct comparison bench_compare(const struct samples *samples, uint32_t contest,
				       const bool takes_part[CONTESTS])
{
	struct comparison result = {.best = bench_best(samples, takes_part),
				    .ours_s = bench_median(samples, contest),
				    .low = NAN,
				    .high = NAN};
	double logs[ROUNDS_MAX];
	struct stats_interval interval;

	if (result.best == 0)
		return result;

	result.mpi_s = bench_median(samples, result.best);
	for (size_t i = 0; i < samples->rounds; i++)
		logs[i] = log(samples->seconds[result.best][i] / samples->seconds[contest][i]);

	stats_sort(logs, samples->rounds);
	result.ratio = exp(stats_location(logs, samples->rounds));

	if (stats_interval(logs, samples->rounds, 0.95, &interval, NULL) == 0) {
		result.low = exp(interval.low);
		result.high = exp(interval.high);
	}

	return result;
}

/* The least of these over a range of sizes. */
struct least {
	double ratio, low;
};

static void least_take(struct least *least, const struct comparison *comparison)
{
	least->ratio = fmin(least->ratio, comparison->ratio);
	least->low = fmin(least->low, comparison->low);
}

static void bench_row(uint64_t bytes, const char *what, const struct comparison *comparison)
{
	if (comparison->best == 0) {
		gate_note(bench.report, "%9llu  %-10s %10.2f  no MPI to compare with",
			  (unsigned long long)bytes, what, comparison->ours_s * 1e6);
		return;
	}

	gate_note(bench.report, "%9llu  %-10s %10.2f %10.2f  %6.2f  [%.2f, %.2f]  %s",
		  (unsigned long long)bytes, what, comparison->ours_s * 1e6,
		  comparison->mpi_s * 1e6, comparison->ratio, comparison->low, comparison->high,
		  worlds[comparison->best].name);
}

struct leasts {
	struct least small, medium, one, all, single, registered_medium, registered_large;
};

static void bench_size(uint64_t bytes, struct leasts *leasts)
{
	static struct samples samples;
	bool takes_part[CONTESTS];

	bench_measure(bytes, RANK_STREAM, takes_part, &samples);
	struct comparison stream = bench_compare(&samples, OURS, takes_part);

	bench_measure(bytes, RANK_SINGLE, takes_part, &samples);
	struct comparison single = bench_compare(&samples, OURS, takes_part);
	struct comparison registered = bench_compare(&samples, REGISTERED, takes_part);

	bench_row(bytes, "stream", &stream);
	bench_row(bytes, "single", &single);
	bench_row(bytes, "registered", &registered);

	if (bytes >= REGISTERED_FIRST) {
		bench_measure(bytes, RANK_USED, takes_part, &samples);
		struct comparison used = bench_compare(&samples, REGISTERED, takes_part);
		bench_row(bytes, "  and read", &used);
	}

	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr, "%llu bytes: %.2f, %.2f, registered %.2f times faster\n",
			      (unsigned long long)bytes, stream.ratio, single.ratio,
			      registered.ratio);

	if (stream.best == 0)
		return;

	least_take(&leasts->all, &stream);
	least_take(&leasts->single, &single);

	if (bytes <= UINT64_C(4) << 10)
		least_take(&leasts->small, &stream);
	else if (bytes <= UINT64_C(512) << 10)
		least_take(&leasts->medium, &stream);
	else if (bytes == UINT64_C(1) << 20)
		least_take(&leasts->one, &stream);

	if (bytes >= REGISTERED_FIRST && bytes <= UINT64_C(1) << 20)
		least_take(&leasts->registered_medium, &registered);
	if (bytes >= UINT64_C(4) << 20)
		least_take(&leasts->registered_large, &registered);
}

static void bench_gates(const struct leasts *leasts)
{
	const struct {
		const char *name;
		double value, limit;
	} gates[] = {
	    {"collectives_small", leasts->small.ratio, 1.5},
	    {"collectives_medium", leasts->medium.ratio, 1.4},
	    {"collectives_1m", leasts->one.ratio, 1.2},
	    {"collectives_any_size", leasts->all.ratio, 1},
	    {"collectives_lower_bound", leasts->all.low, 0.95},
	    {"collectives_single_lower_bound", leasts->single.low, 0.95},
	    {"collectives_registered_medium", leasts->registered_medium.ratio, 3},
	    {"collectives_registered_large", leasts->registered_large.ratio, 1.8},
	};

	for (size_t i = 0; i < array_length(gates); i++) {
		if (isfinite(gates[i].value))
			gate_value(bench.report, gates[i].name, gates[i].value, "times",
				   GATE_AT_LEAST, gates[i].limit);
		else
			gate_note(bench.report, "SKIP %s: nothing to compare with", gates[i].name);
	}

	gate_value(bench.report, "collectives_wrong", (double)bench.wrong, "elements", GATE_AT_MOST,
		   0);
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "--rank") == 0)
		return bench_be_mpi_rank(argv[2], argv[3]);

	int rest;
	uint64_t rounds = ROUNDS, first = SIZE_FIRST, last = SIZE_LAST;

	bench.report = gate_open(
	    argc, argv, "collectives",
	    "Compares an all_reduce of floats through shared memory with Open MPI and MPICH.\n"
	    "Arguments: rounds (20), first size (8), last size (64Mi).",
	    false, &rest);
	if ((rest < argc && parse_u64(argv[rest], 6, ROUNDS_MAX, &rounds) < 0) ||
	    (rest + 1 < argc && parse_size(argv[rest + 1], 8, SIZE_LAST, &first) < 0) ||
	    (rest + 2 < argc && parse_size(argv[rest + 2], first, SIZE_LAST, &last) < 0) ||
	    rest + 3 < argc) {
		(void)fprintf(stderr,
			      "collectives: up to three arguments: rounds from 6 to %d, the first "
			      "and the last size\n",
			      ROUNDS_MAX);
		return 64;
	}

	bench.rounds = rounds;
	bench.random.state = gate_now_ns();
	gate_note(bench.report, "all_reduce, float, sum, 2 ranks; seed %llu",
		  (unsigned long long)bench.random.state);
	bench_must(setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1) == 0 &&
		       setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1) == 0,
		   "no memory");
	bench_start();
	gate_note(bench.report,
		  "    bytes  timing      ours (us)   MPI (us)   times  95 %% interval");

	const struct least none = {INFINITY, INFINITY};
	struct leasts leasts = {none, none, none, none, none, none, none};
	for (uint64_t bytes = first; bytes <= last; bytes *= 2)
		bench_size(bytes, &leasts);

	bench_close();
	bench_gates(&leasts);
	collectives_kill(bench.report);

	return gate_close(bench.report);
}

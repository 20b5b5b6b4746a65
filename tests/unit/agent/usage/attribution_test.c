/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage/attribution.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/doors/door_kubelet.h"
#include "agent/usage/proctable.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/kubelet/podresources.h"
#include "doors/queue/queue.h"
#include "unit/unit.h"
#include "web/view.h"

#define ID_A	"aa12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12"
#define ID_B	"bb12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12"
#define UID	"3f1c2b4a-0d9e-4c6b-8a57-91e2d3c4b5a6"
#define ABSENT	SNAPSHOT_U32_ABSENT
#define NOTHING SNAPSHOT_U64_ABSENT
#define SECOND	UINT64_C(1000000000)

/* --- kubelet and queue, as the test has them ---------------------------------------------------
 */

enum { RIG_MAX = 4096 };

static struct {
	struct loop *loop;
	struct storage *storage;
	struct attribution *attribution;
	struct view *view;
	char proc[256];
	struct podresources_holder pod[RIG_MAX];
	size_t pods;
	unsigned asked;
	struct job job[4];
	struct launch_grant grant[4]; /* one of each job */
	char cgroup[4][64];
	size_t jobs;
	pid_t of_job; /* the only process that an ancestor tells; of job[0] */
} rig;

static struct door_kubelet *const rig_door = (struct door_kubelet *)&rig;
static struct queue *const rig_queue = (struct queue *)&rig;

const struct podresources *__wrap_door_kubelet_pods(const struct door_kubelet *door);
void __wrap_door_kubelet_ask(struct door_kubelet *door);
size_t __wrap_podresources_count(const struct podresources *podresources);
const struct podresources_holder *__wrap_podresources_at(const struct podresources *podresources,
							 size_t index);
const struct job *__wrap_queue_first(const struct queue *queue);
const struct job *__wrap_queue_next(const struct queue *queue, const struct job *job);
const struct job *__wrap_queue_find(const struct queue *queue, uint64_t id);
const struct job *__wrap_queue_job_of_process(const struct queue *queue, pid_t pid);
void __wrap_queue_attempt_of(const struct queue *queue, const struct job *job,
			     struct queue_attempt *out);

const struct podresources *__wrap_door_kubelet_pods(const struct door_kubelet *door)
{
	assert_ptr_equal(door, rig_door);
	return (const struct podresources *)&rig;
}

void __wrap_door_kubelet_ask(struct door_kubelet *door)
{
	assert_ptr_equal(door, rig_door);
	rig.asked++;
}

size_t __wrap_podresources_count(const struct podresources *podresources)
{
	(void)podresources;
	return rig.pods;
}

const struct podresources_holder *__wrap_podresources_at(const struct podresources *podresources,
							 size_t index)
{
	(void)podresources;
	return &rig.pod[index];
}

const struct job *__wrap_queue_first(const struct queue *queue)
{
	assert_ptr_equal(queue, rig_queue);
	return rig.jobs > 0 ? &rig.job[0] : NULL;
}

const struct job *__wrap_queue_next(const struct queue *queue, const struct job *job)
{
	(void)queue;
	return (size_t)(job - rig.job) + 1 < rig.jobs ? job + 1 : NULL;
}

const struct job *__wrap_queue_find(const struct queue *queue, uint64_t id)
{
	(void)queue;
	for (size_t i = 0; i < rig.jobs; i++)
		if (rig.job[i].id == id)
			return &rig.job[i];
	return NULL;
}

const struct job *__wrap_queue_job_of_process(const struct queue *queue, pid_t pid)
{
	(void)queue;
	return rig.of_job > 0 && pid == rig.of_job ? &rig.job[0] : NULL;
}

void __wrap_queue_attempt_of(const struct queue *queue, const struct job *job,
			     struct queue_attempt *out)
{
	(void)queue;
	size_t i = (size_t)(job - rig.job);
	*out = (struct queue_attempt){
	    .grants = &rig.grant[i], .grant_count = 1, .cgroup = rig.cgroup[i]};
}

/* --- the rig -----------------------------------------------------------------------------------
 */

static int setup(void **state)
{
	struct err err = {0};
	memset(&rig, 0, sizeof(rig));
	if (unit_top_setup(state) != 0)
		return -1;
	(void)snprintf(rig.proc, sizeof(rig.proc), "%s/proc", unit_top);
	rig.loop = loop_new(LOOP_FAKE, &err);
	rig.storage = storage_new(rig.loop, 8, &err);
	rig.view = calloc(1, sizeof(*rig.view));
	const struct attribution_options options = {.loop = rig.loop,
						    .storage = rig.storage,
						    .kubelet = rig_door,
						    .queue = &rig_queue,
						    .root = unit_top,
						    .proc = rig.proc};
	if (!rig.storage || !rig.view || attribution_new(&options, &rig.attribution, &err) != 0)
		return -1;
	rig.view->snapshot.gpu_count = 1;
	(void)snprintf(rig.view->snapshot.gpu[0].uuid, SNAPSHOT_TEXT_MAX, "GPU-0");
	(void)snprintf(rig.view->gpu[0].mode, SNAPSHOT_SHORT_MAX, "timeslice");
	rig.view->gpu[0].energy_mj = NOTHING;
	rig.view->snapshot.taken_ns = SECOND;
	return 0;
}

static int teardown(void **state)
{
	attribution_stop(rig.attribution);
	rig.storage = storage_close(rig.storage);
	rig.attribution = attribution_free(rig.attribution);
	rig.loop = loop_free(rig.loop);
	free(rig.view);
	return unit_top_teardown(state);
}

/* A process on a GPU, with a /proc of its own. */
static void on_gpu(uint32_t g, uint32_t pid, const char *cgroup, uint32_t percent, uint64_t memory)
{
	struct snapshot_gpu *gpu = &rig.view->snapshot.gpu[g];
	char path[64], text[256];
	gpu->process[gpu->process_count++] = (struct snapshot_process){.pid = pid,
								       .gi = SNAPSHOT_WHOLE_GPU,
								       .ci = SNAPSHOT_WHOLE_GPU,
								       .memory_bytes = memory,
								       .util_sm = percent};
	gpu->process_total++;
	if (!cgroup)
		return;
	(void)snprintf(path, sizeof(path), "proc/%u", pid);
	assert_int_equal(file_mkdirs(unit_path(unit_top, path), 0755, NULL), 0);
	(void)snprintf(path, sizeof(path), "proc/%u/stat", pid);
	(void)snprintf(text, sizeof(text), "%u (job) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 7 1 ",
		       pid);
	unit_write(unit_path(unit_top, path), text);
	(void)snprintf(path, sizeof(path), "proc/%u/cgroup", pid);
	unit_write(unit_path(unit_top, path), cgroup);
}

/* A second later; `busy_ms` of it the first GPU was busy. */
static void sample(unsigned busy_ms)
{
	rig.view->snapshot.taken_ns += SECOND;
	rig.view->gpu[0].busy_ns += busy_ms * UINT64_C(1000000);
	assert_int_equal(loop_advance(rig.loop, SECOND, NULL), 0);
	attribution_fill(rig.attribution, 0, rig.view);
}

static void logs(const char *path)
{
	uint64_t end_ns = unit_now_ns() + 5 * SECOND;
	assert_int_equal(file_mkdirs(unit_path(unit_top, path), 0755, NULL), 0);
	/* It is read again at the latest after a minute. */
	assert_int_equal(loop_advance(rig.loop, 61 * SECOND, NULL), 0);
	attribution_fill(rig.attribution, 0, rig.view);
	while (storage_pending(rig.storage) > 0 && unit_now_ns() < end_ns)
		assert_int_equal(loop_pass(rig.loop, 1000000, NULL), 0);
}

static const struct view_holder *holder(uint32_t place)
{
	assert_in_range(place, 0, rig.view->holder_count - 1);
	return &rig.view->holder[place];
}

/* --- tests -------------------------------------------------------------------------------------
 */

static void test_a_machine_without_gpus(void **state)
{
	(void)state;
	rig.view->snapshot.gpu_count = 0;
	rig.view->holder_count = rig.view->process_count = 7;
	attribution_fill(rig.attribution, 0, rig.view);
	assert_int_equal(rig.view->holder_count, 0);
	assert_int_equal(rig.view->process_count, 0);
	assert_int_equal(rig.view->node.unattributed, 0);
}

static void put_job(uint64_t id, uint32_t slot, uint32_t slots)
{
	size_t i = rig.jobs++;
	rig.job[i] = (struct job){.id = id, .state = JOB_RUNNING, .started_unix_ns = 5, .uid = 7};
	(void)snprintf(rig.job[i].name, sizeof(rig.job[i].name), "train-%u", (unsigned)id);
	rig.grant[i] = (struct launch_grant){.slot_count = slots};
	(void)snprintf(rig.grant[i].uuid, sizeof(rig.grant[i].uuid), "GPU-0");
	launch_grant_add(&rig.grant[i], slot);
	(void)snprintf(rig.cgroup[i], sizeof(rig.cgroup[i]),
		       "/sys/fs/cgroup/sluice-1/job-%u-1a2b3c4d", (unsigned)id);
}

static void test_two_jobs_share_a_gpu(void **state)
{
	(void)state;
	put_job(1, 0, 4);
	put_job(2, 2, 4);
	put_job(3, 3, 4); /* has no process */
	on_gpu(0, 10, "0::/sluice-1/job-1-1a2b3c4d\n", 60, 100);
	on_gpu(0, 11, "0::/sluice-1/job-1-1a2b3c4d/x\n", 20, 50);
	on_gpu(0, 20, "0::/sluice-1/job-2-1a2b3c4d\n", 20, 30);
	on_gpu(0, 30, "0::/sluice-1/job-2-ffffffff\n", ABSENT, 1); /* another agent's job 2 */
	sample(0); /* what was before nobody knows */
	assert_int_equal(holder(0)->busy_ns, 0);
	sample(500); /* the shares are 1000 ms together: halved */
	assert_int_equal(rig.view->holder_count, 4);
	assert_int_equal(rig.view->process_count, 4);
	assert_int_equal(holder(0)->job, 1);
	assert_int_equal(holder(0)->busy_ns, 400 * 1000000);
	assert_int_equal(holder(0)->processes, 2);
	assert_int_equal(holder(0)->memory_bytes, 150);
	assert_int_equal(holder(0)->slot, 0);
	assert_int_equal(holder(0)->slot_count, 1);
	assert_int_equal(holder(0)->mode, VIEW_TIMESLICE);
	assert_int_equal(holder(0)->since_unix_ns, 5);
	assert_string_equal(holder(0)->job_name, "train-1");
	assert_string_equal(holder(0)->user, "uid 7");
	assert_true(holder(0)->has_busy);
	assert_int_equal(holder(1)->job, 2);
	assert_int_equal(holder(1)->slot, 2);
	assert_int_equal(holder(1)->busy_ns, 100 * 1000000);
	assert_int_equal(holder(2)->job, 3);
	assert_true(holder(2)->has_busy);
	assert_int_equal(holder(2)->busy_ns, 0);
	assert_int_equal(holder(2)->memory_bytes, 0);
	assert_false(holder(3)->allocated);
	assert_int_equal(holder(3)->job, 0);
	assert_string_equal(holder(3)->runtime, "sluice");
	assert_int_equal(rig.view->node.unattributed, 1);
	assert_int_equal(rig.view->process[0].holder, 0);
	assert_int_equal(rig.view->process[3].holder, 3);
	assert_string_equal(rig.view->process[0].name, "job");

	/* The same sample again counts nothing twice. */
	attribution_fill(rig.attribution, 0, rig.view);
	assert_int_equal(holder(0)->busy_ns, 400 * 1000000);
	/* One that is told by its ancestors alone. */
	on_gpu(0, 40, "0::/user.slice\n", 10, NOTHING);
	rig.of_job = 40;
	sample(100);
	assert_int_equal(holder(0)->processes, 3);
	assert_int_equal(holder(0)->memory_bytes, NOTHING);
}

/* A directory of users may answer when the job has long begun; of jobs that the view has no room
 * for, the name that was known stays. */
static void test_a_user_whose_name_comes_late(void **state)
{
	(void)state;
	put_job(1, 0, 1);
	rig.view->job[0] = (struct view_job){.id = 1, .user = "7"};
	rig.view->job_count = 1;
	sample(0);
	assert_string_equal(holder(0)->user, "7");
	rig.view->job[0] = (struct view_job){.id = 1, .user = "alice"};
	sample(0);
	assert_string_equal(holder(0)->user, "alice");
	rig.view->job_count = 0;
	sample(0);
	assert_string_equal(holder(0)->user, "alice");
}

/* Who has come while nobody looked did not do what was done before. */
static void test_a_long_time_without_a_sample(void **state)
{
	(void)state;
	put_job(1, 0, 1);
	on_gpu(0, 10, "0::/sluice-1/job-1-1a2b3c4d\n", ABSENT, 1);
	sample(0);
	sample(500);
	assert_int_equal(holder(0)->busy_ns, 500 * 1000000);
	rig.job[0].id = 2;
	(void)snprintf(rig.cgroup[0], sizeof(rig.cgroup[0]),
		       "/sys/fs/cgroup/sluice-1/job-2-1a2b3c4d");
	rig.view->snapshot.gpu[0].process_count = rig.view->snapshot.gpu[0].process_total = 0;
	on_gpu(0, 20, "0::/sluice-1/job-2-1a2b3c4d\n", ABSENT, 1);
	rig.view->snapshot.taken_ns += 3599 * SECOND;
	sample(3000 * 1000);
	assert_int_equal(holder(0)->job, 2);
	assert_int_equal(holder(0)->busy_ns, 0);
	sample(100);
	assert_int_equal(holder(0)->busy_ns, 100 * 1000000);
}

static void test_pods(void **state)
{
	(void)state;
	rig.pod[0] =
	    (struct podresources_holder){"GPU-0::3", "nvidia.com/gpu.shared", "ml", "a-0", "main"};
	rig.pod[1] =
	    (struct podresources_holder){"GPU-0::1", "nvidia.com/gpu.shared", "ml", "b-0", "main"};
	rig.pod[2] = (struct podresources_holder){"nic0", "rdma/hca", "ml", "b-0", "main"};
	rig.pods = 3;
	on_gpu(0, 10, "0::/kubepods/pod" UID "/" ID_A "\n", 30, 100);
	on_gpu(0, 20, "0::/system.slice/docker-" ID_B ".scope\n", 30, 7);
	sample(0);
	/* Nobody knows the names yet: the kubelet is believed, and asked. */
	assert_int_equal(rig.view->holder_count, 4);
	assert_string_equal(holder(0)->pod, "b-0");
	assert_true(rig.asked > 0);
	sample(600);
	assert_string_equal(holder(2)->id, "aa12ab12ab12");
	assert_string_equal(holder(2)->runtime, "kubernetes");
	assert_false(holder(2)->allocated);
	assert_int_equal(holder(2)->busy_ns, 300 * 1000000);
	assert_string_equal(holder(3)->id, "bb12ab12ab12");
	assert_string_equal(holder(3)->runtime, "docker");
	assert_int_equal(rig.view->node.unattributed, 2);

	/* The log file comes: what was counted is the pod's. The other pod has ended. */
	logs("var/log/pods");
	logs("var/log/containers/a-0_ml_main-" ID_A ".log");
	sample(600);
	assert_int_equal(rig.view->holder_count, 2);
	assert_string_equal(holder(0)->pod, "a-0");
	assert_string_equal(holder(0)->name_space, "ml");
	assert_string_equal(holder(0)->container, "main");
	assert_string_equal(holder(0)->resource, "nvidia.com/gpu.shared");
	assert_int_equal(holder(0)->slot, 3);
	assert_true(holder(0)->allocated);
	assert_int_equal(holder(0)->busy_ns, 600 * 1000000);
	assert_int_equal(holder(0)->memory_bytes, 100);
	assert_int_equal(rig.view->node.unattributed, 1);
}

/* Only the pod's directory is there: the one container of it that was given the device. */
static void test_a_pod_by_its_uid(void **state)
{
	(void)state;
	rig.pod[0] = (struct podresources_holder){"GPU-0", "nvidia.com/gpu", "ml", "a-0", "main"};
	rig.pods = 1;
	on_gpu(0, 10, "0::/kubepods/pod" UID "/" ID_A "\n", 30, 100);
	logs("var/log/pods/ml_a-0_" UID);
	sample(0);
	sample(300);
	assert_int_equal(rig.view->holder_count, 1);
	assert_string_equal(holder(0)->container, "main");
	assert_int_equal(holder(0)->busy_ns, 300 * 1000000);
	assert_int_equal(holder(0)->slot, ABSENT);
	/* Two of them: nobody knows which. */
	rig.pod[1] = (struct podresources_holder){"GPU-0", "nvidia.com/gpu", "ml", "a-0", "side"};
	rig.pods = 2;
	sample(300);
	assert_int_equal(rig.view->holder_count, 3);
	assert_false(holder(2)->allocated);
	assert_string_equal(holder(2)->pod, "a-0");
	assert_string_equal(holder(2)->container, "");
}

static void test_what_the_driver_does_not_tell(void **state)
{
	(void)state;
	on_gpu(0, 10, "0::/docker/" ID_A "\n", ABSENT, NOTHING);
	sample(0);
	sample(700); /* alone: all of it is his */
	assert_true(holder(0)->has_busy);
	assert_int_equal(holder(0)->busy_ns, 700 * 1000000);
	assert_int_equal(holder(0)->memory_bytes, NOTHING);
	on_gpu(0, 20, "0::/docker/" ID_B "\n", ABSENT, 5);
	sample(700); /* two, and nobody knows who it was */
	assert_false(holder(0)->has_busy);
	assert_false(holder(1)->has_busy);
	assert_int_equal(holder(0)->busy_ns, 700 * 1000000);
	sample(0); /* nobody */
	assert_true(holder(0)->has_busy);
	/* More processes than are listed. */
	rig.view->snapshot.gpu[0].process_total++;
	sample(0);
	assert_int_equal(holder(1)->memory_bytes, NOTHING);
}

static void test_mig(void **state)
{
	struct snapshot_gpu *gpu = &rig.view->snapshot.gpu[0];
	(void)state;
	gpu->mig_count = 2;
	for (uint32_t m = 0; m < 2; m++) {
		gpu->mig[m].gi = 1 + m;
		gpu->mig[m].ci = 0;
		(void)snprintf(gpu->mig[m].uuid, SNAPSHOT_TEXT_MAX, "MIG-%u", m);
		memset(gpu->mig[m].activity, 0xff, sizeof(gpu->mig[m].activity));
	}
	gpu->mig[0].activity[SNAPSHOT_ACTIVITY_GRAPHICS] = 250000;
	gpu->mig[1].activity[SNAPSHOT_ACTIVITY_GRAPHICS] = 500000;
	rig.view->gpu[0].busy_ns = NOTHING;
	on_gpu(0, 10, "0::/docker/" ID_A "\n", ABSENT, 100);
	gpu->process[0].gi = 1;
	gpu->process[0].ci = 0;
	on_gpu(0, 20, "0::/docker/" ID_A "\n", ABSENT, 10);
	gpu->process[1].gi = 2;
	gpu->process[1].ci = 0;
	on_gpu(0, 30, "0::/docker/" ID_B "\n", ABSENT, 1);
	gpu->process[2].gi = 2;
	gpu->process[2].ci = 0;
	rig.pod[0] =
	    (struct podresources_holder){"MIG-GPU-0/1/0", "nvidia.com/mig", "ml", "x", "y"};
	sample(0);
	rig.view->gpu[0].busy_ns = NOTHING;
	sample(0);
	assert_int_equal(rig.view->holder_count, 3);
	assert_int_equal(holder(0)->mig, 0);
	assert_int_equal(holder(0)->mode, VIEW_MIG);
	assert_true(holder(0)->has_busy);
	assert_int_equal(holder(0)->busy_ns, 250 * 1000000);
	assert_int_equal(holder(0)->memory_bytes, 100);
	assert_int_equal(holder(1)->mig, 1);
	assert_false(holder(1)->has_busy); /* two share the instance */
	assert_int_equal(holder(1)->busy_ns, 0);
	assert_int_equal(holder(2)->memory_bytes, 1);
	/* Another pod was given a part of the first one, too. */
	rig.pods = 1;
	sample(0);
	assert_int_equal(rig.view->holder_count, 4);
	assert_true(holder(0)->allocated);
	assert_false(holder(1)->has_busy);
	assert_int_equal(holder(1)->busy_ns, 250 * 1000000);
}

/* A container with the driver's thousands of processes, and a process on several GPUs. */
static void test_many_processes(void **state)
{
	struct snapshot *snapshot = &rig.view->snapshot;
	(void)state;
	for (uint32_t g = 0; g < SNAPSHOT_GPU_MAX; g++) {
		(void)snprintf(snapshot->gpu[g].uuid, SNAPSHOT_TEXT_MAX, "GPU-%u", g);
		on_gpu(g, 7, g == 0 ? "0::/\n" : NULL, ABSENT, 1);
		for (uint32_t i = 1; i < SNAPSHOT_PROCESS_MAX; i++)
			on_gpu(g, 100 + g * SNAPSHOT_PROCESS_MAX + i, NULL, ABSENT, 1);
	}
	snapshot->gpu_count = SNAPSHOT_GPU_MAX;
	for (unsigned i = 0; i < 8; i++)
		sample(0);
	assert_int_equal(rig.view->process_count, VIEW_PROCESS_MAX);
	assert_int_equal(rig.view->holder_count, 0);
	assert_int_equal(rig.view->process[0].uid, getuid());
	assert_int_equal(rig.view->process[1].uid,
			 ABSENT); /* not to be seen: nobody's, not root's */
	assert_int_equal(rig.view->node.unattributed,
			 SNAPSHOT_GPU_MAX * (SNAPSHOT_PROCESS_MAX - 1) + 1);
}

/* More containers than there is room for: counted, and the same ones stay. */
static void test_no_room(void **state)
{
	static char name[RIG_MAX][16];
	(void)state;
	for (rig.pods = 0; rig.pods < VIEW_HOLDER_MAX + 100; rig.pods++) {
		(void)snprintf(name[rig.pods], sizeof(name[0]), "p-%zu", rig.pods);
		rig.pod[rig.pods] = (struct podresources_holder){"GPU-0", "nvidia.com/gpu", "ml",
								 name[rig.pods], "main"};
	}
	sample(0);
	sample(0);
	assert_int_equal(rig.view->holder_count, VIEW_HOLDER_MAX);
	assert_int_equal(rig.view->node.holders_lost, 100);
	rig.view->snapshot.taken_ns += SECOND;
	attribution_fill(rig.attribution, 10, rig.view);
	assert_int_equal(rig.view->holder_count, 10);
	assert_int_equal(rig.view->node.holders_lost, VIEW_HOLDER_MAX + 90);
	rig.pods = 1;
	sample(0);
	assert_int_equal(rig.view->node.holders_lost, 0);
	assert_int_equal(rig.view->node.holders_dropped, VIEW_HOLDER_MAX + 90); /* a counter */
}

/* Ten thousand pods come and go, and containers with a process each: memory stays where it was. */
static void test_churn(void **state)
{
	enum { PIDS = 50, WARM = 500, ROUNDS = 10000, GROWTH_MAX = 64 << 10 };
	char pod[32], cgroup[160];
	size_t before = 0;
	(void)state;
	rig.pod[0] = (struct podresources_holder){"GPU-0::1", "nvidia.com/gpu", "ml", pod, "main"};
	rig.pods = 1;
	for (unsigned i = 0; i < WARM + ROUNDS; i++) {
		struct snapshot_gpu *gpu = &rig.view->snapshot.gpu[0];
		gpu->process_count = gpu->process_total = 0;
		(void)snprintf(pod, sizeof(pod), "train-%u", i);
		(void)snprintf(cgroup, sizeof(cgroup), "0::/kubepods/pod" UID "/%064x\n", i);
		on_gpu(0, 100 + i % PIDS, i < PIDS ? cgroup : NULL, 50, 1);
		sample(500);
		assert_int_equal(rig.view->holder_count, 2);
		if (i == WARM)
			before = mallinfo2().uordblks;
	}
	assert_in_range(mallinfo2().uordblks, 0, before + GROWTH_MAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_a_machine_without_gpus),
	    CASE(test_two_jobs_share_a_gpu),
	    CASE(test_a_user_whose_name_comes_late),
	    CASE(test_a_long_time_without_a_sample),
	    CASE(test_pods),
	    CASE(test_a_pod_by_its_uid),
	    CASE(test_what_the_driver_does_not_tell),
	    CASE(test_mig),
	    CASE(test_many_processes),
	    CASE(test_no_room),
	    CASE(test_churn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

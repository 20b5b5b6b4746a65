/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/top/top.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { NOW_S = 1700000000, GPUS = 4, USES = 12, JOBS = 6 };

/* protobuf-c has no const; nothing writes into these. */
#define TEXT(text)  ((char *)(text))
#define NS(seconds) ((int64_t)(seconds)*INT64_C(1000000000))

/* A machine of its own for each test; everything in it is static text. */
static Sluice__V1__Machine machine;
static Sluice__V1__Gpu gpus[GPUS], *gpu_list[GPUS];
static Sluice__V1__GpuUse uses[USES], *use_list[USES];
static Sluice__V1__Job jobs[JOBS], *job_list[JOBS];
static Sluice__V1__Attempt attempts[JOBS];
static Sluice__V1__Grant grants[JOBS], *grant_list[JOBS];
static uint32_t slots[] = {0};
static char out[65536];

static Sluice__V1__Gpu *add_gpu(const char *uuid, const char *label, const char *name)
{
	Sluice__V1__Gpu *gpu = &gpus[machine.n_gpus];
	sluice__v1__gpu__init(gpu);
	gpu->uuid = TEXT(uuid);
	gpu->label = TEXT(label);
	gpu->name = TEXT(name);
	gpu->state = TEXT("ok");
	gpu->memory_total_bytes = UINT64_C(40) << 30;
	gpu->power_limit_milliwatt = 400000;
	gpu_list[machine.n_gpus++] = gpu;
	return gpu;
}

static Sluice__V1__GpuUse *add_use(const char *uuid, uint32_t pid, uint64_t job, const char *name)
{
	Sluice__V1__GpuUse *use = &uses[machine.n_uses];
	sluice__v1__gpu_use__init(use);
	use->uuid = TEXT(uuid);
	use->pid = pid;
	use->job = job;
	use->name = TEXT(name);
	use->uid = 1001;
	use->memory_bytes = UINT64_C(2048) << 20;
	use_list[machine.n_uses++] = use;
	return use;
}

static Sluice__V1__Job *add_job(uint64_t id, const char *name, Sluice__V1__JobState state)
{
	Sluice__V1__Job *job = &jobs[machine.n_jobs];
	sluice__v1__job__init(job);
	job->id = id;
	job->name = TEXT(name);
	job->user = TEXT("alice");
	job->state = state;
	job->gpus = 1;
	job->submitted_unix_ns = NS(NOW_S - 100);
	job_list[machine.n_jobs++] = job;
	machine.running += state == SLUICE__V1__JOB_STATE__RUNNING;
	machine.pending += state == SLUICE__V1__JOB_STATE__PENDING;
	return job;
}

static void give(Sluice__V1__Job *job, const char *uuid, const char *label, uint32_t slot_count)
{
	size_t place = (size_t)(job - jobs);
	sluice__v1__attempt__init(&attempts[place]);
	sluice__v1__grant__init(&grants[place]);
	grants[place].uuid = TEXT(uuid);
	grants[place].label = TEXT(label);
	grants[place].n_slots = 1;
	grants[place].slots = slots;
	grants[place].slot_count = slot_count;
	grant_list[place] = &grants[place];
	attempts[place].n_grants = 1;
	attempts[place].grants = &grant_list[place];
	attempts[place].started_unix_ns = NS(NOW_S - 65);
	job->attempt = &attempts[place];
}

static int setup(void **state)
{
	sluice__v1__machine__init(&machine);
	machine.unix_ns = NS(NOW_S);
	machine.driver = TEXT("580.105.08");
	machine.gpus = gpu_list;
	machine.uses = use_list;
	machine.jobs = job_list;
	return 0;
}

/* Two GPUs, one shared; jobs that run, wait and have ended; somebody without a job. */
static void busy(void)
{
	machine.simulated = true;
	Sluice__V1__Gpu *gpu = add_gpu("GPU-0", "GPU 0", "NVIDIA A100-SXM4-40GB");
	gpu->utilization_percent = 83;
	gpu->temperature_celsius = 61;
	gpu->power_milliwatt = 250400;
	gpu->memory_used_bytes = UINT64_C(12) << 30;
	gpu = add_gpu("GPU-1", "GPU 1", "NVIDIA A100-SXM4-40GB");
	gpu->utilization_percent = 5;
	gpu->temperature_celsius = 90;
	gpu->power_milliwatt = 399000;
	gpu->memory_used_bytes = UINT64_C(39) << 30;
	gpu->slot_count = 4;
	gpu->slots_used = 1;
	give(add_job(12, "train", SLUICE__V1__JOB_STATE__RUNNING), "GPU-0", "GPU 0", 1);
	give(add_job(13, "notebook", SLUICE__V1__JOB_STATE__RUNNING), "GPU-1", "GPU 1", 4);
	Sluice__V1__Job *job = add_job(17, "wide", SLUICE__V1__JOB_STATE__PENDING);
	job->gpus = 2;
	job->reason = TEXT("WaitingForGPU");
	job->reason_text = TEXT("(have 0, need 2; GPU 0: job 12 of alice; GPU 1: job 13 of alice)");
	job = add_job(18, "next", SLUICE__V1__JOB_STATE__PENDING);
	job->reason = TEXT("QueueOrder");
	job->reason_text = TEXT("(behind 17)");
	job = add_job(9, "old", SLUICE__V1__JOB_STATE__FAILED);
	give(job, "GPU-0", "GPU 0", 1);
	attempts[4].ended_unix_ns = NS(NOW_S - 5);
	job->reason = TEXT("ExitCode");
	job->reason_text = TEXT("(3)");
	add_use("GPU-0", 100, 12, "train");
	Sluice__V1__GpuUse *use = add_use("GPU-0", 4711, 0, "python3");
	use->uid = 1002;
	use->is_outside = true;
}

static const char *user(uint32_t uid, void *context)
{
	return uid == 1002 ? "bob" : NULL;
}

static const char *draw(struct top_scene scene)
{
	struct buf lines;
	struct err err = {0};
	size_t first;
	if (!scene.notice)
		scene.notice = "";
	if (!scene.clock)
		scene.clock = "";
	scene.user = user;
	buf_init(&lines, sizeof(out) - 1);
	int rc = top_draw(&scene, &lines, &first, &err);
	assert_int_equal(rc, 0);
	memcpy(out, buf_text(&lines), lines.length);
	out[lines.length] = '\0';
	buf_done(&lines);
	/* No line is wider than the terminal, and there are no more of them than it has. */
	size_t count = 0;
	for (const char *at = out; *at; count++) {
		size_t length = strcspn(at, "\n");
		if (scene.width > 0 && !scene.colour)
			assert_true(text_width(at, length) <= scene.width);
		at += length + 1;
	}
	assert_true(scene.height < 2 || count <= scene.height);
	return out;
}

static void expect(struct top_scene scene, const char *text)
{
	if (strcmp(draw(scene), text) == 0)
		return;
	(void)fprintf(stderr, "drawn:\n%s", out); /* cmocka cuts long texts */
	assert_string_equal(out, text);
}

static void a_wide_picture(void **state)
{
	busy();
	expect(
	    (struct top_scene){.machine = &machine, .width = 110, .clock = "23:45:10"},
	    "2 simulated GPUs, driver 580.105.08  23:45:10\n"
	    "\n"
	    "GPU   SLOTS UTIL                   MEMORY                 POWER            TEMP       "
	    "  NAME\n"
	    "GPU 0       [|||||||||||||||| 83%] [|||||| 12.0/40.0 GiB] [||||| 250/400W] [|||||| "
	    "61C] NVIDIA A100-SXM4-40GB\n"
	    "  job 12 train (alice), pid 100, 2048 MiB\n"
	    "  pid 4711 python3 (bob), 2048 MiB, outside the queue\n"
	    "GPU 1   1/4 [|                 5%] [|||||| 39.0/40.0 GiB] [||||| 399/400W] [|||||| "
	    "90C] NVIDIA A100-SXM4-40GB\n"
	    "  job 13 notebook (alice), no process on it\n"
	    "\n"
	    "2 running, 2 waiting\n"
	    "ID  STATE    USER   GPUS      TIME  NAME      REASON\n"
	    "12  Running  alice  0        1m05s  train\n"
	    "13  Running  alice  1 (1/4)  1m05s  notebook\n"
	    "17  Pending  alice  wants 2  1m40s  wide\n"
	    "    WaitingForGPU (have 0, need 2; GPU 0: job 12 of alice; GPU 1: job 13 of alice)\n"
	    "18  Pending  alice  wants 1  1m40s  next      QueueOrder (behind 17)\n"
	    " 9  Failed   alice  0        1m00s  old       ExitCode (3)\n");
}

static void a_picture_of_eighty_columns(void **state)
{
	busy();
	expect((struct top_scene){.machine = &machine, .width = 80},
	       "2 simulated GPUs, driver 580.105.08\n"
	       "\n"
	       "GPU   SLOTS UTIL       MEMORY       POWER        TEMP      NAME\n"
	       "GPU 0       [|||| 83%] [||| 12/40G] [| 250/400W] [||| 61C] NVIDIA A100-SXM4-40GB\n"
	       "  job 12 train (alice), pid 100, 2048 MiB\n"
	       "  pid 4711 python3 (bob), 2048 MiB, outside the queue\n"
	       "GPU 1   1/4 [      5%] [||| 39/40G] [| 399/400W] [||| 90C] NVIDIA A100-SXM4-40GB\n"
	       "  job 13 notebook (alice), no process on it\n"
	       "\n"
	       "2 running, 2 waiting\n"
	       "ID  STATE    USER   GPUS      TIME  NAME      REASON\n"
	       "12  Running  alice  0        1m05s  train\n"
	       "13  Running  alice  1 (1/4)  1m05s  notebook\n"
	       "17  Pending  alice  wants 2  1m40s  wide\n"
	       "    WaitingForGPU (have 0, need 2; GPU 0: job 12 of alice; GPU 1: job 13 of ali…\n"
	       "18  Pending  alice  wants 1  1m40s  next      QueueOrder (behind 17)\n"
	       " 9  Failed   alice  0        1m00s  old       ExitCode (3)\n");
}

static void what_is_drained_and_reserved(void **state)
{
	busy();
	machine.gpus[0]->claim = TEXT("drained: the fan\x1b[2J");
	machine.gpus[1]->claim = TEXT("reserved (talk) for carol, 9:00 to 10:00");
	const char *text = draw((struct top_scene){.machine = &machine, .width = 80});
	assert_non_null(strstr(text, "\n  drained: the fan\\x1b[2J\n  job 12 train"));
	assert_non_null(strstr(text, "\n  reserved (talk) for carol, 9:00 to 10:00\n  job 13"));
}

static void a_narrow_picture(void **state)
{
	busy();
	expect((struct top_scene){.machine = &machine, .width = 40},
	       "2 simulated GPUs, driver 580.105.08\n"
	       "\n"
	       "GPU   UTIL       MEMORY        TEMP\n"
	       "GPU 0 [|||| 83%] [|||  12/40G] [||| 61C]\n"
	       "  job 12 train (alice), pid 100, 2048 M…\n"
	       "  pid 4711 python3 (bob), 2048 MiB, out…\n"
	       "GPU 1 [      5%] [|||| 39/40G] [||| 90C]\n"
	       "  job 13 notebook (alice), no process o…\n"
	       "\n"
	       "2 running, 2 waiting\n"
	       "ID  STATE    GPUS      TIME  NAME\n"
	       "12  Running  0        1m05s  train\n"
	       "13  Running  1 (1/4)  1m05s  notebook\n"
	       "17  Pending  wants 2  1m40s  wide\n"
	       "    WaitingForGPU (have 0, need 2; GPU …\n"
	       "18  Pending  wants 1  1m40s  next\n"
	       "    QueueOrder (behind 17)\n"
	       " 9  Failed   0        1m00s  old\n"
	       "    ExitCode (3)\n");
}

static void without_a_terminal_nothing_is_cut(void **state)
{
	busy();
	expect(
	    (struct top_scene){.machine = &machine},
	    "2 simulated GPUs, driver 580.105.08\n"
	    "\n"
	    "GPU   SLOTS UTIL             MEMORY              POWER            TEMP         NAME\n"
	    "GPU 0       [|||||||||| 83%] [||| 12.0/40.0 GiB] [||||| 250/400W] [|||||| 61C] NVIDIA "
	    "A100-SXM4-40GB\n"
	    "  job 12 train (alice), pid 100, 2048 MiB\n"
	    "  pid 4711 python3 (bob), 2048 MiB, outside the queue\n"
	    "GPU 1   1/4 [|           5%] [||| 39.0/40.0 GiB] [||||| 399/400W] [|||||| 90C] NVIDIA "
	    "A100-SXM4-40GB\n"
	    "  job 13 notebook (alice), no process on it\n"
	    "\n"
	    "2 running, 2 waiting\n"
	    "ID  STATE    USER   GPUS      TIME  NAME      REASON\n"
	    "12  Running  alice  0        1m05s  train\n"
	    "13  Running  alice  1 (1/4)  1m05s  notebook\n"
	    "17  Pending  alice  wants 2  1m40s  wide      WaitingForGPU (have 0, need 2; GPU 0: "
	    "job 12 of alice; GPU 1: job 13 of alice)\n"
	    "18  Pending  alice  wants 1  1m40s  next      QueueOrder (behind 17)\n"
	    " 9  Failed   alice  0        1m00s  old       ExitCode (3)\n");
}

static void a_short_terminal_is_a_window(void **state)
{
	busy();
	expect((struct top_scene){.machine = &machine, .width = 60, .height = 7},
	       "2 simulated GPUs, driver 580.105.08\n"
	       "\n"
	       "GPU   SLOTS UTIL     MEMORY     POWER      TEMP   NAME\n"
	       "GPU 0       [|| 83%] [| 12/40G] [250/400W] [ 61C] NVIDIA A1…\n"
	       "  job 12 train (alice), pid 100, 2048 MiB\n"
	       "  pid 4711 python3 (bob), 2048 MiB, outside the queue\n"
	       "q quit  up, down scroll: 0 lines above, 12 below\n");
	expect((struct top_scene){.machine = &machine, .width = 60, .height = 7, .first = 5},
	       "2 simulated GPUs, driver 580.105.08\n"
	       "\n"
	       "  job 13 notebook (alice), no process on it\n"
	       "\n"
	       "2 running, 2 waiting\n"
	       "ID  STATE    USER   GPUS      TIME  NAME      REASON\n"
	       "q quit  up, down scroll: 5 lines above, 7 below\n");
	expect((struct top_scene){.machine = &machine, .width = 60, .height = 7, .first = 99},
	       "2 simulated GPUs, driver 580.105.08\n"
	       "\n"
	       "    WaitingForGPU (have 0, need 2; GPU 0: job 12 of alice; …\n"
	       "18  Pending  alice  wants 1  1m40s  next\n"
	       "    QueueOrder (behind 17)\n"
	       " 9  Failed   alice  0        1m00s  old       ExitCode (3)\n"
	       "q quit  up, down scroll: 12 lines above, 0 below\n");
	/* Heights at which there is no room for anything. */
	for (size_t height = 1; height < 5; height++)
		(void)draw((struct top_scene){.machine = &machine, .width = 20, .height = height});
}

static void colours_are_written_and_undone(void **state)
{
	busy();
	const char *text =
	    draw((struct top_scene){.machine = &machine, .width = 80, .colour = true});
	size_t on = 0, off = 0;
	for (const char *at = text; (at = strchr(at, '\x1b')); at++) {
		off += strncmp(at, "\x1b[0m", 4) == 0;
		on += strncmp(at, "\x1b[0m", 4) != 0;
	}
	assert_true(on > 20);
	assert_int_equal(on, off);
	assert_null(strchr(draw((struct top_scene){.machine = &machine, .width = 80}), '\x1b'));
}

static void what_comes_from_outside_does_nothing_to_a_terminal(void **state)
{
	busy();
	gpus[1].state = TEXT("lost");
	gpus[1].state_reason = TEXT("it is \x1b[2Jgone\n");
	gpus[0].name = TEXT("A\x1b]0;x\x07");
	jobs[0].name = TEXT("\xe2\x80\xae"
			    "evil");
	jobs[2].user = TEXT("\x9b"
			    "31m");
	jobs[3].reason_text = TEXT("\r(behind)");
	uses[1].name = TEXT("\x1b[31mpython");
	machine.driver = TEXT("5\x1b[A");
	const char *text = draw(
	    (struct top_scene){.machine = &machine, .width = 200, .notice = "No service: \x1b[5m"});
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (unsigned char)*at >= 0x20);
	assert_non_null(strstr(text, "GPU 1 lost: it is \\x1b[2Jgone\\x0a\n"));
	assert_non_null(strstr(text, "\\u202eevil"));
	assert_non_null(strstr(text, "pid 4711 \\x1b[31mpython (bob)"));
	assert_non_null(strstr(text, "No service: \\x1b[5m\n"));
}

static void wide_characters_are_two_columns(void **state)
{
	busy();
	jobs[0].name =
	    TEXT("\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97");
	for (size_t width = 1; width < 120; width++)
		(void)draw(
		    (struct top_scene){.machine = &machine, .width = width < 20 ? 20 : width});
}

static void many_processes_are_counted(void **state)
{
	add_gpu("GPU-0", "GPU 0", "NVIDIA T4");
	for (uint32_t i = 0; i < 11; i++)
		add_use("GPU-0", 100 + i, 0, "python3");
	const char *text = draw((struct top_scene){.machine = &machine});
	assert_non_null(strstr(text, "  pid 107 python3 (uid 1001), 2048 MiB, no job of sluice\n"
				     "  and 3 more processes\n"));
}

static void more_jobs_wait_than_are_listed(void **state)
{
	busy();
	machine.pending = 9802;
	const char *text = draw((struct top_scene){.machine = &machine});
	assert_non_null(strstr(text, "2 running, 9802 waiting\n"));
	assert_non_null(strstr(text, "(behind 17)\nand 9800 more that wait\n"));
}

static void a_job_that_has_ended_wants_nothing(void **state)
{
	add_gpu("GPU-0", "GPU 0", "NVIDIA T4");
	add_job(1, "old", SLUICE__V1__JOB_STATE__SUCCEEDED)->gpus = 2;
	add_job(2, "new", SLUICE__V1__JOB_STATE__PENDING)->gpus = 2;
	const char *text = draw((struct top_scene){.machine = &machine});
	assert_non_null(strstr(text, " 1  Succeeded  alice  wanted 2 "));
	assert_non_null(strstr(text, " 2  Pending    alice  wants 2 "));
}

static void what_is_not_known_is_no_zero(void **state)
{
	Sluice__V1__Gpu *gpu = add_gpu("MIG-0", "MIG 0:1", "1g.5gb");
	gpu->is_mig = true;
	gpu->utilization_percent = gpu->temperature_celsius = -1;
	gpu->power_milliwatt = gpu->power_limit_milliwatt = -1;
	gpu->memory_total_bytes = 0;
	expect((struct top_scene){.machine = &machine, .width = 60},
	       "0 GPUs, 1 MIG device, driver 580.105.08\n"
	       "\n"
	       "GPU     UTIL      MEMORY      POWER        TEMP     NAME\n"
	       "MIG 0:1 [      -] [        -] [         -] [     -] 1g.5gb\n");
	gpu->utilization_percent = 1 << 30; /* an agent of another kind */
	gpu->temperature_celsius = -300;
	gpu->power_milliwatt = INT64_MAX;
	gpu->power_limit_milliwatt = 1;
	gpu->memory_total_bytes = 1;
	gpu->memory_used_bytes = UINT64_MAX;
	(void)draw((struct top_scene){.machine = &machine, .width = 60});
}

static void a_machine_without_a_driver(void **state)
{
	machine.driver = TEXT("");
	machine.driver_error = TEXT("no NVIDIA driver is loaded");
	give(add_job(1, "cpu", SLUICE__V1__JOB_STATE__RUNNING), "", "", 1);
	jobs[0].gpus = 0;
	attempts[0].n_grants = 0;
	expect((struct top_scene){.machine = &machine, .width = 80},
	       "No GPU: no NVIDIA driver is loaded\n"
	       "\n"
	       "1 running, 0 waiting\n"
	       "ID  STATE    USER   GPUS   TIME  NAME  REASON\n"
	       " 1  Running  alice  -     1m05s  cpu\n");
	expect((struct top_scene){.width = 80, .notice = "No service: it ended"},
	       "sluice\nNo service: it ended\n\n");
}

/* --- the machine as a message ------------------------------------------------------------------
 */

static void process(uint32_t pid, char name[TOP_NAME_MAX], uint32_t *uid)
{
	(void)snprintf(name, TOP_NAME_MAX, "p%u", pid);
	*uid = pid + 1;
}

struct source {
	struct inventory inventory;
	struct gpu gpus[2];
	struct mig_device mig;
	struct snapshot snapshot;
};

static struct source *source_new(void)
{
	struct source *source = calloc(1, sizeof(*source));
	assert_non_null(source);
	source->inventory.gpu_count = 2;
	source->inventory.gpus = source->gpus;
	source->inventory.mig_count = 1;
	source->inventory.migs = &source->mig;
	source->inventory.simulated = true;
	source->snapshot.gpu_count = 2;
	source->snapshot.driver_ok = 1;
	for (uint32_t i = 0; i < 2; i++) {
		source->gpus[i].index = i;
		(void)snprintf(source->gpus[i].uuid, GPU_UUID_MAX, "GPU-%u", i);
		(void)snprintf(source->snapshot.gpu[i].uuid, SNAPSHOT_TEXT_MAX, "GPU-%u", i);
	}
	source->mig = (struct mig_device){.parent = 1, .gi = 3, .uuid = "MIG-1", .profile = "1g"};
	struct snapshot_gpu *now = &source->snapshot.gpu[0];
	snapshot_put(now, SNAPSHOT_UTIL_GPU, 42);
	snapshot_put(now, SNAPSHOT_MEMORY_TOTAL, 1 << 20);
	now->process_count = 1;
	now->process[0] = (struct snapshot_process){
	    .pid = 7, .gi = SNAPSHOT_WHOLE_GPU, .memory_bytes = SNAPSHOT_U64_ABSENT};
	now = &source->snapshot.gpu[1];
	now->state = GPU_STATE_HUNG;
	(void)snprintf(now->reason, sizeof(now->reason), "no answer");
	now->mig_count = 1;
	now->mig[0] =
	    (struct snapshot_mig){.uuid = "MIG-1", .gi = 3, .memory_total = 10, .memory_used = 4};
	now->process_count = 1;
	now->process[0] = (struct snapshot_process){.pid = 8, .gi = 3, .memory_bytes = 5};
	return source;
}

static void the_drivers_view_becomes_a_message(void **state)
{
	_cleanup_free_ struct source *source = source_new();
	Sluice__V1__Machine *made = top_machine_new(&source->inventory, &source->snapshot, process);
	assert_non_null(made);
	Sluice__V1__Machine *copy = top_machine_copy(made);
	made = top_machine_free(made);
	assert_non_null(copy);
	assert_true(copy->simulated);
	assert_int_equal(copy->n_gpus, 3);
	assert_string_equal(copy->gpus[0]->label, "GPU 0");
	assert_int_equal(copy->gpus[0]->utilization_percent, 42);
	assert_int_equal(copy->gpus[0]->temperature_celsius, -1);
	assert_string_equal(copy->gpus[1]->state, "hung");
	assert_string_equal(copy->gpus[1]->state_reason, "no answer");
	assert_string_equal(copy->gpus[2]->label, "MIG 1:0");
	assert_true(copy->gpus[2]->is_mig);
	assert_int_equal(copy->gpus[2]->memory_used_bytes, 4);
	assert_int_equal(copy->n_uses, 2);
	assert_string_equal(copy->uses[0]->name, "p7");
	assert_int_equal(copy->uses[0]->uid, 8);
	assert_int_equal(copy->uses[0]->memory_bytes, 0);
	assert_string_equal(copy->uses[1]->uuid, "MIG-1");

	json_t *json = top_machine_json(copy, "No service: x");
	assert_non_null(json);
	assert_true(json_is_true(json_object_get(json, "simulated")));
	assert_string_equal(json_string_value(json_object_get(json, "service_problem")),
			    "No service: x");
	const json_t *gpu = json_array_get(json_object_get(json, "gpus"), 2);
	assert_true(json_is_null(json_object_get(gpu, "power_milliwatt")));
	const json_t *one = json_array_get(json_object_get(gpu, "processes"), 0);
	assert_int_equal(json_integer_value(json_object_get(one, "pid")), 8);
	assert_true(json_is_null(json_object_get(one, "job")));
	json_decref(json);
	copy = top_machine_free(copy);
}

static void the_jobs_are_in_the_json(void **state)
{
	busy();
	json_t *json = top_machine_json(&machine, "");
	assert_non_null(json);
	assert_true(json_is_null(json_object_get(json, "service_problem")));
	assert_int_equal(json_array_size(json_object_get(json, "jobs")), 5);
	const json_t *gpu = json_array_get(json_object_get(json, "gpus"), 0);
	const json_t *one = json_array_get(json_object_get(gpu, "processes"), 0);
	assert_int_equal(json_integer_value(json_object_get(one, "job")), 12);
	json_decref(json);
}

static int scenario(void *context)
{
	const struct source *source = context;
	Sluice__V1__Machine *made = top_machine_new(&source->inventory, &source->snapshot, process);
	if (!made)
		return -ENOMEM;
	struct buf lines;
	size_t first;
	buf_init(&lines, TOP_BYTES_MAX);
	const struct top_scene scene = {
	    .machine = made, .notice = "", .clock = "", .width = 80, .height = 20};
	int rc = top_draw(&scene, &lines, &first, NULL);
	buf_done(&lines);
	(void)top_machine_free(made);
	return rc;
}

static void no_memory_is_an_ordinary_error(void **state)
{
	_cleanup_free_ struct source *source = source_new();
	assert_true(failmalloc_each(scenario, source) > 10);
}

/* --- the terminal ------------------------------------------------------------------------------
 */

static void keys_are_read_one_by_one(void **state)
{
	static const struct {
		const char *bytes;
		size_t taken;
		enum top_key key;
	} rows[] = {
	    {"q", 1, TOP_KEY_QUIT},	      {"jq", 1, TOP_KEY_DOWN},
	    {"\x1b[Aq", 3, TOP_KEY_UP},	      {"\x1b[5~q", 4, TOP_KEY_PAGE_UP},
	    {"\x1bOB", 3, TOP_KEY_DOWN},      {"x", 1, TOP_KEY_NONE},
	    {"\x1b", 1, TOP_KEY_NONE},	      {"\x1b[", 2, TOP_KEY_NONE},
	    {"\x1b[15;2~q", 7, TOP_KEY_NONE}, /* a function key: its parts are no keys */
	    {"\x1b[1;5", 5, TOP_KEY_NONE},    {"\x0c", 1, TOP_KEY_REDRAW},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t taken = 0;
		assert_int_equal(top_key_read(rows[i].bytes, strlen(rows[i].bytes), &taken),
				 rows[i].key);
		assert_int_equal(taken, rows[i].taken);
	}
}

static void lines_reach_a_terminal_without_scrolling_it(void **state)
{
	int pipe_fd[2];
	char text[256] = "";
	assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
	struct top_terminal terminal = {.in = -1, .out = pipe_fd[1]};
	struct buf lines;
	buf_init(&lines, 100);
	assert_int_equal(buf_add_text(&lines, "one\n\ntwo\n"), 0);
	assert_int_equal(top_terminal_enter(&terminal, NULL), 0);
	assert_int_equal(top_terminal_show(&terminal, &lines, NULL), 0);
	top_terminal_leave(&terminal);
	top_terminal_leave(&terminal); /* does nothing */
	assert_true(read(pipe_fd[0], text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "\x1b[?1049h\x1b[?25l\x1b[2J"
				  "\x1b[Hone\x1b[K\r\n\x1b[K\r\ntwo\x1b[K\x1b[J"
				  "\x1b[?25h\x1b[?1049l");
	size_t width, height;
	top_terminal_size(&terminal, &width, &height); /* a pipe has none */
	assert_int_equal(width, 80);
	assert_int_equal(height, 24);
	buf_done(&lines);
	(void)close(pipe_fd[0]);
	(void)close(pipe_fd[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
	    TEST(a_wide_picture),
	    TEST(a_picture_of_eighty_columns),
	    TEST(what_is_drained_and_reserved),
	    TEST(a_narrow_picture),
	    TEST(without_a_terminal_nothing_is_cut),
	    TEST(a_short_terminal_is_a_window),
	    TEST(colours_are_written_and_undone),
	    TEST(what_comes_from_outside_does_nothing_to_a_terminal),
	    TEST(wide_characters_are_two_columns),
	    TEST(many_processes_are_counted),
	    TEST(more_jobs_wait_than_are_listed),
	    TEST(a_job_that_has_ended_wants_nothing),
	    TEST(what_is_not_known_is_no_zero),
	    TEST(a_machine_without_a_driver),
	    TEST(the_drivers_view_becomes_a_message),
	    TEST(the_jobs_are_in_the_json),
	    TEST(no_memory_is_an_ordinary_error),
	    TEST(keys_are_read_one_by_one),
	    TEST(lines_reach_a_terminal_without_scrolling_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

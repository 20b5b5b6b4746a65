/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as a user would write one: reads from CUDA_VISIBLE_DEVICES which GPUs are its own, opens
 * each by UUID through NVML, works on it for a while, and writes down what it believes it did.
 * Shares nothing with the rest of the tree: own declarations, libraries by dlopen.
 *
 *   gpu-job SECONDS CLAIM_FILE [SLUICE]
 *
 * How it works on a GPU, and it says which:
 *   cuda       libcuda is there: a context and a copy loop on each GPU
 *   simulated  the UUID is a simulated one: SLUICE (the program) enters load for this process
 *   nvml-only  neither: it holds the NVML handle and nothing that the driver would list
 *
 * Exits with 0, or 1 when a GPU that it was given cannot be opened.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JOB_GPU_MAX = 64, JOB_TEXT_MAX = 96, JOB_COPY_BYTES = 64 << 20 };

#define JOB_SIMULATED "GPU-51ce51ce-" /* every simulated GPU's UUID starts so */

/* The functions of libnvidia-ml.so.1 and libcuda.so.1 that it needs, as their manuals give them. */
struct nvml {
	int (*init)(void);
	int (*by_uuid)(const char *uuid, void **device);
	int (*name)(void *device, char *name, unsigned length);
	const char *(*error)(int result);
};

struct cuda {
	int (*init)(unsigned flags);
	int (*device)(int *device, int ordinal);
	int (*context)(void **context, unsigned flags, int device);
	int (*use)(void *context);
	int (*allocate)(uint64_t *address, size_t bytes);
	int (*copy)(uint64_t to, uint64_t from, size_t bytes);
	int (*wait)(void);
};

struct job {
	char uuid[JOB_GPU_MAX][JOB_TEXT_MAX];
	char name[JOB_GPU_MAX][JOB_TEXT_MAX];
	size_t gpus;
	struct cuda cuda;
	void *context[JOB_GPU_MAX];
	uint64_t from[JOB_GPU_MAX], to[JOB_GPU_MAX];
	const char *how;
};

static double clock_s(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Function pointers out of dlsym(), which returns object pointers. */
static bool load(void *library, const char *symbol, void *out_function)
{
	void *found = dlsym(library, symbol);
	memcpy(out_function, &found, sizeof(found));
	return found != NULL;
}

static bool read_gpus(struct job *job)
{
	const char *at = getenv("CUDA_VISIBLE_DEVICES");

	while (at && *at && job->gpus < JOB_GPU_MAX) {
		size_t length = strcspn(at, ",");
		if (length == 0 || length >= JOB_TEXT_MAX)
			return false;
		memcpy(job->uuid[job->gpus++], at, length);
		at += length + (at[length] == ',');
	}

	return job->gpus > 0;
}

static bool open_gpus(struct job *job)
{
	struct nvml nvml;
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library || !load(library, "nvmlInit_v2", &nvml.init) ||
	    !load(library, "nvmlDeviceGetHandleByUUID", &nvml.by_uuid) ||
	    !load(library, "nvmlDeviceGetName", &nvml.name) ||
	    !load(library, "nvmlErrorString", &nvml.error)) {
		fprintf(stderr, "gpu-job: no usable libnvidia-ml.so.1: %s\n", dlerror());
		return false;
	}

	int rc = nvml.init();
	if (rc != 0)
		fprintf(stderr, "gpu-job: nvmlInit: %s\n", nvml.error(rc));

	for (size_t i = 0; rc == 0 && i < job->gpus; i++) {
		void *device;
		rc = nvml.by_uuid(job->uuid[i], &device);
		if (rc == 0)
			rc = nvml.name(device, job->name[i], JOB_TEXT_MAX);
		if (rc != 0)
			fprintf(stderr, "gpu-job: cannot open %s: %s\n", job->uuid[i],
				nvml.error(rc));
	}

	return rc == 0;
}

static bool start_simulated(const struct job *job, const char *sluice)
{
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", (int)getpid());

	for (size_t i = 0; i < job->gpus; i++) {
		pid_t child = fork();
		if (child == 0) {
			int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
			dup2(null_fd, STDOUT_FILENO);
			execl(sluice, sluice, "sim", "load", "--gpu", job->uuid[i], "--pid", pid,
			      "--util", "0.9", "--mem", "2GiB", (char *)NULL);
			_exit(127);
		}

		int status = 1;
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
			fprintf(stderr, "gpu-job: no load on simulated %s\n", job->uuid[i]);
			return false;
		}
	}

	return true;
}

static bool start_cuda(struct job *job)
{
	struct cuda *cuda = &job->cuda;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library || !load(library, "cuInit", &cuda->init) ||
	    !load(library, "cuDeviceGet", &cuda->device) ||
	    !load(library, "cuCtxCreate_v2", &cuda->context) ||
	    !load(library, "cuCtxSetCurrent", &cuda->use) ||
	    !load(library, "cuMemAlloc_v2", &cuda->allocate) ||
	    !load(library, "cuMemcpyDtoD_v2", &cuda->copy) ||
	    !load(library, "cuCtxSynchronize", &cuda->wait) || cuda->init(0) != 0)
		return false;

	for (size_t i = 0; i < job->gpus; i++) {
		int device; /* ordinals count what CUDA_VISIBLE_DEVICES leaves */
		if (cuda->device(&device, (int)i) != 0 ||
		    cuda->context(&job->context[i], 0, device) != 0 ||
		    cuda->allocate(&job->from[i], JOB_COPY_BYTES) != 0 ||
		    cuda->allocate(&job->to[i], JOB_COPY_BYTES) != 0)
			return false;
	}

	return true;
}

static void work(const struct job *job, double seconds)
{
	const struct timespec moment = {.tv_nsec = 10000000};
	double end = clock_s(CLOCK_MONOTONIC) + seconds;

	while (clock_s(CLOCK_MONOTONIC) < end) {
		if (strcmp(job->how, "cuda") != 0) {
			nanosleep(&moment, NULL);
			continue;
		}

		for (size_t i = 0; i < job->gpus; i++) {
			job->cuda.use(job->context[i]);
			for (int copies = 0; copies < 32; copies++)
				job->cuda.copy(job->to[i], job->from[i], JOB_COPY_BYTES);
			job->cuda.wait();
		}
	}
}

static bool claim(const struct job *job, const char *path, double begin, double end)
{
	FILE *file = fopen(path, "we");
	if (!file) {
		fprintf(stderr, "gpu-job: cannot write '%s': %s\n", path, strerror(errno));
		return false;
	}

	const char *name = getenv("SLUICE_JOB_NAME");
	/* A job of root's agent has processes of its own: its number is none of the machine's. */
	struct stat space = {0};

	(void)stat("/proc/self/ns/pid", &space);
	fprintf(file,
		"{\"name\": \"%s\", \"pid\": %d, \"pid_namespace\": %llu, \"how\": \"%s\", "
		"\"begin_unix\": %.6f, ",
		name ? name : "", (int)getpid(), (unsigned long long)space.st_ino, job->how, begin);
	fprintf(file, "\"end_unix\": %.6f, \"gpus\": [", end);

	for (size_t i = 0; i < job->gpus; i++)
		fprintf(file, "%s{\"uuid\": \"%s\", \"model\": \"%s\"}", i ? ", " : "",
			job->uuid[i], job->name[i]);

	fprintf(file, "]}\n");
	return fclose(file) == 0;
}

int main(int argc, char **argv)
{
	static struct job job;
	double seconds = argc >= 3 ? strtod(argv[1], NULL) : 0;
	if (seconds <= 0) {
		fprintf(stderr, "usage: gpu-job SECONDS CLAIM_FILE [SLUICE]\n");
		return 64;
	}

	if (!read_gpus(&job)) {
		fprintf(stderr, "gpu-job: CUDA_VISIBLE_DEVICES names no GPU\n");
		return 1;
	}

	double begin = clock_s(CLOCK_REALTIME);

	if (!open_gpus(&job))
		return 1;

	if (strncmp(job.uuid[0], JOB_SIMULATED, strlen(JOB_SIMULATED)) == 0) {
		job.how = "simulated";
		if (argc < 4 || !start_simulated(&job, argv[3]))
			return 1;
	} else {
		job.how = start_cuda(&job) ? "cuda" : "nvml-only";
	}

	for (size_t i = 0; i < job.gpus; i++)
		printf("works on %s%s, %s\n", strcmp(job.how, "simulated") == 0 ? "simulated " : "",
		       job.uuid[i], job.name[i]);

	for (int quarter = 1; quarter <= 4; quarter++) {
		fflush(stdout);
		work(&job, seconds / 4);
		printf("%d %% done\n", 25 * quarter);
	}

	return claim(&job, argv[2], begin, clock_s(CLOCK_REALTIME)) ? 0 : 1;
}

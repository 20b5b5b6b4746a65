/* SPDX-License-Identifier: Apache-2.0 */
/* The library as programs see it, on a machine of each process alone. Every case is a process of
 * its own: the environment is read once. */
#include "sim/cuda/exports.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

enum { OK = 0, OUT_OF_MEMORY = 2, NOT_FOUND = 500, NOT_READY = 600 };

/* Fails the child, naming the line. */
#define WANT(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void in_child(const char *profile, const char *variable, const char *value,
		     void (*body)(void))
{
	int status;
	pid_t child;

	(void)fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)alarm(30);
		(void)setenv("SLUICE_SIM_PROFILE", profile, 1);
		(void)setenv("SLUICE_SIM_STATE", "/nonexistent/sim.state", 1);
		if (variable)
			(void)setenv(variable, value, 1);
		body();
		_exit(0); /* what a program leaves behind is no leak of the library */
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static struct cu_context *context_new(void)
{
	struct cu_context *context = NULL;

	WANT(cuInit(0) == OK);
	WANT(cuDevicePrimaryCtxRetain(&context, 0) == OK);
	WANT(cuCtxSetCurrent(context) == OK);
	return context;
}

static char text[1 << 20];

static struct cu_function *function_new(const char *name)
{
	struct cu_function *function = NULL;
	struct cu_module *module = NULL;
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/src/bench/gpu/kernels/sl75.ptx",
		       getenv("MESON_SOURCE_ROOT"));
	FILE *file = fopen(path, "r");

	WANT(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	(void)fclose(file);
	WANT(cuModuleLoadData(&module, text) == OK);
	WANT(cuModuleGetFunction(&function, module, name) == OK);
	return function;
}

enum { ELEMENTS = 1000 };

/* Adds two vectors; how many elements are wrong. */
static int vectors_add(void)
{
	static float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS];
	struct cu_function *add = function_new("sl_vadd");
	uint64_t address[3];
	int count = ELEMENTS, wrong = 0;

	for (int i = 0; i < ELEMENTS; i++) {
		a[i] = (float)i;
		b[i] = 0.25F;
	}
	for (int i = 0; i < 3; i++)
		WANT(cuMemAlloc_v2(&address[i], sizeof(a)) == OK);
	WANT(cuMemcpyHtoD_v2(address[0], a, sizeof(a)) == OK);
	WANT(cuMemcpyHtoD_v2(address[1], b, sizeof(b)) == OK);
	void *parameters[] = {&address[0], &address[1], &address[2], &count};

	WANT(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL) == OK);
	int result = cuMemcpyDtoH_v2(c, address[2], sizeof(c));

	if (result != OK)
		return -result;
	for (int i = 0; i < ELEMENTS; i++)
		wrong += !(c[i] == a[i] + b[i]);
	return wrong;
}

static void adds(void)
{
	(void)context_new();
	WANT(vectors_add() == 0);
}

static void adds_one_wrong(void)
{
	(void)context_new();
	WANT(vectors_add() == 1);
}

static void dies(void)
{
	size_t free_bytes, total;

	(void)context_new();
	WANT(vectors_add() == -719);
	WANT(cuCtxSynchronize() == 719);
	WANT(cuMemGetInfo_v2(&free_bytes, &total) == 719);
}

static void test_vectors_are_added(void **state)
{
	(void)state;
	in_child("t4x1", NULL, NULL, adds);
	in_child("t4x1", "SLUICE_SIM_CUDA_CLOCK", "real", adds);
}

static void test_results_are_wrong_when_that_is_asked_for(void **state)
{
	(void)state;
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "flip@1", adds_one_wrong);
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "nan@1", adds_one_wrong);
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "flip@2", adds);
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "die@1", dies);
}

static void sees_four(void)
{
	char name[64];
	int count;
	struct cu_uuid uuid;

	WANT(cuDeviceGetCount(&count) == 3);
	WANT(cuInit(1) == 1);
	WANT(cuInit(0) == OK);
	WANT(cuDeviceGetCount(&count) == OK && count == 4);
	WANT(cuDeviceGetName(name, sizeof(name), 3) == OK && strcmp(name, "Tesla T4") == 0);
	WANT(cuDeviceGetName(name, sizeof(name), 4) == 101);
	WANT(cuDeviceGetUuid_v2(&uuid, 0) == OK);
	WANT(memcmp(uuid.bytes, "\x51\xce\x51\xce", 4) == 0);
}

static void sees_two(void)
{
	char id[32];
	int count;

	WANT(cuInit(0) == OK);
	WANT(cuDeviceGetCount(&count) == OK && count == 2);
	WANT(cuDeviceGetPCIBusId(id, sizeof(id), 0) == OK && strcmp(id, "0000:00:1E.0") == 0);
}

static void sees_none(void)
{
	WANT(cuInit(0) == 100);
}

static void is_not_ready(void)
{
	WANT(cuInit(0) == 802);
}

static void test_devices_are_those_of_the_machine_and_of_the_list(void **state)
{
	(void)state;
	in_child("t4x4", NULL, NULL, sees_four);
	in_child("t4x4", "CUDA_VISIBLE_DEVICES", "3,0", sees_two);
	in_child("t4x4", "CUDA_VISIBLE_DEVICES", "", sees_none);
	in_child("t4x4", "SLUICE_SIM_CUDA_FAULT", "cuInit=802", is_not_ready);
}

static void fills_memory(void)
{
	size_t free_bytes, total, after;
	uint64_t most, more;

	(void)context_new();
	WANT(cuMemGetInfo_v2(&free_bytes, &total) == OK);
	WANT(total == (size_t)15060 << 20 && free_bytes == (size_t)14760 << 20);
	WANT(cuMemAlloc_v2(&more, free_bytes + 1) == OUT_OF_MEMORY);
	WANT(cuMemAlloc_v2(&most, free_bytes) == OK);
	WANT(cuMemAlloc_v2(&more, 1) == OUT_OF_MEMORY);
	WANT(cuMemGetInfo_v2(&after, &total) == OK && after == 0);
	WANT(cuMemFree_v2(most) == OK);
	WANT(cuMemFree_v2(most) == 1);
	WANT(cuMemGetInfo_v2(&after, &total) == OK && after == free_bytes);
	WANT(cuMemAllocAsync(&most, 4 << 20, NULL) == OK);
	WANT(cuMemFreeAsync(most, NULL) == OK);
	WANT(cuCtxSynchronize() == OK);
	WANT(cuMemGetInfo_v2(&after, &total) == OK && after == free_bytes);
}

static void runs_out(void)
{
	uint64_t address;

	(void)context_new();
	WANT(cuMemAlloc_v2(&address, 100) == OK);
	WANT(cuMemAlloc_v2(&address, 100) == OUT_OF_MEMORY);
}

static void test_memory_ends_where_the_profile_says(void **state)
{
	(void)state;
	in_child("t4x1", NULL, NULL, fills_memory);
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "oom@2", runs_out);
}

static void queues(void)
{
	struct cu_stream *stream[2];
	struct cu_event *event[2];
	uint64_t ns = 5000000, before, after, none = 0;
	float ms;

	(void)context_new();
	struct cu_function *spin = function_new("sl_spin");
	void *parameters[] = {&ns, &none};

	for (int i = 0; i < 2; i++) {
		WANT(cuStreamCreate(&stream[i], 1) == OK);
		WANT(cuEventCreate(&event[i], 0) == OK);
	}
	WANT(simCudaNow(&before) == OK);
	WANT(cuEventRecord(event[0], stream[0]) == OK);
	WANT(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream[0], parameters, NULL) == OK);
	WANT(cuEventRecord(event[1], stream[0]) == OK);
	WANT(cuEventQuery(event[1]) == NOT_READY);
	WANT(cuEventElapsedTime(&ms, event[0], event[1]) == NOT_READY);
	/* the other stream is done before, unless it waits */
	WANT(cuStreamSynchronize(stream[1]) == OK);
	WANT(cuEventQuery(event[1]) == NOT_READY);
	WANT(cuStreamWaitEvent(stream[1], event[1], 0) == OK);
	WANT(cuStreamSynchronize(stream[1]) == OK);
	WANT(cuEventQuery(event[1]) == OK);
	WANT(cuEventElapsedTime(&ms, event[0], event[1]) == OK);
	WANT(ms > 4.999F && ms < 5.01F);
	WANT(simCudaNow(&after) == OK && after - before > 5000000 && after - before < 6000000);
	WANT(simCudaWaitUntil(after + 1000000000) == OK);
	WANT(simCudaNow(&before) == OK && before - after >= 1000000000);
}

static void asks_until_done(void)
{
	struct cu_event *event;
	uint64_t ns = 1000000, none = 0, begin, now;

	(void)context_new();
	struct cu_function *spin = function_new("sl_spin");
	void *parameters[] = {&ns, &none};

	WANT(cuEventCreate(&event, 0) == OK);
	WANT(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL) == OK);
	WANT(cuEventRecord(event, NULL) == OK);
	WANT(simCudaNow(&begin) == OK);
	do
		WANT(simCudaNow(&now) == OK);
	while (cuEventQuery(event) == NOT_READY && now - begin < 10000000);
	WANT(cuEventQuery(event) == OK);
	WANT(now - begin < 2000000);
}

static void never_done(void)
{
	struct cu_event *event;

	(void)context_new();
	WANT(cuEventCreate(&event, 0) == OK);
	WANT(cuEventRecord(event, NULL) == OK);
	for (int i = 0; i < 1000; i++)
		WANT(cuEventQuery(event) == NOT_READY);
}

static void test_streams_events_and_time_go_together(void **state)
{
	(void)state;
	in_child("t4x1", NULL, NULL, queues);
	in_child("t4x1", NULL, NULL, asks_until_done);
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "event-hang", never_done);
}

static void launches_graphs(void)
{
	static unsigned char out[64];
	struct cu_stream *stream;
	struct cu_graph *graph, *exec;
	uint64_t address, before, after;

	(void)context_new();
	struct cu_function *nop = function_new("sl_nop");

	WANT(cuMemAlloc_v2(&address, sizeof(out)) == OK);
	WANT(cuStreamCreate(&stream, 0) == OK);
	WANT(cuStreamBeginCapture_v2(stream, 0) == OK);
	for (int i = 0; i < 100; i++)
		WANT(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == OK);
	WANT(cuMemsetD8Async(address, 9, sizeof(out), stream) == OK);
	WANT(cuStreamEndCapture(stream, &graph) == OK);
	WANT(cuGraphInstantiateWithFlags(&exec, graph, 0) == OK);
	WANT(cuGraphDestroy(graph) == OK);
	WANT(cuMemcpyDtoH_v2(out, address, sizeof(out)) == OK && out[0] == 0);
	WANT(simCudaNow(&before) == OK);
	for (int i = 0; i < 1000; i++)
		WANT(cuGraphLaunch(exec, stream) == OK);
	WANT(cuStreamSynchronize(stream) == OK);
	WANT(simCudaNow(&after) == OK && after - before > 100000000);
	WANT(cuMemcpyDtoH_v2(out, address, sizeof(out)) == OK && out[63] == 9);
	WANT(cuGraphExecDestroy(exec) == OK);
	WANT(cuStreamDestroy_v2(stream) == OK);
}

static void test_graphs_do_what_was_captured(void **state)
{
	(void)state;
	in_child("t4x1", NULL, NULL, launches_graphs);
}

static void refuses_texts(void)
{
	struct cu_module *module;
	struct cu_function *function;
	char log[200] = "";
	int option[] = {5, 6};
	void *value[] = {log, (void *)(uintptr_t)sizeof(log)};

	(void)context_new();
	WANT(cuModuleLoadDataEx(&module, "nonsense", 2, option, value) == 218);
	WANT(strstr(log, "Missing .version"));
	WANT((uintptr_t)value[1] == strlen(log));
	WANT(cuModuleLoadData(&module, ".version 7.0\n.target sm_80\n") == 209);
	WANT(cuModuleLoadData(&module, ".version 9.9\n.target sm_75\n") == 222);
	WANT(cuModuleLoadData(&module, ".version 6.3\n.target sm_75\n.entry foo(){ret;}") == OK);
	WANT(cuModuleGetFunction(&function, module, "bar") == NOT_FOUND);
	WANT(cuModuleUnload(module) == OK);
}

static void does_not_compile(void)
{
	struct cu_module *module;

	(void)context_new();
	WANT(cuModuleLoadData(&module, ".version 6.3\n.target sm_75\n") == 218);
}

static void test_texts_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	in_child("t4x1", NULL, NULL, refuses_texts);
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "jit", does_not_compile);
}

static int find_init(void **out)
{
	int status = -1;
	int result = cuGetProcAddress_v2("cuInit", out, 12000, 0, &status);

	return result == OK ? status : -1;
}

static void gives_exports(void)
{
	void *found = NULL;
	int (*init)(unsigned flags) = cuInit;

	WANT(find_init(&found) == 0);
	WANT(memcmp(&found, &init, sizeof(found)) == 0);
	WANT(cuGetProcAddress("cuNoSuchThing", &found, 12000, 0) == NOT_FOUND && !found);
}

static void gives_others(void)
{
	void *found = NULL;
	int (*init)(unsigned flags) = cuInit;

	WANT(find_init(&found) == 0);
#if defined(__x86_64__)
	WANT(memcmp(&found, &init, sizeof(found)) != 0);
#endif
	memcpy(&init, &found, sizeof(init));
	WANT(init(0) == OK);
}

static void lacks_init(void)
{
	void *found = NULL;

	WANT(find_init(&found) == 1 && !found);
}

static void test_addresses_are_those_of_the_exports_unless_asked_otherwise(void **state)
{
	(void)state;
	in_child("t4x1", NULL, NULL, gives_exports);
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "procaddress", gives_others);
	in_child("t4x1", "SLUICE_SIM_CUDA_FAULT", "missing=cuInit", lacks_init);
}

static void child_is_not_initialised(void)
{
	int count, status;

	(void)context_new();
	pid_t child = fork();

	if (child == 0)
		_exit(cuDeviceGetCount(&count) == 3 ? 0 : 1);
	WANT(waitpid(child, &status, 0) == child && status == 0);
	WANT(cuDeviceGetCount(&count) == OK);
}

static void test_a_forked_child_has_no_driver(void **state)
{
	(void)state;
	in_child("t4x1", NULL, NULL, child_is_not_initialised);
}

static void copies_between_gpus(void)
{
	struct cu_context *context[2];
	uint64_t address[2];
	unsigned value = 0;
	int can = 0;

	WANT(cuInit(0) == OK);
	WANT(cuDeviceCanAccessPeer(&can, 0, 1) == OK && can == 1);
	for (int i = 0; i < 2; i++) {
		WANT(cuDevicePrimaryCtxRetain(&context[i], i) == OK);
		WANT(cuCtxSetCurrent(context[i]) == OK);
		WANT(cuMemAlloc_v2(&address[i], 4096) == OK);
	}
	WANT(cuCtxEnablePeerAccess(context[0], 0) == OK);
	WANT(cuCtxEnablePeerAccess(context[0], 0) == 704);
	WANT(cuMemsetD32_v2(address[1], 0x12345678, 1024) == OK);
	WANT(cuMemcpyPeerAsync(address[0], context[0], address[1], context[1], 4096, NULL) == OK);
	WANT(cuCtxSynchronize() == OK);
	WANT(cuMemcpyDtoH_v2(&value, address[0] + 4092, 4) == OK && value == 0x12345678);
	WANT(cuMemcpyDtoH_v2(&value, address[0] + 4096, 4) == 1);
}

enum { THREADS = 4, ROUNDS = 50 };

struct worker {
	struct cu_context *context;
	struct cu_function *add;
	int wrong;
};

static void *work(void *data)
{
	struct worker *worker = data;
	struct cu_stream *stream;
	struct cu_event *event;
	uint64_t address[2];
	float in[64], out[64];
	int count = 64;

	worker->wrong = 1;
	if (cuCtxSetCurrent(worker->context) != OK || cuStreamCreate(&stream, 1) != OK ||
	    cuEventCreate(&event, 0) != OK || cuMemAlloc_v2(&address[0], sizeof(in)) != OK ||
	    cuMemAlloc_v2(&address[1], sizeof(in)) != OK)
		return NULL;
	void *parameters[] = {&address[0], &address[0], &address[1], &count};

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 64; i++)
			in[i] = (float)(round * 64 + i);
		if (cuMemcpyHtoDAsync_v2(address[0], in, sizeof(in), stream) != OK ||
		    cuLaunchKernel(worker->add, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL) !=
			OK ||
		    cuEventRecord(event, stream) != OK || cuEventSynchronize(event) != OK ||
		    cuMemcpyDtoHAsync_v2(out, address[1], sizeof(out), stream) != OK ||
		    cuStreamSynchronize(stream) != OK)
			return NULL;
		for (int i = 0; i < 64; i++) {
			if (out[i] != in[i] + in[i])
				return NULL;
		}
	}
	worker->wrong = cuMemFree_v2(address[0]) != OK || cuMemFree_v2(address[1]) != OK ||
			cuEventDestroy_v2(event) != OK || cuStreamDestroy_v2(stream) != OK;
	return NULL;
}

static void threads_work(void)
{
	struct worker worker[THREADS];
	pthread_t thread[THREADS];
	struct cu_context *context = context_new();
	struct cu_function *add = function_new("sl_vadd");

	for (int i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){.context = context, .add = add};
		WANT(pthread_create(&thread[i], NULL, work, &worker[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		WANT(pthread_join(thread[i], NULL) == 0);
		WANT(worker[i].wrong == 0);
	}
	WANT(cuDevicePrimaryCtxRelease_v2(0) == OK);
}

static void test_threads_share_a_context(void **state)
{
	(void)state;
	/* the first thread waits for the others by other means: it is left out soon */
	(void)setenv("SLUICE_SIM_CUDA_PATIENCE_MS", "50", 1);
	in_child("t4x1", NULL, NULL, threads_work);
	in_child("t4x1", "SLUICE_SIM_CUDA_CLOCK", "real", threads_work);
	(void)unsetenv("SLUICE_SIM_CUDA_PATIENCE_MS");
}

static void test_memory_is_copied_between_gpus(void **state)
{
	(void)state;
	in_child("dgx1", NULL, NULL, copies_between_gpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors_are_added),
	    cmocka_unit_test(test_results_are_wrong_when_that_is_asked_for),
	    cmocka_unit_test(test_devices_are_those_of_the_machine_and_of_the_list),
	    cmocka_unit_test(test_memory_ends_where_the_profile_says),
	    cmocka_unit_test(test_streams_events_and_time_go_together),
	    cmocka_unit_test(test_graphs_do_what_was_captured),
	    cmocka_unit_test(test_texts_that_do_not_fit_are_refused),
	    cmocka_unit_test(test_addresses_are_those_of_the_exports_unless_asked_otherwise),
	    cmocka_unit_test(test_a_forked_child_has_no_driver),
	    cmocka_unit_test(test_memory_is_copied_between_gpus),
	    cmocka_unit_test(test_threads_share_a_context),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

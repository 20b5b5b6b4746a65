/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nccl/cuda.h"

#include <dlfcn.h>
#include <string.h>

bool cuda_load(struct cuda_calls *out, const char **out_problem)
{
	struct cuda_calls calls = {0};
	/* never closed: the program holds it as long as it uses us */
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		*out_problem = dlerror();
		return false;
	}

	const struct {
		const char *name;
		void *place;
		bool is_needed;
	} wanted[] = {
	    {"cuCtxGetCurrent", &calls.cuCtxGetCurrent, true},
	    {"cuCtxSetCurrent", &calls.cuCtxSetCurrent, true},
	    {"cuCtxGetDevice", &calls.cuCtxGetDevice, true},
	    {"cuDeviceGetPCIBusId", &calls.cuDeviceGetPCIBusId, true},
	    {"cuMemAlloc_v2", &calls.cuMemAlloc_v2, true},
	    {"cuMemFree_v2", &calls.cuMemFree_v2, true},
	    {"cuMemGetAddressRange_v2", &calls.cuMemGetAddressRange_v2, true},
	    {"cuMemcpyDtoHAsync_v2", &calls.cuMemcpyDtoHAsync_v2, true},
	    {"cuMemcpyHtoDAsync_v2", &calls.cuMemcpyHtoDAsync_v2, true},
	    {"cuStreamCreate", &calls.cuStreamCreate, true},
	    {"cuStreamDestroy_v2", &calls.cuStreamDestroy_v2, true},
	    {"cuStreamQuery", &calls.cuStreamQuery, true},
	    {"cuStreamSynchronize", &calls.cuStreamSynchronize, true},
	    {"simCudaStreamHold", &calls.simCudaStreamHold, false},
	    {"simCudaStreamReached", &calls.simCudaStreamReached, false},
	    {"simCudaStreamRelease", &calls.simCudaStreamRelease, false},
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		void *symbol = dlsym(library, wanted[i].name);
		if (!symbol && wanted[i].is_needed) {
			*out_problem = dlerror();
			return false;
		}

		memcpy(wanted[i].place, &symbol, sizeof(symbol));
	}

	if (!calls.simCudaStreamReached || !calls.simCudaStreamRelease)
		calls.simCudaStreamHold = NULL;
	*out = calls;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "follow.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int (*follow_fn)(const struct sim_machine *machine, size_t size);

/* DIRECTORY/580/libnvidia-ml.so.1 -> DIRECTORY/trees/libsluice-simtrees.so */
static follow_fn follow_load(void)
{
	char path[SIM_PATH_MAX];

	follow_fn function = NULL;
	static const char here; /* an address within this library */
	Dl_info self;

	if (!dladdr(&here, &self) || !self.dli_fname)
		return NULL;

	snprintf(path, sizeof(path), "%s", self.dli_fname);

	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(path, '/');
		if (!slash)
			return NULL;
		*slash = '\0';
	}

	size_t length = strlen(path);
	snprintf(path + length, sizeof(path) - length, "/trees/libsluice-simtrees.so");

	void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = module ? dlsym(module, FOLLOW_FUNCTION) : NULL;

	memcpy(&function, &symbol, sizeof(function));
	return function;
}

void follow_machine(const struct sim_machine *machine)
{
	static _Atomic(follow_fn) loaded;
	static atomic_flag complained = ATOMIC_FLAG_INIT;

	follow_fn function = atomic_load(&loaded);

	if (!machine->root[0] || access(machine->root, F_OK) != 0)
		return;
	if (!function) {
		function = follow_load();
		atomic_store(&loaded, function);
	}

	if ((!function || function(machine, sizeof(*machine)) != 0) &&
	    !atomic_flag_test_and_set(&complained))
		fprintf(stderr,
			"libnvidia-ml (simulated): the files below '%s' do not show the change\n",
			machine->root);
}

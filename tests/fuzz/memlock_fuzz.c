/* SPDX-License-Identifier: Apache-2.0 */
/* The state and the configuration of a container, as an OCI hook reads them: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "libexec/memlock/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fuzz_is_inside(const char *text, size_t length, const char *bytes, size_t size)
{
	return !text || (text >= bytes && length <= size && text + length <= bytes + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	struct memlock_state state;
	struct state_limit limit;
	if (memlock_state_parse(bytes, size, &state) &&
	    (state.pid <= 1 || !fuzz_is_inside(state.id, state.id_length, bytes, size) ||
	     !fuzz_is_inside(state.bundle, state.bundle_length, bytes, size)))
		abort();
	(void)state_config_parse(bytes, size, &limit);
	return 0;
}

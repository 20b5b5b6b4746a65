/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions a fault can be put on: all that the simulated library of any age exports. */
#include "sim/fault.h"

#include <string.h>

#include "sim/error.h"

#include "function_names.h" /* generated from nvml/functions.list */

/* Length of a name without its version: "nvmlInit_v2" is 8 long. */
static size_t base_length(const char *name)
{
	size_t length = strlen(name);
	if (length > 3 && name[length - 3] == '_' && name[length - 2] == 'v' &&
	    name[length - 1] >= '0' && name[length - 1] <= '9')
		return length - 3;
	return length;
}

bool sim_fault_knows_function(const char *name, const char **out_near)
{
	const size_t count = sizeof(function_names) / sizeof(*function_names);

	*out_near = NULL;
	if (strcmp(name, "any") == 0)
		return true;

	for (size_t i = 0; i < count; i++) {
		size_t base = base_length(function_names[i]);
		if (strcmp(function_names[i], name) == 0 ||
		    (strlen(name) == base && strncmp(function_names[i], name, base) == 0))
			return true;
	}

	*out_near = sim_nearest(name, strlen(name), function_names, count);
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's name in the first line, /proc/version in the second, packages in the rest. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/buildneeds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *rest = text;
	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	const char *release = strsep(&rest, "\n");
	const char *version = rest ? strsep(&rest, "\n") : "";
	struct buildneeds_kernel kernel = {.release = release, .machine = "x86_64"};
	struct buildneeds_result results[BUILDNEEDS_MAX];
	struct buildneeds_list list;
	(void)buildneeds_compiler_parse(version, strlen(version), &kernel.compiler);
	int result = buildneeds_list_parse(rest ? rest : "", rest ? strlen(rest) : 0, &list, NULL);
	for (int system = 0; result == 0 && system <= BUILDNEEDS_DEBIAN; system++) {
		kernel.system = (enum buildneeds_system)system;
		if (buildneeds_judge(&kernel, &list, 1, results) > BUILDNEEDS_MAX)
			abort();
	}
	buildneeds_list_done(&list);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a YAML document: never a crash, and a tree that can be walked when it is accepted.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every node of the tree, the shared ones once for each place in which they stand. */
static void walk(const struct yaml_node *root)
{
	const struct yaml_node *node[YAML_DEPTH_MAX + 1] = {root};
	size_t next[YAML_DEPTH_MAX + 1] = {0};
	size_t depth = 0, seen = 0;
	for (;;) {
		if (next[depth] == node[depth]->entry_count) {
			if (strlen(node[depth]->text) != node[depth]->length ||
			    ++seen > YAML_EXPANDED_MAX)
				abort();
			if (depth-- == 0)
				return;
			continue;
		}
		const struct yaml_node *child = node[depth]->entries[next[depth]++].value;
		/* Aliases can hang a deep value below another deep one; the sum stays small. */
		if (depth == YAML_DEPTH_MAX)
			return;
		node[++depth] = child;
		next[depth] = 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct yaml *yaml = NULL;
	struct err err = {0};
	int rc = yaml_parse((const char *)data, size, "fuzz", &yaml, &err);
	if (rc < 0) {
		if (rc != err.code || yaml || err.text[0] == '\0')
			abort();
		return 0;
	}
	walk(yaml_root(yaml));
	(void)yaml_free(yaml);
	return 0;
}

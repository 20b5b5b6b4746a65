/* SPDX-License-Identifier: Apache-2.0 */
/* What an API server says of a cluster: any bytes, as each kind of object. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "libexec/cluster/digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	char more[DIGEST_CONTINUE_MAX] = "";
	struct digest_groups groups;
	struct err err = {0};
	json_t *facts = json_object();
	if (!facts)
		abort();
	(void)digest_groups(text, size, &groups, &err);
	(void)digest_namespace(text, size, facts, &err);
	(void)digest_daemonsets(text, size, facts, more, &err);
	(void)digest_nodes(text, size, facts, more, &err);
	(void)digest_events(text, size, facts, &err);
	(void)digest_policies(text, size, "ClusterPolicy", facts, &err);
	(void)digest_review(text, size, facts, &err);
	(void)digest_tags(text, size, facts, &err);
	/* What is added can be printed. */
	char *all = json_dumps(facts, JSON_COMPACT);
	if (!all || strlen(more) >= sizeof(more))
		abort();
	free(all);
	json_decref(facts);
	return 0;
}

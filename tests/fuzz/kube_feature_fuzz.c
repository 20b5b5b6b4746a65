/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the Node, Pod or NodeFeature of an API server, and what is answered to it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "libexec/kube/feature.h"
#include "libexec/kube/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	json_t *there = object_load((const char *)data, size, &err);
	json_t *labels = json_pack("{s:s, s:s}", "nvidia.com/gpu.count", "8",
				   "feature.node.kubernetes.io/pci-10de.present", "true");
	if (!there && (err.code == 0 || err.text[0] == '\0'))
		abort();
	json_t *owners = there ? feature_owners(there) : NULL;
	const struct feature_object wish = {
	    .node = "n", .namespace_ = "s", .labels = labels, .owners = owners};
	if (there) {
		json_t *taken = feature_of_discovery(there, labels);
		char *texts[] = {feature_body(there, &wish), feature_forget_body(there, labels),
				 feature_release_body(there), feature_apply_body("n", taken)};
		bool is = feature_is(there, &wish) || feature_on_node(there, labels);
		/* An object that was written is the one that was wished for. */
		json_t *after = texts[0] ? json_loads(texts[0], 0, NULL) : NULL;
		if (after && !is && !feature_is(after, &wish))
			abort();
		json_decref(after);
		json_decref(taken);
		for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
			free(texts[i]);
	}
	json_decref(owners);
	json_decref(there);
	json_decref(labels);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The config.json of a container, and GPUs applied to it: any bytes. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cdi/apply.h"
#include "cdi/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char fuzz_specification[] =
    "{cdiVersion: 1.1.0, kind: acme.com/gpu, containerEdits: {env: [GPU=void, A=1], mounts: ["
    "{hostPath: /, containerPath: /a/b, options: [ro]}], additionalGids: [44], hooks: ["
    "{hookName: prestart, path: /h}], intelRdt: {closID: a}, netDevices: ["
    "{hostInterfaceName: e, name: f}]}, devices: [{name: '0', containerEdits: {deviceNodes: ["
    "{path: /dev/g, type: c, major: 195, permissions: rw}], mounts: ["
    "{hostPath: /, containerPath: /a}]}}]}";

static void fuzz_apply(const struct scan *scan, const json_t *config)
{
	static const char *const name = "acme.com/gpu=0";
	struct err err = {0};
	json_auto_t *once = NULL;
	json_auto_t *twice = NULL;
	int rc = apply_devices(scan, &name, 1, NULL, config, &once, &err);
	if (rc < 0 && rc != -EINVAL)
		abort();
	if (rc < 0)
		return;
	/* Again changes nothing, and the bytes give the same value. */
	if (apply_devices(scan, &name, 1, NULL, once, &twice, &err) < 0 || !json_equal(once, twice))
		abort();
	struct buf text;
	buf_init(&text, OCI_TEXT_MAX);
	json_auto_t *again = NULL;
	if (oci_print(once, false, &text) == 0 &&
	    (oci_parse(buf_text(&text), text.length, &again, &err) < 0 || !json_equal(once, again)))
		abort();
	buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scan_file file = {.path = (char *)(uintptr_t) "fuzz"};
	struct scan scan = {.files = &file, .count = 1};
	json_auto_t *config = NULL;
	if (document_parse(fuzz_specification, strlen(fuzz_specification), "fuzz", &file.document,
			   NULL) < 0)
		abort();
	memcpy(file.kind, file.document.kind, strlen(file.document.kind) + 1);
	if (oci_parse((const char *)data, size, &config, NULL) == 0)
		fuzz_apply(&scan, config);
	document_done(&file.document);
	return 0;
}

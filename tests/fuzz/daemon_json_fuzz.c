/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon.json of docker that somebody else wrote: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "cdi/runtime/daemon_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct daemon_json before, after;
	int parsed = daemon_json_parse(text, size, "fuzz", &before, NULL);
	_cleanup_buf_ struct buf out;
	buf_init(&out, DAEMON_JSON_TEXT_MAX + 4096);
	int changed = daemon_json_set_cdi(text, size, "fuzz", &out, NULL);
	/* What is understood can be edited, and is on afterwards. */
	if ((parsed < 0) != (changed < 0))
		abort();
	if (changed == 1 && out.length <= DAEMON_JSON_TEXT_MAX &&
	    (daemon_json_parse(out.data, out.length, "fuzz", &after, NULL) < 0 ||
	     after.cdi != DAEMON_JSON_ON || before.cdi == DAEMON_JSON_ON))
		abort();
	if (changed == 0 && before.cdi != DAEMON_JSON_ON)
		abort();
	return 0;
}

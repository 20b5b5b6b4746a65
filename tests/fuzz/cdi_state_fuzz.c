/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's side file of its CDI specifications: what is read is written and read the same. */
#include "doors/cdi/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_state_ struct state state = {.uuid_count = 0}, again = {.uuid_count = 0};
	_cleanup_buf_ struct buf text, second;
	buf_init(&text, 8 * STATE_SIZE_MAX);
	buf_init(&second, 8 * STATE_SIZE_MAX);
	if (state_parse((const char *)data, size, "cdi.state", &state, NULL) < 0 ||
	    state_format(&state, &text, NULL) < 0)
		return 0;
	/* One that has become too long for a file is none. */
	if (text.length <= STATE_SIZE_MAX &&
	    (state_parse(buf_text(&text), text.length, "again", &again, NULL) < 0 ||
	     state_format(&again, &second, NULL) < 0 || second.length != text.length ||
	     memcmp(second.data, text.data, text.length) != 0))
		abort();
	return 0;
}

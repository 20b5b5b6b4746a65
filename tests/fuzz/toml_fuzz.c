/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration of containerd that somebody else wrote: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cdi/runtime/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Without the edit it is what it was: `out` is `data` with one piece more, or one replaced. */
static void check_kept(const uint8_t *data, size_t size, const struct buf *out)
{
	size_t head = 0, tail = 0;
	while (head < size && head < out->length && data[head] == (uint8_t)out->data[head])
		head++;
	while (tail < size - head && tail < out->length - head &&
	       data[size - 1 - tail] == (uint8_t)out->data[out->length - 1 - tail])
		tail++;
	/* All is kept, but for the word "false" (whose last letter is also that of "true"). */
	size_t lost = size - head - tail;
	if (lost != 0 && (lost != 4 || memcmp(data + head, "fals", 4) != 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct toml_path table = {{"plugins", "io.containerd.grpc.v1.cri"}, 2};
	static const struct toml_path imports = {{"imports"}, 1};
	const struct toml toml = {"fuzz", (const char *)data, size};
	struct toml_look look;
	if (toml_find(&toml, &imports, &look, NULL) < 0)
		return 0;
	if (look.start > look.end || look.end > size || look.header_end > size ||
	    look.indent > look.indent_end || look.indent_end > size)
		abort();
	char text[256];
	size_t at = look.start;
	while (look.kind == TOML_ARRAY &&
	       toml_next_string(&toml, &at, look.end, text, sizeof(text)))
		if (at > look.end || strlen(text) >= sizeof(text))
			abort();

	_cleanup_buf_ struct buf out, again;
	buf_init(&out, TOML_TEXT_MAX + 4096);
	buf_init(&again, TOML_TEXT_MAX + 4096);
	if (toml_set_true(&toml, &table, "enable_cdi", &out, NULL) != 1)
		return 0;
	check_kept(data, size, &out);
	/* It is understood afterwards as well, and there is nothing left to do. */
	const struct toml edited = {"fuzz", out.data, out.length};
	if (out.length <= TOML_TEXT_MAX &&
	    toml_set_true(&edited, &table, "enable_cdi", &again, NULL) != 0)
		abort();
	return 0;
}

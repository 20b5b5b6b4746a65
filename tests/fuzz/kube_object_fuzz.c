/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what the API server sends: the first says what for, and how they are cut. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lines.h"
#include "libexec/kube/object.h"

enum { FUZZ_EVENT_KINDS = 3, FUZZ_PIECE_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_check(int rc, const struct err *err)
{
	if (rc < 0 && (rc != err->code || err->text[0] == '\0'))
		abort();
}

static void fuzz_check_node(const struct object_node *node)
{
	if (node->version[0] == '\0' || strnlen(node->version, OBJECT_VERSION_MAX) >= 64 ||
	    strpbrk(node->version, "&=%? \r\n"))
		abort();
	if (!node->has_label && node->label[0])
		abort();
}

static void fuzz_line(const char *text, size_t length)
{
	struct object_event event;
	struct err err = {0};
	int rc = object_event_parse(text, length, "l", &event, &err);
	fuzz_check(rc, &err);
	if (rc == 0 && event.type < OBJECT_ERROR)
		fuzz_check_node(&event.node);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	struct object_list list;
	struct object_status status;
	struct lines lines;
	char *line;
	size_t line_length;
	if (size == 0)
		return 0;
	const char *text = (const char *)data + 1;
	size_t length = size - 1, piece = data[0] % FUZZ_PIECE_MAX + 1;
	int rc = 0;
	switch (data[0] % FUZZ_EVENT_KINDS) {
	case 0:
		rc = object_list_parse(text, length, "n", "l", &list, &err);
		if (rc == 0 && list.found)
			fuzz_check_node(&list.node);
		break;
	case 1:
		rc = object_status_parse(text, length, &status, &err);
		break;
	default:
		lines_init(&lines, length);
		for (size_t at = 0; at < length; at += piece) {
			(void)lines_feed(&lines, text + at,
					 length - at < piece ? length - at : piece);
			while (lines_next(&lines, false, &line, &line_length) > 0)
				fuzz_line(line, line_length);
		}
		lines_done(&lines);
		break;
	}
	fuzz_check(rc, &err);
	return 0;
}

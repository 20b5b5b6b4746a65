/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/cmdlines.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/lines.h"

static bool cmdlines_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

int cmdlines_next(struct lines *lines, bool is_end, const char **out, struct err *err)
{
	char *line;
	size_t length;
	int rc;

	while ((rc = lines_next(lines, is_end, &line, &length)) > 0) {
		if (memchr(line, '\0', length))
			return err_set(err, -EINVAL, "line %" PRIu64 " has a NUL byte in it",
				       lines->number);

		while (length > 0 && cmdlines_is_blank(line[length - 1]))
			line[--length] = '\0';
		while (cmdlines_is_blank(*line))
			line++;

		if (*line != '\0' && *line != '#') {
			*out = line;
			return 1;
		}
	}

	if (rc == -E2BIG)
		return err_set(err, rc, "line %" PRIu64 " is longer than %d bytes",
			       lines->number + 1, CMDLINES_LINE_MAX);
	return rc;
}

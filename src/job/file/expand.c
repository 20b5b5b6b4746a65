/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/expand.h"

#include <string.h>

#include "base/buf.h"

int expand_text(const char *text, expand_lookup lookup, const void *context, struct buf *out)
{
	for (;;) {
		const char *dollar = strchr(text, '$');
		size_t plain = dollar ? (size_t)(dollar - text) : strlen(text);
		int rc = buf_add(out, text, plain);
		if (rc < 0 || !dollar)
			return rc;

		const char *close = dollar[1] == '(' ? strchr(dollar, ')') : NULL;
		const char *value = NULL;
		size_t length =
		    dollar[1] ? 2 : 1; /* "$x" stays, and so does "$(" without its end */

		if (close) {
			value = lookup(dollar + 2, (size_t)(close - dollar) - 2, context);
			length = (size_t)(close - dollar) + 1;
		} else if (dollar[1] == '$') {
			value = "$";
		}

		rc = value ? buf_add_text(out, value) : buf_add(out, dollar, length);
		if (rc < 0)
			return rc;

		text = dollar + length;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/html.h"

#include <stddef.h>

#include "base/buf.h"

static const char html_style[] =
    "</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}\n"
    "pre{overflow-x:auto;background:#f4f4f4;padding:1rem;font-size:13px}\n"
    "svg{max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:currentColor}\n"
    ".grid{stroke:#ccc}.zero{stroke:#666}.margin{fill:#8884}.a{fill:#0b62c4}.b{fill:#c2410c}\n"
    ".line{fill:none;stroke:#0b62c4;stroke-width:2}\n"
    ".range{stroke:#1a1a1a;stroke-width:3}.fat{stroke-width:8;stroke-opacity:.5}\n"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}"
    "pre{background:#242424}.grid{stroke:#444}.a{fill:#6aaeff}.b{fill:#ff9a5c}"
    ".line{stroke:#6aaeff}.range{stroke:#e6e6e6}}\n</style>\n";

int html_begin(struct buf *out, const char *title)
{
	int rc = buf_add_text(out, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n"
				   "<title>");
	if (rc == 0)
		rc = html_text(out, title);
	return rc == 0 ? buf_add_text(out, html_style) : rc;
}

int html_text(struct buf *out, const char *text)
{
	int rc = 0;

	for (; rc == 0 && *text; text++) {
		const char *entity = *text == '<'   ? "&lt;"
				     : *text == '>' ? "&gt;"
				     : *text == '&' ? "&amp;"
				     : *text == '"' ? "&quot;"
						    : NULL;
		rc = entity ? buf_add_text(out, entity) : buf_add(out, text, 1);
	}

	return rc;
}

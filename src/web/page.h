/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page at `/`: one document with everything in it. Its files lie in web/page/; the build puts
 * style and script into page.html and knows their hashes (page/embed.py). Pure: nothing but the
 * view decides. Knows nothing of HTTP.
 *
 * Most of it is always the same; what is true now stands in the middle as plain tables, which the
 * script takes away once it has something better. So it is rendered when somebody asks and
 * compressed then, not beforehand.
 */
#ifndef SLUICE_WEB_PAGE_H
#define SLUICE_WEB_PAGE_H

#include <stdint.h>

struct buf;
struct err;
struct view;

enum page_limits { /* rows of the plain tables; how many more there are is said */
		   PAGE_HOLDER_ROWS = 200,
		   PAGE_JOB_ROWS = 64,
		   PAGE_EVENT_ROWS = 64,
};

/*
 * Appends the document to `out`. What is true now stands in it as plain tables, for browsers
 * without JavaScript; `view` is NULL for whoever has not said the token yet, and while there is
 * none: then nothing of the machine is in it, and the script asks for the token when it is told
 * 401. `now_ns` is CLOCK_MONOTONIC. 0, -ENOSPC, -ENOMEM.
 */
int page_render(const struct view *view, uint64_t now_ns, struct buf *out, struct err *err);

/* What the document may do, for Content-Security-Policy; with the hashes of its style and script.
 */
const char *page_policy(void);

#endif

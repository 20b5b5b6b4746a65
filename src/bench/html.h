/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pages of benchmarks have in common: one document without anything from elsewhere. Pure;
 * knows nothing of what is on them.
 */
#ifndef SLUICE_BENCH_HTML_H
#define SLUICE_BENCH_HTML_H

struct buf;

/* Its beginning, up to where the text comes; the style has the classes grid, zero, margin, a, b,
 * line, range and fat. As buf_add(). */
int html_begin(struct buf *out, const char *title);
/* Text that is none of the page's own. */
int html_text(struct buf *out, const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a load says, a line at a time: JSON for programs, words for people. Pure; knows no file.
 */
#ifndef SLUICE_BENCH_GPU_LOAD_REPORT_H
#define SLUICE_BENCH_GPU_LOAD_REPORT_H

struct buf;
struct load_plan;
struct load_second;
struct load_summary;

/* Each adds whole lines to `out`. 0, -ENOSPC, -ENOMEM. `of`: on which device, simulated or not. */
int load_report_second_json(const struct load_second *second, const struct load_summary *of,
			    struct buf *out);
int load_report_second_text(const struct load_second *second, const struct load_summary *of,
			    struct buf *out);
/* The lines of a mode's own (alloc: one for each path), and the summary. `problem` is "" or why
 * there is no figure; then there is no rate either. */
int load_report_summary_json(const struct load_plan *plan, struct load_summary *summary,
			     const char *problem, struct buf *out);
int load_report_summary_text(const struct load_plan *plan, struct load_summary *summary,
			     struct buf *out);

#endif

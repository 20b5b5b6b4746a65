/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a page of metrics without a service around it, for test_metrics.py:
 *
 *   metrics_page SET DCGM full          of a view in which everything is known
 *   metrics_page SET DCGM seed N        of some valid view
 *   metrics_page families               the names in the tables, one a line: ours, and DCGM's "old
 * new"
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "fuzz/made_view.h"
#include "web/metrics.h"

static struct view view;

static int families(void)
{
	const struct metrics_family *family;
	for (uint32_t i = 0; (family = metrics_family(i)) != NULL; i++)
		(void)printf("%s\n", family->name);
	for (uint32_t i = 0; (family = metrics_dcgm_family(i)) != NULL; i++)
		(void)printf("%s %s\n", family->name,
			     family->name_new ? family->name_new : family->name);
	return 0;
}

static uint32_t place(const char *word, const char *const *words, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const sets[] = {"all", "native", "dcgm"};
	static const char *const names[] = {"old", "new", "off"};
	uint64_t seed = 0;
	struct err err;
	struct buf out;
	buf_init(&out, 64 << 20);
	if (argc == 2 && strcmp(argv[1], "families") == 0)
		return families();
	if (argc < 4 || (argc == 5 && parse_u64(argv[4], 0, UINT64_MAX, &seed) < 0))
		return 64;
	if (argc == 5)
		made_view(&view, (const uint8_t *)&seed, sizeof(seed));
	else
		made_view_full(&view, 2, 0, 4);
	view.settings.dcgm = place(argv[2], names, 3);
	if (metrics_render(&view, UINT64_C(2000000000), (enum view_set)place(argv[1], sets, 3),
			   &out, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	(void)fwrite(buf_text(&out), 1, out.length, stdout);
	buf_done(&out);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-web: the unprivileged process that answers HTTP. A program of its own, because it shall
 * map none of the libraries that `sluice` links. man/sluice-web.1.scd describes it. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "web/sandbox.h"
#include "web/web.h"

enum { EXIT_USAGE = 64, RETURNED_SIZE = 32 << 10 };

static bool take_number(const char *text, uint32_t *out)
{
	uint64_t number;
	if (!text || parse_u64(text, 0, UINT32_MAX - 1, &number) < 0)
		return false;
	*out = (uint32_t)number;
	return true;
}

int main(int argc, char **argv)
{
	struct web_options options = {.uid = SANDBOX_KEEP, .gid = SANDBOX_KEEP};
	struct err err = {.code = 0};
	bool good = true;

	for (int i = 1; i < argc && good; i++) {
		if (strcmp(argv[i], "--no-sandbox") == 0)
			options.no_sandbox = true;
		else if (strcmp(argv[i], "--uid") == 0)
			good = take_number(argv[++i], &options.uid);
		else if (strcmp(argv[i], "--gid") == 0)
			good = take_number(argv[++i], &options.gid);
		else
			good = false;
	}

	if (!good) {
		(void)fprintf(stderr, "sluice-web: options are --uid N, --gid N, --no-sandbox; see "
				      "'sluice web --help'\n");
		return EXIT_USAGE;
	}

	(void)signal(SIGPIPE, SIG_IGN);
	/* An answer of half a megabyte is given back when nobody reads it any more, and not kept
	 * for the next: without these the C library raises its limits after the first. */
	(void)mallopt(M_MMAP_THRESHOLD, RETURNED_SIZE);
	(void)mallopt(M_TRIM_THRESHOLD, RETURNED_SIZE);
	(void)mallopt(M_TOP_PAD, 0);

	if (web_run(&options, &err) < 0) {
		(void)fprintf(stderr, "sluice-web: %s\n", err.text);
		return err.code == -EBADF ? EXIT_USAGE : 1;
	}

	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-packages LOCATION DEB-ARCH PATTERN...: what a package repository holds of the packages
 * whose names match one of the patterns, a line each: NAME, VERSION and ARCHITECTURE with tabs
 * between them. The last line is "end", the kind of repository, and how many packages it has in
 * all: without it something is missing. Started by 'sluice doctor', which knows nothing of XML,
 * compression and HTTP.
 */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "libexec/kube/sandbox.h"
#ifdef HAVE_CURL
#include "libexec/packages/fetch.h"
#endif
#include "libexec/packages/package.h"
#include "libexec/packages/repository.h"

enum {
	MAIN_EXIT_FAILED = 1,
	MAIN_EXIT_USAGE = 64,
	MAIN_TIMEOUT_MS = 120000, /* of one file */

};

struct main_sink {
	char *const *patterns; /* ends in NULL */
	uint64_t count;
};

static int main_on_package(const struct package *package, void *context)
{
	struct main_sink *sink = context;
	sink->count++;

	for (char *const *pattern = sink->patterns; *pattern; pattern++) {
		if (fnmatch(*pattern, package->name, 0) != 0)
			continue;
		if (printf("%s\t%s\t%s\n", package->name, package->version, package->arch) < 0)
			return -EIO; /* nobody listens */
		break;
	}

	return 0;
}

int main(int argc, char **argv)
{
	enum { LOCATION = 1, ARCH, PATTERNS };
	struct err err = {0};
	enum repository_kind kind;

	if (argc <= PATTERNS) {
		fprintf(stderr, "usage: sluice-packages LOCATION DEB-ARCH PATTERN...\n"
				"It is started by 'sluice doctor'.\n");
		return MAIN_EXIT_USAGE;
	}

	struct main_sink sink = {.patterns = argv + PATTERNS};
	const struct repository_options options = {
	    .location = argv[LOCATION],
	    .deb_arch = argv[ARCH],
#ifdef HAVE_CURL
	    .fetch = fetch,
#endif
	    .timeout_ms = MAIN_TIMEOUT_MS,
	    .sink = main_on_package,
	    .context = &sink,
	};

	(void)signal(SIGPIPE, SIG_IGN);
	int rc = sandbox_drop(&err);
	if (rc == 0)
		rc = repository_read(&options, &kind, &err);
	if (rc == 0 &&
	    (printf("end\t%s\t%" PRIu64 "\n", repository_kind_to_string(kind), sink.count) < 0 ||
	     fflush(stdout) != 0))
		rc = err_set(&err, -EIO, "writing what was found: %s", err_describe(errno));

	if (rc < 0)
		fprintf(stderr, "sluice-packages: %s\n", *err.text ? err.text : err_describe(rc));

	return rc < 0 ? MAIN_EXIT_FAILED : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file by HTTP or HTTPS. Certificates are checked against the machine's authorities; a
 * redirection is followed a few times, to HTTP and HTTPS only and never from HTTPS to HTTP; the
 * proxies of the environment are used. Knows nothing of packages.
 */
#ifndef SLUICE_LIBEXEC_PACKAGES_FETCH_H
#define SLUICE_LIBEXEC_PACKAGES_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum fetch_limits {
	FETCH_REDIRECTS_MAX = 5,
	FETCH_CONNECT_MS = 10000,
	FETCH_IDLE_S = 20, /* without a kilobyte in so many seconds it is given up */
};

/* Is given what comes; what it returns other than 0 ends it and is returned. */
typedef int (*fetch_sink)(const char *data, size_t length, void *context);

/*
 * `max`: most bytes; `timeout_ms`: for all of it. 0; -ENOENT: 404 or 410; -EACCES: 401 or 403;
 * -EFBIG, -ETIMEDOUT; -EIO: all else; what the sink returned. The error names the address.
 */
int fetch(const char *url, uint64_t max, uint64_t timeout_ms, fetch_sink sink, void *context,
	  struct err *err);

#endif

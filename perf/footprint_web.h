/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who look at the page while the service's memory is measured: it is loaded once, with the
 * exposition and every series of the history, and then some clients follow its stream.
 */
#ifndef SLUICE_PERF_FOOTPRINT_WEB_H
#define SLUICE_PERF_FOOTPRINT_WEB_H

#include <stddef.h>

enum { FOOTPRINT_STREAMS = 4 };

struct footprint_web {
	int stream[FOOTPRINT_STREAMS];
	size_t received; /* of all streams */
};

/* `address` as the agent tells it, "127.0.0.1:PORT". Ends the program if anything is not served. */
void footprint_web_open(struct footprint_web *web, const char *address);
/* Takes what has come since. Ends the program if a stream has ended. */
void footprint_web_read(struct footprint_web *web);
void footprint_web_close(struct footprint_web *web);

#endif

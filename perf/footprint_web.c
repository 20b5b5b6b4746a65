/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/footprint_web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/parse.h"
#include "perf/queue_rig.h"

enum web_limits { WEB_CHUNK = 64 << 10, WEB_REQUEST_MAX = 256 };

/* A request on a connection of its own, which is sent. */
static int web_ask(const char *address, const char *path)
{
	const char *colon = strrchr(address, ':');
	uint64_t port = 0;

	rig_must(colon && parse_u64(colon + 1, 1, UINT16_MAX, &port) == 0,
		 "the page is not served: its address is '%s'", address);
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char request[WEB_REQUEST_MAX];
	int length =
	    snprintf(request, sizeof(request),
		     "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);

	rig_must(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
		     send(fd, request, (size_t)length, MSG_NOSIGNAL) == length,
		 "cannot ask %s for %s", address, path);
	return fd;
}

static void web_load(const char *address, const char *path)
{
	static char chunk[WEB_CHUNK];
	int fd = web_ask(address, path);
	ssize_t got = recv(fd, chunk, sizeof(chunk), 0);
	rig_must(got > 12 && memcmp(chunk, "HTTP/1.1 200", 12) == 0, "%s is not served", path);
	while (got > 0)
		got = recv(fd, chunk, sizeof(chunk), 0);
	(void)close(fd);
}

void footprint_web_open(struct footprint_web *web, const char *address)
{
	static const char *const series[] = {
	    "utilization_gpu_percent",
	    "utilization_memory_percent",
	    "memory_used_bytes",
	    "temperature_celsius",
	    "temperature_memory_celsius",
	    "power_mw",
	    "clock_sm_mhz",
	    "pcie_rx_bytes_per_second",
	};
	*web = (struct footprint_web){.received = 0};
	web_load(address, "/");
	web_load(address, "/metrics");
	web_load(address, "/api/v1/state");

	for (size_t i = 0; i < sizeof(series) / sizeof(series[0]); i++) {
		char path[WEB_REQUEST_MAX];
		(void)snprintf(path, sizeof(path), "/api/v1/history?series=%s", series[i]);
		web_load(address, path);
	}

	for (size_t i = 0; i < FOOTPRINT_STREAMS; i++)
		web->stream[i] = web_ask(address, "/api/v1/stream");
}

void footprint_web_read(struct footprint_web *web)
{
	static char chunk[WEB_CHUNK];
	for (size_t i = 0; i < FOOTPRINT_STREAMS; i++) {
		ssize_t got;
		while ((got = recv(web->stream[i], chunk, sizeof(chunk), MSG_DONTWAIT)) > 0)
			web->received += (size_t)got;
		rig_must(got < 0 && errno == EAGAIN, "stream %zu has ended", i);
	}
}

void footprint_web_close(struct footprint_web *web)
{
	for (size_t i = 0; i < FOOTPRINT_STREAMS; i++)
		(void)close(web->stream[i]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to listen, as people write it: an address and a port. Names are not looked up, because that
 * may take for ever; "localhost" alone is known. Pure.
 */
#ifndef SLUICE_BASE_ADDRESS_H
#define SLUICE_BASE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct err;

enum address_limits {
	ADDRESS_TEXT_MAX = 64, /* "[ffff:...:255.255.255.255]:65535" and NUL */
};

struct address {
	socklen_t length;
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	bool is_every; /* ":9400": every address, of either family */
};

/*
 * "127.0.0.1:9400", "[::1]:9400", "localhost:9400" (127.0.0.1), ":9400" ([::]:9400 and IPv4 with
 * it). The port cannot be left out; 0 is any that is free. -EINVAL with what was expected.
 */
int address_parse(const char *text, size_t length, struct address *out, struct err *err);
/* The same form, of what accept() or getsockname() gave; "?" for other families. Returns `out`. */
const char *address_to_string(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX]);
/* Whether only this machine can reach it. */
bool address_is_loopback(const struct address *address);

#endif

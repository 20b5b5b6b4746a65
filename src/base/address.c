/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"

static int address_error(const char *text, size_t length, const char *why, struct err *err)
{
	return err_set(err, -EINVAL,
		       "'%.*s' is no address to listen on: %s (expected such as 127.0.0.1:9400, "
		       "[::1]:9400 or :9400)",
		       length < 80 ? (int)length : 80, text, why);
}

static bool address_set_host(const char *host, bool is_v6, uint16_t port, struct address *out)
{
	if (is_v6) {
		out->length = sizeof(out->v6);
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = htons(port);
		return inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1;
	}

	out->length = sizeof(out->v4);
	out->v4.sin_family = AF_INET;
	out->v4.sin_port = htons(port);

	return inet_pton(AF_INET, host, &out->v4.sin_addr) == 1;
}

int address_parse(const char *text, size_t length, struct address *out, struct err *err)
{
	struct address address = {.length = 0};
	char host[INET6_ADDRSTRLEN];
	const char *colon = memrchr(text, ':', length);
	uint64_t port;

	if (memchr(text, '\0', length))
		return address_error(text, length, "it has a NUL in it", err);
	if (!colon)
		return address_error(text, length, "it has no port", err);

	const char *number = colon + 1;
	if (parse_u64_span(number, length - (size_t)(number - text), 0, UINT16_MAX, &port) < 0)
		return address_error(text, length, "its port is no number up to 65535", err);

	size_t host_length = (size_t)(colon - text);
	bool is_v6 = host_length >= 2 && text[0] == '[' && text[host_length - 1] == ']';

	if (is_v6) {
		text++;
		host_length -= 2;
	}

	if (host_length >= sizeof(host))
		return address_error(text, host_length, "it is too long", err);

	memcpy(host, text, host_length);
	host[host_length] = '\0';
	address.is_every = host_length == 0 && !is_v6;

	const char *meant = address.is_every		     ? "::"
			    : strcmp(host, "localhost") == 0 ? "127.0.0.1"
							     : host;
	if (!address_set_host(meant, is_v6 || address.is_every, (uint16_t)port, &address))
		return address_error(host, host_length,
				     is_v6 ? "it is no IPv6 address"
					   : "it is no IPv4 address, and names are not looked up",
				     err);

	*out = address;
	return 0;
}

const char *address_to_string(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX])
{
	char host[INET6_ADDRSTRLEN];

	(void)snprintf(out, ADDRESS_TEXT_MAX, "?");
	if (address->sa_family == AF_INET) {
		struct sockaddr_in v4;
		memcpy(&v4, address, sizeof(v4));

		if (inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host)))
			(void)snprintf(out, ADDRESS_TEXT_MAX, "%s:%u", host,
				       (unsigned)ntohs(v4.sin_port));
	} else if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 v6;
		memcpy(&v6, address, sizeof(v6));

		if (inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host)))
			(void)snprintf(out, ADDRESS_TEXT_MAX, "[%s]:%u", host,
				       (unsigned)ntohs(v6.sin6_port));
	}

	return out;
}

bool address_is_loopback(const struct address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

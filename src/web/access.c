/* SPDX-License-Identifier: Apache-2.0 */
#include "web/access.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "web/view.h"

static bool name_is(const char *name, size_t length, const char *other)
{
	return strlen(other) == length && strncasecmp(name, other, length) == 0;
}

static bool port_is_valid(const char *text, size_t length)
{
	if (length > 5)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
	}
	return true;
}

/* The name of a Host without its port and brackets; false: it is none. Borrowed from `host`. */
static bool access_host_parse(const char *host, size_t length, const char **out_name,
			      size_t *out_length)
{
	const char *end, *name = host;

	if (length > 0 && host[0] == '[') {
		end = memchr(host, ']', length);
		if (!end)
			return false;

		name = host + 1;
		*out_length = (size_t)(end - name);
		end++;
	} else {
		end = memchr(host, ':', length);
		if (!end)
			end = host + length;
		*out_length = (size_t)(end - name);
	}

	size_t rest = length - (size_t)(end - host);

	if (*out_length == 0 || *out_length >= VIEW_NAME_MAX)
		return false;
	if (rest > 0 && (end[0] != ':' || !port_is_valid(end + 1, rest - 1)))
		return false;

	*out_name = name;
	return true;
}

static bool name_is_address(const char *name, size_t length)
{
	char text[VIEW_NAME_MAX];
	unsigned char address[16];

	memcpy(text, name, length);
	text[length] = '\0';

	char *zone = strchr(text, '%'); /* fe80::1%eth0 */
	if (zone)
		*zone = '\0';

	return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

bool access_host_is_ours(const struct view *view, const char *host, size_t length)
{
	static const char *const loopback[] = {"localhost", "localhost.localdomain", "localhost6",
					       "ip6-localhost"};
	const char *name;
	size_t size;

	if (!access_host_parse(host, length, &name, &size))
		return false;
	if (size > 1 && name[size - 1] == '.')
		size--; /* "gpu7." is the same name */
	if (name_is_address(name, size))
		return true;

	for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++) {
		if (name_is(name, size, loopback[i]))
			return true;
	}

	if (!view)
		return false;
	if (name_is(name, size, view->node.host))
		return true;

	for (uint32_t i = 0; i < view->settings.host_count; i++) {
		if (strcmp(view->settings.host[i], "*") == 0 ||
		    name_is(name, size, view->settings.host[i]))
			return true;
	}

	return false;
}

bool access_token_is_right(const struct view *view, const char *authorization, size_t length)
{
	static const char scheme[] = "Bearer ";
	const struct view_settings *settings = &view->settings;

	if (!settings->has_token)
		return true;

	size_t size = strlen(settings->token);
	if (settings->token_broken || size == 0 || !authorization || length <= sizeof(scheme) - 1 ||
	    strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
		return false;

	const char *token = authorization + sizeof(scheme) - 1;

	length -= sizeof(scheme) - 1;
	while (length > 0 && token[0] == ' ') {
		token++;
		length--;
	}

	unsigned char difference = length != size;
	for (size_t i = 0; i < length; i++)
		difference |= (unsigned char)((unsigned char)token[i] ^
					      (unsigned char)settings->token[i % size]);

	return difference == 0;
}

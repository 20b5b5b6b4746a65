/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/debian.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void debian_init(struct debian *debian, package_sink sink, void *context)
{
	*debian = (struct debian){.sink = sink, .context = context};
}

/* A text that is too long leaves the field empty, and with it the package out. */
static bool debian_take(const struct debian *debian, const char *field, char *out, size_t size)
{
	size_t length = strlen(field);
	if (strncmp(debian->line, field, length) != 0)
		return false;

	const char *value = debian->line + length;
	value += strspn(value, " \t");

	size_t end = strcspn(value, " \t\r");

	*out = '\0';
	if (end < size && !debian->is_cut)
		(void)snprintf(out, size, "%.*s", (int)end, value);

	return true;
}

static int debian_end_paragraph(struct debian *debian)
{
	bool is_whole = debian->has_fields && package_is_valid(&debian->package);
	int rc = is_whole ? debian->sink(&debian->package, debian->context) : 0;
	debian->has_fields = false;
	debian->package = (struct package){.name = ""};
	return rc;
}

static int debian_line(struct debian *debian)
{
	struct package *package = &debian->package;
	const char *line = debian->line;

	debian->line[debian->length] = '\0';
	if (memchr(line, '\0', debian->length))
		return -EBADMSG;
	if (line[strspn(line, " \t\r")] == '\0' && !debian->is_cut)
		return debian_end_paragraph(debian);
	if (*line == ' ' || *line == '\t' || *line == '#') /* goes on with the field before */
		return debian->has_fields || *line == '#' ? 0 : -EBADMSG;

	if (!strchr(line, ':'))
		return -EBADMSG;

	debian->has_fields = true;
	if (!debian_take(debian, "Package:", package->name, sizeof(package->name)) &&
	    !debian_take(debian, "Version:", package->version, sizeof(package->version)))
		(void)debian_take(debian, "Architecture:", package->arch, sizeof(package->arch));

	return 0;
}

int debian_feed(struct debian *debian, const char *data, size_t length)
{
	const char *end = data + length;

	while (data < end) {
		const char *stop = memchr(data, '\n', (size_t)(end - data));
		size_t part = (size_t)((stop ? stop : end) - data);
		size_t room = sizeof(debian->line) - 1 - debian->length;
		size_t kept = part < room ? part : room;

		memcpy(debian->line + debian->length, data, kept);
		debian->length += kept;
		debian->is_cut = debian->is_cut || kept < part;

		if (!stop)
			return 0;

		int rc = debian_line(debian);
		if (rc != 0)
			return rc;

		debian->length = 0;
		debian->is_cut = false;
		data = stop + 1;
	}

	return 0;
}

int debian_end(struct debian *debian)
{
	int rc = debian->length > 0 ? debian_line(debian) : 0;
	debian->length = 0;
	return rc != 0 ? rc : debian_end_paragraph(debian);
}

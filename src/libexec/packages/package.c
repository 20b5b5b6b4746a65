/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/package.h"

#include <errno.h>
#include <string.h>

static bool package_text_is_valid(const char *text)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.+-_~:^%";
	return *text && text[strspn(text, allowed)] == '\0';
}

bool package_is_valid(const struct package *package)
{
	return package_text_is_valid(package->name) && package_text_is_valid(package->version) &&
	       package_text_is_valid(package->arch);
}

static bool package_copy(char *out, size_t size, const char *from, const char *to)
{
	size_t length = (size_t)(to - from);
	if (length >= size || memchr(from, '\0', length))
		return false;
	memcpy(out, from, length);
	out[length] = '\0';
	return true;
}

static const char *package_last(const char *from, const char *to, char wanted)
{
	const char *at = memrchr(from, wanted, (size_t)(to - from));
	return at;
}

/* NAME-VERSION-RELEASE.ARCH: the name may have dashes, the others none. */
static bool package_from_rpm(const char *from, const char *to, struct package *out)
{
	const char *dot = package_last(from, to, '.');
	const char *release = dot ? package_last(from, dot, '-') : NULL;
	const char *version = release ? package_last(from, release, '-') : NULL;
	return version && package_copy(out->name, sizeof(out->name), from, version) &&
	       package_copy(out->version, sizeof(out->version), version + 1, dot) &&
	       package_copy(out->arch, sizeof(out->arch), dot + 1, to) &&
	       strcmp(out->arch, "src") != 0 && strcmp(out->arch, "nosrc") != 0;
}

/* NAME_VERSION_ARCH; the colon of an epoch is written %3a, or left out with the epoch. */
static bool package_from_deb(const char *from, const char *to, struct package *out)
{
	const char *version = memchr(from, '_', (size_t)(to - from));
	const char *arch = package_last(from, to, '_');
	if (!version || arch == version ||
	    !package_copy(out->name, sizeof(out->name), from, version) ||
	    !package_copy(out->version, sizeof(out->version), version + 1, arch) ||
	    !package_copy(out->arch, sizeof(out->arch), arch + 1, to))
		return false;

	char *escape = strcasestr(out->version, "%3a");
	if (escape) {
		*escape = ':';
		memmove(escape + 1, escape + 3, strlen(escape + 3) + 1);
	}

	return true;
}

int package_from_file(const char *name, size_t length, struct package *out)
{
	struct package package = {.name = ""};
	const char *to = name + length - 4;
	bool ok = length > 4 && memcmp(to, ".rpm", 4) == 0 && package_from_rpm(name, to, &package);
	if (!ok && length > 4 && memcmp(to, ".deb", 4) == 0)
		ok = package_from_deb(name, to, &package);

	if (!ok || !package_is_valid(&package))
		return -EINVAL;

	*out = package;
	return 0;
}

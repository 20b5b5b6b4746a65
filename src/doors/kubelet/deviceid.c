/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/deviceid.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/parse.h"

/* What is left of the text. */
struct deviceid_text {
	const char *at;
	size_t left;
};

static bool deviceid_skip(struct deviceid_text *text, const char *word)
{
	size_t length = strlen(word);
	if (text->left < length || memcmp(text->at, word, length) != 0)
		return false;
	text->at += length;
	text->left -= length;
	return true;
}

static bool deviceid_number(struct deviceid_text *text, uint32_t *out)
{
	size_t digits = 0;
	uint64_t number;

	while (digits < text->left && isdigit((unsigned char)text->at[digits]))
		digits++;

	if (parse_u64_span(text->at, digits, 0, DEVICEID_NUMBER_MAX, &number) < 0)
		return false;

	text->at += digits;
	text->left -= digits;
	*out = (uint32_t)number;

	return true;
}

/* The UUID with its prefix, up to what no UUID has. */
static bool deviceid_uuid(struct deviceid_text *text, size_t prefix, struct deviceid *out)
{
	size_t length = prefix;
	while (length < text->left &&
	       (isalnum((unsigned char)text->at[length]) || text->at[length] == '-'))
		length++;

	if (length == prefix || length >= sizeof(out->uuid))
		return false;

	memcpy(out->uuid, text->at, length);
	out->uuid[length] = '\0';
	text->at += length;
	text->left -= length;

	return true;
}

static bool deviceid_read_uuid(struct deviceid_text *text, struct deviceid *out)
{
	static const char old[] = "MIG-GPU-";
	struct deviceid_text behind = *text;

	if (deviceid_skip(&behind, old)) {
		*text = (struct deviceid_text){behind.at - 4, behind.left + 4};
		out->kind = DEVICEID_PLACE;
		if (!deviceid_uuid(text, 4, out) || !deviceid_skip(text, "/") ||
		    !deviceid_number(text, &out->gi) || !deviceid_skip(text, "/") ||
		    !deviceid_number(text, &out->ci))
			return false;
	} else if (!deviceid_uuid(text, 4, out)) {
		return false;
	}

	return !deviceid_skip(text, "::") || deviceid_number(text, &out->slot);
}

static bool deviceid_read_minor(struct deviceid_text *text, struct deviceid *out)
{
	out->kind = DEVICEID_MINOR;
	if (!deviceid_number(text, &out->minor) ||
	    (deviceid_skip(text, "/gi") && !deviceid_number(text, &out->gi)))
		return false;
	return !deviceid_skip(text, "/vgpu") || deviceid_number(text, &out->slot);
}

int deviceid_parse(const char *text, size_t length, struct deviceid *out)
{
	struct deviceid_text left = {text, length};
	struct deviceid found = {.kind = DEVICEID_UUID,
				 .minor = DEVICEID_NONE,
				 .gi = DEVICEID_NONE,
				 .ci = DEVICEID_NONE,
				 .slot = DEVICEID_NONE};
	bool is_uuid = length > 4 && (memcmp(text, "GPU-", 4) == 0 || memcmp(text, "MIG-", 4) == 0);
	bool is_read = is_uuid
			   ? deviceid_read_uuid(&left, &found)
			   : deviceid_skip(&left, "nvidia") && deviceid_read_minor(&left, &found);
	if (!is_read || left.left > 0)
		return -EINVAL;

	*out = found;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/text.h"

static const char *const status_names[] = {
    [WIRE_OK] = "OK",
    [WIRE_CANCELLED] = "CANCELLED",
    [WIRE_UNKNOWN] = "UNKNOWN",
    [WIRE_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
    [WIRE_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
    [WIRE_NOT_FOUND] = "NOT_FOUND",
    [WIRE_ALREADY_EXISTS] = "ALREADY_EXISTS",
    [WIRE_PERMISSION_DENIED] = "PERMISSION_DENIED",
    [WIRE_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
    [WIRE_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
    [WIRE_ABORTED] = "ABORTED",
    [WIRE_OUT_OF_RANGE] = "OUT_OF_RANGE",
    [WIRE_UNIMPLEMENTED] = "UNIMPLEMENTED",
    [WIRE_INTERNAL] = "INTERNAL",
    [WIRE_UNAVAILABLE] = "UNAVAILABLE",
    [WIRE_DATA_LOSS] = "DATA_LOSS",
    [WIRE_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

/* What is not here is INTERNAL. */
static const struct {
	int code;
	enum wire_status status;
} status_of_errno[] = {
    {0, WIRE_OK},
    {EINVAL, WIRE_INVALID_ARGUMENT},
    {ERANGE, WIRE_INVALID_ARGUMENT},
    {ENAMETOOLONG, WIRE_INVALID_ARGUMENT},
    {EILSEQ, WIRE_INVALID_ARGUMENT},
    {ENOENT, WIRE_NOT_FOUND},
    {ESRCH, WIRE_NOT_FOUND},
    {ENODEV, WIRE_NOT_FOUND},
    {EEXIST, WIRE_ALREADY_EXISTS},
    {EPERM, WIRE_PERMISSION_DENIED},
    {EACCES, WIRE_PERMISSION_DENIED},
    {ENOMEM, WIRE_RESOURCE_EXHAUSTED},
    {EMSGSIZE, WIRE_RESOURCE_EXHAUSTED},
    {E2BIG, WIRE_RESOURCE_EXHAUSTED},
    {EMFILE, WIRE_RESOURCE_EXHAUSTED},
    {ENFILE, WIRE_RESOURCE_EXHAUSTED},
    {ENOBUFS, WIRE_RESOURCE_EXHAUSTED},
    {EAGAIN, WIRE_RESOURCE_EXHAUSTED},
    {EBUSY, WIRE_RESOURCE_EXHAUSTED},
    {ENOSPC, WIRE_ABORTED},
    {EDQUOT, WIRE_ABORTED},
    {EROFS, WIRE_ABORTED},
    {ENOSYS, WIRE_UNIMPLEMENTED},
    {EOPNOTSUPP, WIRE_UNIMPLEMENTED},
    {ECANCELED, WIRE_CANCELLED},
    {ETIMEDOUT, WIRE_DEADLINE_EXCEEDED},
    {ECONNREFUSED, WIRE_UNAVAILABLE},
    {ECONNRESET, WIRE_UNAVAILABLE},
    {ENOTCONN, WIRE_UNAVAILABLE},
    {EPIPE, WIRE_UNAVAILABLE},
    {ESHUTDOWN, WIRE_UNAVAILABLE},
};

static const char status_replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

const char *wire_status_to_string(enum wire_status status)
{
	return names_at(status_names, status, "UNKNOWN");
}

enum wire_status wire_status_from_errno(int code)
{
	for (size_t i = 0; i < array_length(status_of_errno); i++) {
		if (status_of_errno[i].code == -code)
			return status_of_errno[i].status;
	}
	return WIRE_INTERNAL;
}

static size_t status_escape(char *out, unsigned char byte)
{
	static const char digits[] = "0123456789ABCDEF";
	out[0] = '%';
	out[1] = digits[byte >> 4];
	out[2] = digits[byte & 15];
	return 3;
}

size_t wire_status_encode(const char *message, char out[WIRE_MESSAGE_ENCODED_MAX])
{
	size_t length = strlen(message), plain = 0, encoded = 0, size;

	for (size_t at = 0; at < length; at += size) {
		const char *character = message + at;
		size_t bytes;

		if (text_decode(character, length - at, &size) == TEXT_INVALID) {
			character = status_replacement;
			bytes = sizeof(status_replacement) - 1;
		} else {
			bytes = size;
		}

		if (plain + bytes > WIRE_MESSAGE_MAX - 1)
			break;

		plain += bytes;

		for (size_t i = 0; i < bytes; i++) {
			unsigned char c = (unsigned char)character[i];
			bool first = encoded == 0 && c == ' ';

			if (c >= ' ' && c <= '~' && c != '%' && !first)
				out[encoded++] = (char)c;
			else
				encoded += status_escape(out + encoded, c);
		}
	}

	if (encoded > 0 && out[encoded - 1] == ' ')
		encoded += status_escape(out + encoded - 1, ' ') - 1;
	out[encoded] = '\0';
	return encoded;
}

size_t wire_status_decode(const char *text, size_t length, char out[WIRE_MESSAGE_MAX])
{
	/* A byte more than fits, so that text_decode() sees whether the last character is cut. */
	char bytes[WIRE_MESSAGE_MAX + 4];
	size_t count = 0, used = 0, size;

	for (size_t at = 0; at < length && count < sizeof(bytes); at++) {
		uint64_t byte;
		if (text[at] == '%' && length - at > 2 &&
		    parse_hex_span(text + at + 1, 2, UINT8_MAX, &byte) == 0) {
			bytes[count++] = (char)byte;
			at += 2;
		} else {
			bytes[count++] = text[at];
		}
	}

	for (size_t at = 0; at < count; at += size) {
		uint32_t c = text_decode(bytes + at, count - at, &size);
		bool bad = c == TEXT_INVALID || c == 0;
		size_t wanted = bad ? sizeof(status_replacement) - 1 : size;
		if (used + wanted > WIRE_MESSAGE_MAX - 1)
			break;

		memcpy(out + used, bad ? status_replacement : bytes + at, wanted);
		used += wanted;
	}

	out[used] = '\0';
	return used;
}

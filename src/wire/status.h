/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statuses with which a gRPC call ends, and their text on the wire.
 * https://grpc.io/docs/guides/status-codes/ and
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
#ifndef SLUICE_WIRE_STATUS_H
#define SLUICE_WIRE_STATUS_H

#include <stddef.h>

enum wire_status {
	WIRE_OK = 0,
	WIRE_CANCELLED = 1,
	WIRE_UNKNOWN = 2,
	WIRE_INVALID_ARGUMENT = 3,
	WIRE_DEADLINE_EXCEEDED = 4,
	WIRE_NOT_FOUND = 5,
	WIRE_ALREADY_EXISTS = 6,
	WIRE_PERMISSION_DENIED = 7,
	WIRE_RESOURCE_EXHAUSTED = 8,
	WIRE_FAILED_PRECONDITION = 9,
	WIRE_ABORTED = 10,
	WIRE_OUT_OF_RANGE = 11,
	WIRE_UNIMPLEMENTED = 12,
	WIRE_INTERNAL = 13,
	WIRE_UNAVAILABLE = 14,
	WIRE_DATA_LOSS = 15,
	WIRE_UNAUTHENTICATED = 16,
};

enum wire_status_limits {
	WIRE_MESSAGE_MAX = 1024, /* bytes of a status message with its NUL, before encoding */
	WIRE_MESSAGE_ENCODED_MAX = 3 * WIRE_MESSAGE_MAX,
};

/* How a call ended, as its client sees it. */
struct wire_result {
	enum wire_status status;
	int code; /* 0: the server said so; -errno: this side ended it, and why */
	char message[WIRE_MESSAGE_MAX]; /* plain UTF-8; "" when there is none */
};

/* "NOT_FOUND"; "UNKNOWN" for what is no status. */
const char *wire_status_to_string(enum wire_status status);
/* The status for an -errno of ours, for handlers that have no better one; 0 is WIRE_OK. */
enum wire_status wire_status_from_errno(int code);

/* Percent-encodes as the protocol says: all but visible ASCII and blanks, and '%'. Also a blank at
 * either end, which makes a header field malformed (RFC 9113, 8.2.1; node.js drops the field).
 * Bytes that are no UTF-8 become U+FFFD. Cuts at a whole character. Returns the length. */
size_t wire_status_encode(const char *message, char out[WIRE_MESSAGE_ENCODED_MAX]);
/* The other way; what is no valid escape stays as it is. The result is valid UTF-8 without NUL, at
 * most WIRE_MESSAGE_MAX - 1 bytes, cut at a whole character. Returns its length. Pure. */
size_t wire_status_decode(const char *text, size_t length, char out[WIRE_MESSAGE_MAX]);

#endif

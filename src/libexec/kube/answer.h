/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of a request to the API server: plain data between the transport and those who ask,
 * and what a person is told of it. Knows nothing of curl.
 */
#ifndef SLUICE_LIBEXEC_KUBE_ANSWER_H
#define SLUICE_LIBEXEC_KUBE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum answer_limits {
	ANSWER_TEXT_MAX = 384,
	ANSWER_PROBLEM_MAX = 512,
};

enum answer_status {
	ANSWER_OK = 200,
	ANSWER_CREATED = 201,
	ANSWER_UNAUTHORIZED = 401,
	ANSWER_FORBIDDEN = 403,
	ANSWER_NOT_FOUND = 404,
	ANSWER_CONFLICT = 409,
	ANSWER_GONE = 410,
	ANSWER_INVALID = 422,
	ANSWER_TOO_MANY = 429,
	ANSWER_UNAVAILABLE = 503,
};

struct kube_answer {
	int code;		 /* 0: it was answered to the end; -errno: it was not */
	uint32_t status;	 /* of HTTP; 0: none came */
	uint64_t retry_after_ns; /* the server's wish; 0: it has none */
	int64_t date_s;		 /* the server's clock, since 1970; 0: not told */
	bool is_ours;		 /* it was never asked: what is wrong is on this node */
	bool token_changed;	 /* since the request was made */
	/* Why not: the transport's own words, or the message of the server's Status. */
	char text[ANSWER_TEXT_MAX];
};

/* It was answered with 200 or 201. */
bool answer_is_good(const struct kube_answer *answer);

/* "the API server ...: what to do". `what` is what was asked for ("to read our node"), `rule` what
 * RBAC has to allow ("get, list and watch of nodes"). Returns `out`. */
const char *answer_describe(const struct kube_answer *answer, const char *what, const char *rule,
			    char out[ANSWER_PROBLEM_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/answer.h"

#include <inttypes.h>
#include <stdio.h>

bool answer_is_good(const struct kube_answer *answer)
{
	return answer->code == 0 &&
	       (answer->status == ANSWER_OK || answer->status == ANSWER_CREATED);
}

const char *answer_describe(const struct kube_answer *answer, const char *what, const char *rule,
			    char out[ANSWER_PROBLEM_MAX])
{
	const char *colon = *answer->text ? ": " : "";

	if (answer->is_ours)
		(void)snprintf(out, ANSWER_PROBLEM_MAX, "%s", answer->text);
	else if (answer->code < 0)
		(void)snprintf(out, ANSWER_PROBLEM_MAX, "the API server cannot be asked %s: %s",
			       what, *answer->text ? answer->text : "the connection broke");
	else if (answer->status == ANSWER_UNAUTHORIZED)
		(void)snprintf(out, ANSWER_PROBLEM_MAX,
			       "the API server does not know who asks %s (401): is the token or "
			       "certificate expired, or of another cluster?%s%s",
			       what, *answer->text ? " " : "", answer->text);
	else if (answer->status == ANSWER_FORBIDDEN)
		(void)snprintf(out, ANSWER_PROBLEM_MAX,
			       "the API server does not permit %s (403): RBAC has to allow %s (see "
			       "packaging/kubernetes/rbac.yaml)%s%s",
			       what, rule, colon, answer->text);
	else if (answer->status == ANSWER_TOO_MANY)
		(void)snprintf(out, ANSWER_PROBLEM_MAX,
			       "the API server is asked too much (429), it is asked again later");
	else
		(void)snprintf(out, ANSWER_PROBLEM_MAX,
			       "the API server answers %" PRIu32 " when asked %s%s%s",
			       answer->status, what, colon, answer->text);

	return out;
}

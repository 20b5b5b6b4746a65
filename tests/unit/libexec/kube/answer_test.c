/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/answer.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

static const char *says(const struct kube_answer *answer)
{
	static char text[ANSWER_PROBLEM_MAX];
	return answer_describe(answer, "for our node", "get of nodes", text);
}

static void test_what_is_good(void **state)
{
	assert_true(answer_is_good(&(struct kube_answer){.status = 200}));
	assert_true(answer_is_good(&(struct kube_answer){.status = 201}));
	assert_false(answer_is_good(&(struct kube_answer){.status = 200, .code = -EIO}));
	assert_false(answer_is_good(&(struct kube_answer){.status = 302}));
	assert_false(answer_is_good(&(struct kube_answer){.status = 0}));
}

static void test_what_is_told(void **state)
{
	const struct kube_answer ours = {
	    .code = -ENOENT, .is_ours = true, .text = "'/token': none"};
	assert_string_equal(says(&ours), "'/token': none");
	const struct kube_answer broken = {.code = -EIO, .text = "https://a: refused"};
	assert_string_equal(says(&broken),
			    "the API server cannot be asked for our node: https://a: refused");
	const struct kube_answer silent = {.code = -EIO};
	assert_non_null(strstr(says(&silent), "the connection broke"));
	const struct kube_answer unknown = {.status = 401};
	assert_non_null(strstr(says(&unknown), "expired"));
	const struct kube_answer forbidden = {.status = 403, .text = "no"};
	assert_non_null(strstr(says(&forbidden), "RBAC has to allow get of nodes"));
	assert_non_null(strstr(says(&forbidden), ": no"));
	const struct kube_answer busy = {.status = 429};
	assert_non_null(strstr(says(&busy), "(429)"));
	const struct kube_answer other = {.status = 500, .text = "etcd"};
	assert_string_equal(says(&other),
			    "the API server answers 500 when asked for our node: etcd");
	struct kube_answer longest = {.status = 403};
	memset(longest.text, 'x', sizeof(longest.text) - 1);
	assert_non_null(strstr(says(&longest), "rbac.yaml): xxx"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_good),
	    cmocka_unit_test(test_what_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "web/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"
#include "web/view.h"

static bool is_ours(const struct view *view, const char *host)
{
	return access_host_is_ours(view, host, strlen(host));
}

static void test_host(void **state)
{
	struct view *view = calloc(1, sizeof(*view));
	static const char *const always[] = {
	    "localhost",  "localhost:9400", "LocalHost:9400", "127.0.0.1",	"127.0.0.1:9400",
	    "[::1]:9400", "[::1]",	    "10.1.2.3:80",    "[fe80::1%eth0]", "localhost.:9400"};
	static const char *const never[] = {"",		  ":9400",	   "evil.example",
					    "[::1",	  "[::1]x",	   "localhost:94000x",
					    "localhost:", "[]:80",	   "127.0.0.1.evil.example",
					    "gpu7",	  "1.2.3.4.5",	   "localhost:123456",
					    "[gpu7]",	  "user@localhost"};
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
		assert_true(is_ours(NULL, always[i]));
		assert_true(is_ours(view, always[i]));
	}
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		if (strcmp(never[i], "localhost:") == 0)
			continue; /* an empty port is one (RFC 3986) */
		assert_false(is_ours(NULL, never[i]));
		assert_false(is_ours(view, never[i]));
	}
	assert_true(is_ours(view, "localhost:"));
	(void)snprintf(view->node.host, sizeof(view->node.host), "gpu7");
	assert_true(is_ours(view, "GPU7:9400"));
	assert_false(is_ours(view, "gpu77"));
	view->settings.host_count = 1;
	(void)snprintf(view->settings.host[0], sizeof(view->settings.host[0]), "gpus.example");
	assert_true(is_ours(view, "gpus.example"));
	assert_false(is_ours(view, "x.gpus.example"));
	(void)snprintf(view->settings.host[0], sizeof(view->settings.host[0]), "*");
	assert_true(is_ours(view, "anything.example:1"));
	assert_false(is_ours(view, ""));
	free(view);
}

/* Longer than any name: it must not be copied anywhere. */
static void test_long_host(void **state)
{
	char host[4096];
	memset(host, 'a', sizeof(host));
	assert_false(access_host_is_ours(NULL, host, sizeof(host)));
	memset(host, '1', sizeof(host));
	assert_false(access_host_is_ours(NULL, host, sizeof(host)));
}

static bool is_right(const struct view *view, const char *text)
{
	return access_token_is_right(view, text, text ? strlen(text) : 0);
}

static void test_token(void **state)
{
	struct view *view = calloc(1, sizeof(*view));
	assert_true(is_right(view, NULL));
	assert_true(is_right(view, "Bearer whatever"));
	view->settings.has_token = true;
	assert_false(is_right(view, NULL));
	assert_false(is_right(view, "Bearer ")); /* an empty token is nobody's */
	(void)snprintf(view->settings.token, sizeof(view->settings.token), "secret");
	assert_true(is_right(view, "Bearer secret"));
	assert_true(is_right(view, "bearer  secret"));
	static const char *const wrong[] = {"",
					    "Bearer",
					    "Bearer secre",
					    "Bearer secrets",
					    "Bearer Secret",
					    "Basic secret",
					    "secret",
					    "Bearersecret",
					    "Bearer secret ",
					    "Bearer secretsecret"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(is_right(view, wrong[i]));
	view->settings.token_broken = true;
	assert_false(is_right(view, "Bearer secret"));
	free(view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_host),
	    cmocka_unit_test(test_long_host),
	    cmocka_unit_test(test_token),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/kubeconfig.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define RIG_HEAD                                                                                   \
	"current-context: here\ncontexts:\n- name: here\n  context: {cluster: c, user: u}\n"
#define RIG_USER    "users:\n- name: u\n  user: "
#define RIG_CLUSTER "clusters:\n- name: c\n  cluster: "

static int parse(const char *text, struct kubeconfig **out, struct err *err)
{
	return kubeconfig_parse(text, strlen(text), "file", out, err);
}

static const char rig_whole[] =
    RIG_HEAD RIG_CLUSTER "{server: 'https://10.0.0.1:6443//', certificate-authority: ca.crt,\n"
			 "    certificate-authority-data: aGVs\n      bG8=}\n" RIG_USER
			 "{token: abc, tokenFile: /t, client-certificate: c.crt, client-key: c.key,"
			 " client-certificate-data: YQ==, client-key-data: YWI=}\n";

static void test_everything(void **state)
{
	struct kubeconfig *config = NULL;
	struct err err = {0};
	assert_int_equal(parse(rig_whole, &config, &err), 0);
	assert_string_equal(config->server, "https://10.0.0.1:6443");
	assert_string_equal(config->ca_file, "ca.crt");
	assert_string_equal(config->ca.data, "hello");
	assert_int_equal(config->ca.length, 5);
	assert_string_equal(config->token, "abc");
	assert_string_equal(config->token_file, "/t");
	assert_string_equal(config->certificate_file, "c.crt");
	assert_string_equal(config->key_file, "c.key");
	assert_string_equal(config->certificate.data, "a");
	assert_string_equal(config->key.data, "ab");
	assert_false(config->insecure);
	assert_null(kubeconfig_free(config));
}

static void test_the_least(void **state)
{
	struct kubeconfig *config = NULL;
	struct err err = {0};
	assert_int_equal(
	    parse("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n" RIG_CLUSTER
		  "{server: http://localhost:8001, "
		  "insecure-skip-tls-verify: true, proxy-url: ''}\n",
		  &config, &err),
	    0);
	assert_string_equal(config->server, "http://localhost:8001");
	assert_true(config->insecure);
	assert_null(config->token);
	config = kubeconfig_free(config);
}

static void test_what_is_refused(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *says;
	} rows[] = {
	    {"", -EINVAL, "no kubeconfig"},
	    {"a: [", -EINVAL, "file:"},
	    {"a: b", -EINVAL, "no current-context"},
	    {"current-context: x", -EINVAL, "no entry 'x' in contexts"},
	    {"current-context: x\ncontexts: [{name: x}]", -EINVAL, "no context"},
	    {"current-context: x\ncontexts: [{name: x, context: {user: u}}]", -EINVAL,
	     "names no cluster"},
	    {RIG_HEAD, -EINVAL, "no entry 'c' in clusters"},
	    {RIG_HEAD RIG_CLUSTER "{}", -EINVAL, "no server"},
	    {RIG_HEAD RIG_CLUSTER "{server: ftp://a}\n" RIG_USER "{}", -EINVAL, "no https://"},
	    {RIG_HEAD RIG_CLUSTER "{server: 'https://:443'}\n" RIG_USER "{}", -EINVAL, "no host"},
	    {RIG_HEAD RIG_CLUSTER "{server: 'https://a@b'}\n" RIG_USER "{}", -EINVAL,
	     "no plain address"},
	    {RIG_HEAD RIG_CLUSTER "{server: 'https://a/?b'}\n" RIG_USER "{}", -EINVAL,
	     "no plain address"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a}\n", -EINVAL, "no entry 'u' in users"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a, proxy-url: http://p}\n", -ENOTSUP,
	     "'proxy-url'"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a, tls-server-name: b}\n", -ENOTSUP,
	     "'tls-server-name'"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a, certificate-authority-data: '!!'}\n",
	     -EINVAL, "no base64"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a, certificate-authority-data: YQ=b}\n",
	     -EINVAL, "no base64"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a, certificate-authority-data: YQ}\n", -EINVAL,
	     "no base64"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a, certificate-authority-data: []}\n", -EINVAL,
	     "base64 is wanted"},
	    {RIG_HEAD RIG_CLUSTER "{server: [a]}\n", -EINVAL, "a text is wanted"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a, insecure-skip-tls-verify: maybe}\n", -EINVAL,
	     "true or false"},
	    {RIG_HEAD RIG_CLUSTER
	     "{server: https://a, insecure-skip-tls-verify: true, certificate-authority: b}\n",
	     -EINVAL, "contradict"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a}\n" RIG_USER "{exec: {command: aws}}",
	     -ENOTSUP, "'exec'"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a}\n" RIG_USER "{auth-provider: {name: gcp}}",
	     -ENOTSUP, "'auth-provider'"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a}\n" RIG_USER "{password: x}", -ENOTSUP,
	     "'password'"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a}\n" RIG_USER "{as: admin}", -ENOTSUP, "'as'"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a}\n" RIG_USER "{client-key: k}", -EINVAL,
	     "without its certificate"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a}\n" RIG_USER
				  "{client-certificate-data: YQ==}",
	     -EINVAL, "without its key"},
	    {RIG_HEAD RIG_CLUSTER "{server: https://a}\n" RIG_USER "{token: \"a\\nb\"}", -EINVAL,
	     "the token holds a byte"},
	    {RIG_HEAD RIG_CLUSTER "{server: http://a}\n" RIG_USER "{token: abc}", -EINVAL,
	     "sent in clear"},
	    {RIG_HEAD RIG_CLUSTER "{server: http://a}\n" RIG_USER "{tokenFile: abc}", -EINVAL,
	     "sent in clear"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct kubeconfig *config = NULL;
		struct err err = {0};
		int result = parse(rows[i].text, &config, &err);
		if (result != rows[i].code || !strstr(err.text, rows[i].says))
			fail_msg("%s: %d %s", rows[i].text, result, err.text);
		assert_null(config);
		assert_non_null(strstr(err.text, "file"));
	}
}

static void test_tokens(void **state)
{
	struct err err = {0};
	assert_int_equal(kubeconfig_check_token("abc.DEF-_~+/=", &err), 0);
	assert_int_equal(kubeconfig_check_token("", &err), -EINVAL);
	assert_int_equal(kubeconfig_check_token("a b", &err), -EINVAL);
	assert_int_equal(kubeconfig_check_token("a\xc3\xbc", &err), -EINVAL);
}

static int rig_scenario(void *context)
{
	struct kubeconfig *config = NULL;
	struct err err = {0};
	int result = parse(rig_whole, &config, &err);
	(void)kubeconfig_free(config);
	return result;
}

static void test_no_memory(void **state)
{
	assert_true(failmalloc_each(rig_scenario, NULL) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_everything),	    cmocka_unit_test(test_the_least),
	    cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_tokens),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

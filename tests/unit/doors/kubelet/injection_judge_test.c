/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "doors/kubelet/injection.h"
#include "tests/unit/unit.h"

static const char kind[] = "k8s.device-plugin.nvidia.com/gpu";

static void expect(const char *name, const char *version, const char *config, const char *hook,
		   bool has_kind, enum injection_way way, const char *says)
{
	struct injection_runtime runtime = {.knows_config = false};
	char why[INJECTION_TEXT_MAX] = "";
	(void)snprintf(runtime.name, sizeof(runtime.name), "%s", name);
	(void)snprintf(runtime.version, sizeof(runtime.version), "%s", version);
	if (config)
		assert_int_equal(injection_config_parse(config, strlen(config), &runtime, NULL), 0);
	assert_string_equal(
	    injection_way_to_string(injection_judge(&runtime, hook, kind, has_kind, why)),
	    injection_way_to_string(way));
	if (!strstr(why, says))
		fail_msg("'%s' does not say '%s'", why, says);
}

#define RUNC "{\"containerd\":{\"defaultRuntimeName\":\"runc\",\"runtimes\":{\"runc\":{}}}"

static void test_containerd(void **state)
{
	(void)state;
	expect("", "", NULL, "", true, INJECTION_UNKNOWN, "no container runtime answers");
	expect("containerd", "1.6.20~ds1", RUNC "}", "", true, INJECTION_NONE,
	       "containerd 1.6.20~ds1 cannot do CDI");
	/* A hook's file is nothing to containerd. */
	expect("containerd", "1.6.20", RUNC "}", "/x/nvidia.json", true, INJECTION_NONE,
	       "update containerd to 1.7.2");
	expect("containerd", "v1.7.2", RUNC ",\"enableCDI\":false}", "", true, INJECTION_NONE,
	       "set enable_cdi = true");
	expect("containerd", "v1.7.2", RUNC "}", "", true, INJECTION_NONE, "switched off");
	expect("containerd", "v1.7.2", RUNC ",\"enableCDI\":true}", "", true, INJECTION_CDI,
	       "containerd v1.7.2 does CDI");
	expect("containerd", "v1.7.2", RUNC ",\"enableCDI\":true}", "", false, INJECTION_NONE,
	       "no CDI specification provides k8s.device-plugin.nvidia.com/gpu");
	expect("containerd", "v2.1.0", RUNC "}", "", true, INJECTION_CDI, "does CDI");
	expect("containerd", "v2.1.0", RUNC ",\"enableCDI\":false}", "", true, INJECTION_NONE,
	       "switched off");
	expect("containerd", "v2.1.0", NULL, "", true, INJECTION_CDI, "does CDI");
}

static void test_nvidia(void **state)
{
	(void)state;
	expect("containerd", "1.6.20", "{\"containerd\":{\"defaultRuntimeName\":\"nvidia\"}}", "",
	       false, INJECTION_RUNTIME, "the default runtime of containerd 1.6.20 is NVIDIA's");
	expect("containerd", "1.6.20",
	       "{\"containerd\":{\"defaultRuntimeName\":\"a\",\"runtimes\":{\"a\":{\"options\":"
	       "{\"BinaryName\":\"/opt/bin/nvidia-container-runtime\"}}}}}",
	       "", false, INJECTION_RUNTIME, "NVIDIA's");
	/* One that is there and not the default is used by nobody who does not ask for it. */
	expect("containerd", "v1.7.2",
	       "{\"containerd\":{\"defaultRuntimeName\":\"runc\",\"runtimes\":{\"nvidia\":{}}},"
	       "\"enableCDI\":true}",
	       "", true, INJECTION_CDI, "does CDI");
}

static void test_crio(void **state)
{
	(void)state;
	static const char crun[] = "{\"crio\":{\"DefaultRuntime\":\"crun\",\"Runtimes\":{\"crun\":{"
				   "\"RuntimePath\":\"/usr/bin/crun\"}}}}";
	expect("cri-o", "1.28.1", crun, "", true, INJECTION_CDI, "cri-o 1.28.1 does CDI");
	expect("cri-o", "1.28.1", crun, "/usr/share/x/oci-nvidia-hook.json", true,
	       INJECTION_RUNTIME, "hook '/usr/share/x/oci-nvidia-hook.json'");
	expect("cri-o", "1.22.0", crun, "", true, INJECTION_NONE, "update it to 1.23");
	expect("cri-o", "1.28.1",
	       "{\"crio\":{\"DefaultRuntime\":\"x\",\"Runtimes\":{\"x\":{\"RuntimePath\":"
	       "\"/usr/bin/nvidia-container-runtime.cdi\"}}}}",
	       "", false, INJECTION_RUNTIME, "NVIDIA's");
	expect("docker", "27.0.1", NULL, "", true, INJECTION_UNKNOWN, "'docker' 27.0.1");
}

static void test_config(void **state)
{
	(void)state;
	struct injection_runtime runtime = {.is_nvidia = true};
	struct err err = {0};
	static const char broken[] = "{\"containerd\":";
	assert_int_equal(injection_config_parse(broken, strlen(broken), &runtime, &err), -EINVAL);
	assert_true(runtime.is_nvidia);
	assert_false(runtime.knows_config);
	static const char directories[] =
	    "{\"cdiSpecDirs\":[\"/a\",\"b\",\"/c\"],\"containerd\":null}";
	assert_int_equal(injection_config_parse(directories, strlen(directories), &runtime, &err),
			 0);
	assert_int_equal(runtime.directory_count, 2);
	assert_string_equal(runtime.directory[1], "/c");
	assert_false(runtime.is_nvidia);
	assert_false(runtime.cdi_is_told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_containerd),
	    cmocka_unit_test(test_nvidia),
	    cmocka_unit_test(test_crio),
	    cmocka_unit_test(test_config),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

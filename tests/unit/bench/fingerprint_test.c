/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fingerprint.h"

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/jsonw.h"
#include "unit/unit.h"

static void what_is_secret_is_not_shown(void **state)
{
	static const char *const shown[] = {"NCCL_DEBUG=INFO", "OMP_NUM_THREADS=2",
					    "LD_LIBRARY_PATH=/x", "CUDA_VISIBLE_DEVICES="};
	static const char *const hidden[] = {
	    "AWS_SECRET_ACCESS_KEY=x", "NCCL_TOKEN=x",	      "HOME=/root", "NVIDIA_API_KEY=x",
	    "SLUICE_PASSWORD=x",       "LD_LIBRARY_PATHS=/x", "NCCL_DEBUG", "CUDA_CREDENTIALS=x",
	    "OMPI_MCA_oob_password=x"};
	for (size_t i = 0; i < array_length(shown); i++)
		assert_true(fingerprint_shows(shown[i]));
	for (size_t i = 0; i < array_length(hidden); i++)
		assert_false(fingerprint_shows(hidden[i]));
}

static void a_machine(void **state)
{
	char long_value[400] = "NCCL_LONG=";
	memset(long_value + 10, 'x', sizeof(long_value) - 11);
	char debug[] = "NCCL_DEBUG=INFO", token[] = "NCCL_TOKEN=hunter2",
	     quoted[] = "UCX_TLS=\"a\"";
	char *environment[] = {debug, token, quoted, long_value, NULL};
	struct buf out _cleanup_buf_;
	struct jsonw json;
	buf_init(&out, 1 << 16);
	assert_int_equal(mkdir(unit_path(unit_top, "proc"), 0755), 0);
	unit_write(unit_path(unit_top, "proc/cpuinfo"),
		   "processor\t: 0\nmodel name\t: A Processor\nmicrocode\t: 0x1\n"
		   "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
	unit_write(unit_path(unit_top, "proc/cmdline"), "secret=1 mitigations=off quiet\n");
	jsonw_init(&json, &out);
	jsonw_object(&json, NULL);
	fingerprint_write(&json, unit_top, environment);
	jsonw_end_object(&json);
	assert_int_equal(json.rc, 0);
	const char *text = buf_text(&out);
	assert_non_null(strstr(text, "\"cpu\":\"A Processor\""));
	assert_non_null(strstr(text, "\"microcode\":\"0x1\""));
	assert_non_null(strstr(text, "\"cpu_implementer\":\"0x41\"")); /* as on arm64 */
	assert_non_null(strstr(text, "\"cpu_part\":\"0xd4f\""));
	assert_non_null(strstr(text, "\"mitigations\":\"off\""));
	assert_non_null(strstr(text, "\"NCCL_DEBUG\":\"INFO\""));
	assert_non_null(strstr(text, "\"UCX_TLS\":\"\\\"a\\\"\""));
	assert_non_null(strstr(text, "\"NCCL_LONG\":\"389 bytes, "));
	assert_null(strstr(text, "hunter2"));
	assert_null(strstr(text, "secret"));
	assert_null(strstr(text, "governor")); /* there is none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_secret_is_not_shown),
	    cmocka_unit_test_setup_teardown(a_machine, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

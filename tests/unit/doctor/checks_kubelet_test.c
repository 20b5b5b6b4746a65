/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/doctor/ward.h"

#define PLUGINS	 "/var/lib/kubelet/device-plugins"
#define FEATURES "/etc/kubernetes/node-feature-discovery/features.d"

/* A socket at a path; a descriptor that is to be closed. */
static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	ward_file(path, "");
	ward_remove(path);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
		       unit_path(unit_top, path + 1));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void sockets(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("kubelet.sockets", DOCTOR_SKIP);
	ward_options.purpose = DOCTOR_FOR_AGENT;
	(void)ward_expect("kubelet.sockets", DOCTOR_WARN);
	ward_options.purpose = 0;
	ward_directory("/var/lib/k0s/kubelet");
	assert_non_null(strstr(ward_expect("kubelet.sockets", DOCTOR_WARN)->found, "k0s"));
	ward_file(PLUGINS "/kubelet.sock", "");
	(void)ward_expect("kubelet.sockets", DOCTOR_INFO); /* nobody runs: left over */
	ward_file("/proc/12/comm", "kubelet\n");
	const struct doctor_finding *finding = ward_expect("kubelet.sockets", DOCTOR_FAIL);
	assert_string_equal(finding->found, "something that is no socket");
	ward_remove(PLUGINS "/kubelet.sock");
	(void)close(listen_at(PLUGINS "/kubelet.sock"));
	assert_non_null(
	    strstr(ward_expect("kubelet.sockets", DOCTOR_WARN)->object, "pod-resources"));
	(void)close(listen_at("/var/lib/kubelet/pod-resources/kubelet.sock"));
	(void)ward_expect("kubelet.sockets", DOCTOR_INFO); /* no plugins_registry */
	ward_directory("/var/lib/kubelet/plugins_registry");
	(void)ward_expect("kubelet.sockets", DOCTOR_OK);
}

static void an_agent(void)
{
	ward_file("/proc/31/comm", "sluice\n");
	ward_file("/proc/31/cmdline", "");
	FILE *file = fopen(unit_path(unit_top, "proc/31/cmdline"), "we");
	assert_non_null(file);
	assert_int_equal(fwrite("sluice\0agent", 1, 13, file), 13);
	assert_int_equal(fclose(file), 0);
}

static void other_plugins(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("kubelet.other", DOCTOR_SKIP);
	ward_directory(PLUGINS);
	(void)ward_expect("kubelet.other", DOCTOR_OK);
	int other = listen_at(PLUGINS "/intel-gpu.sock");
	(void)ward_expect("kubelet.other", DOCTOR_OK);
	int fd = listen_at(PLUGINS "/nvidia-gpu.sock");
	assert_non_null(
	    strstr(ward_expect("kubelet.other", DOCTOR_WARN)->found, "nvidia-gpu.sock"));
	/* the kubelet's directory may be a link, of that machine */
	assert_int_equal(
	    rename(unit_path(unit_top, "var/lib/kubelet"), unit_path(unit_top, "var/elsewhere")),
	    0);
	ward_link("/var/lib/kubelet", "/var/elsewhere");
	(void)ward_expect("kubelet.other", DOCTOR_WARN);
	an_agent();
	(void)ward_expect("kubelet.other", DOCTOR_OK);
	ward_remove("/proc/31/cmdline");
	(void)close(fd); /* left over: nobody answers */
	(void)ward_expect("kubelet.other", DOCTOR_OK);
	ward_file("/proc/30/comm", "nvidia-device-p\n");
	(void)ward_expect("kubelet.other", DOCTOR_WARN);
	an_agent();
	assert_non_null(strstr(ward_expect("kubelet.other", DOCTOR_WARN)->found, "beside sluice"));
	(void)close(other);
}

/* What it answers is tested in tests/e2e/test_doctor.py. */
static void allocatable(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("kubelet.allocatable", DOCTOR_SKIP);
	int fd = listen_at("/var/lib/kubelet/pod-resources/kubelet.sock");
	(void)ward_expect("kubelet.allocatable", DOCTOR_UNKNOWN); /* it is silent */
	(void)close(fd);
	(void)ward_expect("kubelet.allocatable", DOCTOR_UNKNOWN);
}

static void labels(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("labels.clash", DOCTOR_SKIP);
	ward_file(FEATURES "/gfd", "# +expiry-time=2026-01-01T00:00:00Z\n"
				   "nvidia.com/gpu.count=8\nnvidia.com/gpu.present\n");
	ward_file(FEATURES "/site", "site/rack=1\n\n#nvidia.com/gpu.count=8\n");
	(void)ward_expect("labels.clash", DOCTOR_OK);
	ward_file(FEATURES "/aaa", "site/rack=2\n");
	(void)ward_expect("labels.clash", DOCTOR_OK); /* not ours */
	ward_file(FEATURES "/twice", "nvidia.com/x=1\nnvidia.com/x=2\n");
	(void)ward_expect("labels.clash", DOCTOR_OK); /* one writer */
	ward_file(FEATURES "/site", "nvidia.com/gpu.present = false\nnvidia.com/gpu.count=8\n");
	const struct doctor_finding *finding = ward_expect("labels.clash", DOCTOR_WARN);
	assert_string_equal(finding->object, "label nvidia.com/gpu.count");
	assert_non_null(strstr(finding->found, "gfd"));
	assert_non_null(strstr(finding->found, "and others"));
	assert_non_null(strstr(finding->do_, "rm " FEATURES "/site"));
	ward_remove(FEATURES "/site");
	ward_file(FEATURES "/.site", "nvidia.com/gpu.count=8\n");
	(void)ward_expect("labels.clash", DOCTOR_OK);
}

static void two_modes(void **state)
{
	(void)state;
	ward_healthy();
	ward_options.labels_mode = "direct";
	ward_file(FEATURES "/gfd", "# nothing\n");
	ward_file(FEATURES "/site", "nvidia.com/gpu.count=8\n");
	(void)ward_expect("labels.clash", DOCTOR_OK);
	ward_file(FEATURES "/gfd", "nvidia.com/gpu.present=true\n");
	assert_non_null(strstr(ward_expect("labels.clash", DOCTOR_WARN)->found, "mode: direct"));
	ward_options.labels_mode = NULL;
	(void)ward_expect("labels.clash", DOCTOR_OK);
}

static void two_writers(void **state)
{
	(void)state;
	ward_healthy();
	ward_file("/proc/44/comm", "gpu-feature-dis\n");
	(void)ward_expect("labels.clash", DOCTOR_SKIP);
	an_agent();
	(void)ward_expect("labels.clash", DOCTOR_WARN);
}

static void hostile_features(void **state)
{
	(void)state;
	ward_healthy();
	ward_file(FEATURES "/gfd", "nvidia.com/gpu.count=8\n");
	/* larger than what is read of a feature file */
	ward_large(FEATURES "/large", '\n', 10 << 20);
	ward_fifo(FEATURES "/fifo");
	ward_link(FEATURES "/loop", "loop");
	ward_file(FEATURES "/junk", "\377\376=\n=\n====\nnvidia.com/\n");
	ward_directory(FEATURES "/directory");
	(void)ward_expect("labels.clash", DOCTOR_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(sockets),		 ward_test(allocatable), ward_test(other_plugins),
	    ward_test(labels),		 ward_test(two_modes),	 ward_test(two_writers),
	    ward_test(hostile_features),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

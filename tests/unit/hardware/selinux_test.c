/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/selinux.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

#define BOOLEAN(name)  "/sys/fs/selinux/booleans/" name
#define MODULE(policy) "/var/lib/selinux/" policy "/active/modules/400/sluice-gpu"

/* The files of a machine: name, text, and so on to NULL. A text "EACCES" cannot be read. */
struct machine {
	const char *files[16];
};

static const char *text_of(const void *context, const char *path)
{
	const struct machine *machine = context;
	for (size_t i = 0; machine->files[i]; i += 2)
		if (strcmp(machine->files[i], path) == 0)
			return machine->files[i + 1];

	return NULL;
}

static int find(const void *context, const char *path)
{
	const char *text = text_of(context, path);
	return !text ? -ENOENT : strcmp(text, "EACCES") == 0 ? -EACCES : 0;
}

static int read_text(const void *context, const char *path, struct buf *out)
{
	int rc = find(context, path);
	return rc < 0 ? rc : buf_add_text(out, text_of(context, path));
}

static int judge(const struct machine *machine, enum selinux_state *out, const char **out_path)
{
	const struct selinux_files files = {read_text, find, machine};
	return selinux_judge(&files, out, out_path);
}

static void expect(enum selinux_state wanted, struct machine machine)
{
	enum selinux_state state = (enum selinux_state) - 1;
	const char *path = NULL;
	assert_int_equal(judge(&machine, &state, &path), 0);
	assert_int_equal(state, wanted);
	assert_null(path);
}

static void expect_failure(int wanted, const char *where, struct machine machine)
{
	enum selinux_state state;
	const char *path = NULL;
	assert_int_equal(judge(&machine, &state, &path), wanted);
	assert_string_equal(path, where);
}

static void test_modes(void **state)
{
	(void)state;
	expect(SELINUX_STATE_ABSENT, (struct machine){{NULL}});
	expect(SELINUX_STATE_PERMISSIVE, (struct machine){{SELINUX_ENFORCE, "0"}});
	expect(SELINUX_STATE_NO_POLICY, (struct machine){{SELINUX_ENFORCE, "1"}});
	expect_failure(-EINVAL, SELINUX_ENFORCE, (struct machine){{SELINUX_ENFORCE, "junk"}});
	expect_failure(-EINVAL, SELINUX_ENFORCE, (struct machine){{SELINUX_ENFORCE, ""}});
	expect_failure(-EINVAL, SELINUX_ENFORCE, (struct machine){{SELINUX_ENFORCE, "10"}});
	expect_failure(-EACCES, SELINUX_ENFORCE, (struct machine){{SELINUX_ENFORCE, "EACCES"}});
}

static void test_booleans(void **state)
{
	(void)state;
	const char *devices = BOOLEAN("container_use_devices"),
		   *gpus = BOOLEAN("container_use_xserver_devices"),
		   *cgroup = BOOLEAN("container_manage_cgroup");
	expect(SELINUX_STATE_SWITCHED_OFF,
	       (struct machine){{SELINUX_ENFORCE, "1", devices, "0 0"}});
	expect(SELINUX_STATE_ALLOWED, (struct machine){{SELINUX_ENFORCE, "1", devices, "1 1\n"}});
	/* Asked for, and not in force before it is committed. */
	expect(SELINUX_STATE_SWITCHED_OFF,
	       (struct machine){{SELINUX_ENFORCE, "1", devices, "0 1"}});
	expect(SELINUX_STATE_ALLOWED,
	       (struct machine){{SELINUX_ENFORCE, "1", devices, "0 0", gpus, "1 1"}});
	expect(SELINUX_STATE_NO_RULE, (struct machine){{SELINUX_ENFORCE, "1", cgroup, "0 0"}});
	expect(SELINUX_STATE_SWITCHED_OFF,
	       (struct machine){{SELINUX_ENFORCE, "1", cgroup, "1 1", devices, "0 0"}});
	expect_failure(-EACCES, devices,
		       (struct machine){{SELINUX_ENFORCE, "1", devices, "EACCES", gpus, "1 1"}});
}

static void test_module(void **state)
{
	(void)state;
	const char *cgroup = BOOLEAN("container_manage_cgroup"), *config = "/etc/selinux/config";
	expect(SELINUX_STATE_ALLOWED,
	       (struct machine){{SELINUX_ENFORCE, "1", cgroup, "0 0", MODULE("targeted"), ""}});
	expect(SELINUX_STATE_NO_RULE, /* the store of a policy that is not in force */
	       (struct machine){{SELINUX_ENFORCE, "1", cgroup, "0 0", MODULE("targeted"), "",
				 config, "SELINUX=enforcing\nSELINUXTYPE=default\n"}});
	expect(SELINUX_STATE_ALLOWED,
	       (struct machine){{SELINUX_ENFORCE, "1", cgroup, "0 0", MODULE("default"), "", config,
				 "# SELINUXTYPE=mls\nSELINUXTYPE=mls\nSELINUXTYPE=default \r\n"}});
	/* No way out of the store, and no name that is none. */
	expect(SELINUX_STATE_ALLOWED,
	       (struct machine){{SELINUX_ENFORCE, "1", cgroup, "0 0", MODULE("targeted"), "",
				 config, "SELINUXTYPE=../x\nSELINUXTYPE="}});
	expect_failure(
	    -EACCES, "/var/lib/selinux",
	    (struct machine){{SELINUX_ENFORCE, "1", cgroup, "0 0", MODULE("targeted"), "EACCES"}});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_modes),
	    cmocka_unit_test(test_booleans),
	    cmocka_unit_test(test_module),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

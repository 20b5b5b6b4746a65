/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/lines.h"

#include <string.h>

#include "tests/unit/unit.h"

static const char *assignment(const char *line, const char *key)
{
	static char value[16];
	return lines_assignment(line, strlen(line), key, value, sizeof(value)) ? value : NULL;
}

static void assignments(void **state)
{
	(void)state;
	assert_string_equal(assignment("ID=debian", "ID"), "debian");
	assert_string_equal(assignment("ID=\"rhcos\"", "ID"), "rhcos");
	assert_string_equal(assignment("ID='x y' ", "ID"), "x y");
	assert_string_equal(assignment("ID=", "ID"), "");
	assert_string_equal(assignment("ID=\"", "ID"), "\"");
	assert_null(assignment("ID_LIKE=debian", "ID"));
	assert_null(assignment("#ID=debian", "ID"));
	assert_null(assignment("ID", "ID"));
	assert_null(assignment("ID=0123456789012345", "ID"));
	assert_null(assignment("ID=a\033[2J", "ID"));
}

static const char *field(const char *line, const char *key)
{
	static char value[16];
	return lines_field(line, strlen(line), key, value, sizeof(value)) ? value : NULL;
}

static void fields(void **state)
{
	(void)state;
	assert_string_equal(field("Package: runc", "Package"), "runc");
	assert_string_equal(field("Model: \t\t A100 ", "Model"), "A100");
	assert_string_equal(field("Package:", "Package"), "");
	assert_null(field("Packages: runc", "Package"));
	assert_null(field("Package runc", "Package"));
}

static enum lines_block modprobe(const char *line)
{
	return lines_modprobe(line, strlen(line), "nvidia-uvm");
}

/* The rest is in checks_nouveau_test.c. */
static void modules(void **state)
{
	(void)state;
	char word[8] = "";
	assert_int_equal(modprobe("blacklist nvidia_uvm"), LINES_BLACKLIST);
	assert_int_equal(modprobe("blacklist nvidia-uvm"), LINES_BLACKLIST);
	assert_int_equal(modprobe("install nvidia-uvm :"), LINES_INSTALL);
	assert_int_equal(modprobe("options nvidia_uvm a=1 modeset=0"), LINES_MODESET);
	assert_int_equal(modprobe("options nvidia_uvm a=1"), LINES_NOTHING);
	assert_int_equal(modprobe(""), LINES_NOTHING);
	static const char line[] = "a=1 x.blacklist=uvm rdblacklist=nv_uvm";
	assert_int_equal(lines_cmdline(line, sizeof(line) - 1, "nv-uvm", word, sizeof(word)),
			 LINES_BLACKLIST);
	assert_string_equal(word, ""); /* it does not fit */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(assignments), cmocka_unit_test(fields),
					   cmocka_unit_test(modules)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

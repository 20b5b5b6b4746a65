/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/rpmmd.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/unit.h"

#define PRIMARY(packages)                                                                          \
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                                             \
	"<metadata xmlns=\"http://linux.duke.edu/metadata/common\" packages=\"2\">" packages       \
	"</metadata>"
#define KERNEL                                                                                     \
	"<package type=\"rpm\"><name>kernel-devel</name><arch>x86_64</arch>"                       \
	"<version epoch=\"0\" ver=\"5.14.0\" rel=\"427.el9\"/>"                                    \
	"<format xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\"><rpm:provides>"                  \
	"<rpm:entry name=\"x\"/></rpm:provides><name>not-this</name></format></package>\n"

static int rig_join(const struct package *package, void *context)
{
	return buf_printf(context, "%s %s %s|", package->name, package->version, package->arch);
}

static int rig_read(const char *text, size_t size, struct buf *out, struct err *err)
{
	struct rpmmd *rpmmd = rpmmd_new(rig_join, out, err);
	int result = 0;
	assert_non_null(rpmmd);
	for (size_t at = 0, length = strlen(text); at < length && result == 0; at += size)
		result = rpmmd_feed(rpmmd, text + at, length - at < size ? length - at : size, err);
	if (result == 0)
		result = rpmmd_end(rpmmd, err);
	assert_null(rpmmd_free(rpmmd));
	return result;
}

static void test_packages_in_pieces(void **state)
{
	static const char text[] =
	    PRIMARY(KERNEL "<package type=\"rpm\"><name>gcc</name><arch>src</arch>"
			   "<version epoch=\"0\" ver=\"11\" rel=\"1\"/></package>"
			   "<package><name>a&amp;b</name><arch>noarch</arch>"
			   "<version ver=\"1\" rel=\"1\"/></package>"
			   "<package><name>g++</name><arch>noarch</arch>"
			   "<version ver=\"1\" rel=\"1\"/></package>");
	for (size_t size = 1; size < sizeof(text); size += 7) {
		_cleanup_buf_ struct buf out;
		struct err err = {0};
		buf_init(&out, 1000);
		assert_int_equal(rig_read(text, size, &out, &err), 0);
		assert_string_equal(buf_text(&out), "kernel-devel 5.14.0-427.el9 x86_64|"
						    "g++ 1-1 noarch|");
	}
}

static void test_what_is_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
	    {"<html><body/></html>", "line 1: it does not begin with <metadata>"},
	    {"<metadata><package>", "line 1: no element found"},
	    {"<!DOCTYPE m [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><metadata>&b;</metadata>",
	     "line 1: it has a document type, which no such file has"},
	    {"<metadata><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>"
	     "<a><a><a><a><a><a><a><a><a><a><a>",
	     "line 1: its elements are nested too deeply"},
	    {"", "line 1: no element found"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		_cleanup_buf_ struct buf out;
		struct err err = {0};
		buf_init(&out, 1000);
		assert_int_equal(rig_read(rows[i].text, 5, &out, &err), -EBADMSG);
		assert_string_equal(err.text, rows[i].why);
	}
}

static void test_a_tag_without_end(void **state)
{
	_cleanup_buf_ struct buf out, text;
	struct err err = {0};
	buf_init(&out, 1000);
	buf_init(&text, 4 << 20);
	assert_int_equal(buf_add_text(&text, "<metadata a=\""), 0);
	while (text.length < 3 << 20)
		assert_int_equal(buf_add_text(&text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
				 0);
	assert_int_equal(rig_read(buf_text(&text), 65536, &out, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "a tag of it is longer"));
}

static int rig_find(const char *text, char out[RPMMD_PATH_MAX], struct err *err)
{
	return rpmmd_find_primary(text, strlen(text), out, err);
}

static void test_where_primary_is(void **state)
{
	static const char *const hostile[] = {
	    "/etc/passwd",     "../../etc/x", "http://x/y",   "a b",
	    "repodata/%2e%2e", "a?b",	      "repodata/..#", "x\\y"};
	char path[RPMMD_PATH_MAX] = "";
	struct err err = {0};
	assert_int_equal(rig_find("<repomd><revision>1</revision><data type=\"filelists\">"
				  "<location href=\"repodata/f.xml.gz\"/></data>"
				  "<data type=\"primary\"><location href=\"repodata/p.xml.gz\"/>"
				  "</data></repomd>",
				  path, &err),
			 0);
	assert_string_equal(path, "repodata/p.xml.gz");
	assert_int_equal(rig_find("<repomd/>", path, &err), -ENOENT);
	assert_int_equal(rig_find("<metadata/>", path, &err), -EBADMSG);
	for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		_cleanup_buf_ struct buf text;
		buf_init(&text, 1000);
		(void)buf_printf(&text,
				 "<repomd><data type=\"primary\"><location href=\"%s\"/></data>"
				 "</repomd>",
				 hostile[i]);
		assert_int_equal(rig_find(buf_text(&text), path, &err), -EBADMSG);
		assert_non_null(strstr(err.text, "is not a path within the repository"));
	}
	assert_string_equal(path, "repodata/p.xml.gz");
}

static int rig_refuse(const struct package *package, void *context)
{
	return -ECANCELED;
}

static void test_a_sink_that_has_enough(void **state)
{
	struct err err = {0};
	struct rpmmd *rpmmd = rpmmd_new(rig_refuse, NULL, &err);
	assert_non_null(rpmmd);
	assert_int_equal(rpmmd_feed(rpmmd, PRIMARY(KERNEL), strlen(PRIMARY(KERNEL)), &err),
			 -ECANCELED);
	(void)rpmmd_free(rpmmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_packages_in_pieces),	   cmocka_unit_test(test_what_is_refused),
	    cmocka_unit_test(test_a_tag_without_end),	   cmocka_unit_test(test_where_primary_is),
	    cmocka_unit_test(test_a_sink_that_has_enough),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

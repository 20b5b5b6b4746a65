/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/repository.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "tests/unit/unit.h"

#define INDEX "Package: gcc\nVersion: 4:12.2.0-3\nArchitecture: amd64\n"
#define REPOMD                                                                                     \
	"<repomd><data type=\"primary\"><location href=\"repodata/primary.xml\"/></data></repomd>"
#define PRIMARY                                                                                    \
	"<metadata><package type=\"rpm\"><name>kernel</name><arch>x86_64</arch>"                   \
	"<version ver=\"5.14.0\" rel=\"1\"/></package></metadata>"

struct rig {
	struct buf out;
	const char *const *pages; /* address, content; ends in NULL */
};

static struct rig rig;

static int rig_setup(void **state)
{
	buf_init(&rig.out, 10000);
	rig.pages = NULL;
	return unit_top_setup(state);
}

static int rig_teardown(void **state)
{
	buf_done(&rig.out);
	return unit_top_teardown(state);
}

static void rig_write(const char *name, const char *text)
{
	char path[FILE_PATH_MAX];
	assert_int_equal(file_path(path, NULL, "%s/%s", unit_top, name), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	unit_write(unit_path(unit_top, name), text);
}

static int rig_join(const struct package *package, void *context)
{
	return buf_printf(context, "%s-%s|", package->name, package->version);
}

static int rig_fetch(const char *url, uint64_t max, uint64_t timeout_ms,
		     int (*sink)(const char *data, size_t length, void *context), void *context,
		     struct err *err)
{
	for (const char *const *page = rig.pages; *page; page += 2)
		if (strcmp(page[0], url) == 0)
			return sink(page[1], strlen(page[1]), context);
	return err_set(err, -ENOENT, "'%s': the server answers 404", url);
}

static int rig_read(const char *location, enum repository_kind *kind, struct err *err)
{
	const struct repository_options options = {
	    .location = location,
	    .deb_arch = "amd64",
	    .fetch = rig.pages ? rig_fetch : NULL,
	    .sink = rig_join,
	    .context = &rig.out,
	};
	buf_clear(&rig.out);
	*err = (struct err){.code = 0};
	return repository_read(&options, kind, err);
}

static void test_files(void **state)
{
	enum repository_kind kind = REPOSITORY_DEBIAN;
	struct err err;
	rig_write("a/kernel-5.14.0-1.x86_64.rpm", "");
	rig_write("a/readme.txt", "");
	assert_int_equal(symlink("..", unit_path(unit_top, "a/loop")), 0);
	assert_int_equal(rig_read(unit_top, &kind, &err), 0);
	assert_int_equal(kind, REPOSITORY_FILES);
	assert_string_equal(buf_text(&rig.out), "kernel-5.14.0-1|");
}

static void test_indexes(void **state)
{
	enum repository_kind kind = REPOSITORY_FILES;
	struct err err;
	rig_write("rpm/repodata/repomd.xml", REPOMD);
	rig_write("rpm/repodata/primary.xml", PRIMARY);
	rig_write("rpm/kernel-9-9.x86_64.rpm", ""); /* not in the index: nobody would get it */
	assert_int_equal(rig_read(unit_path(unit_top, "rpm"), &kind, &err), 0);
	assert_int_equal(kind, REPOSITORY_RPM);
	assert_string_equal(buf_text(&rig.out), "kernel-5.14.0-1|");
	/* As reposync makes it: a directory of repositories. */
	assert_int_equal(rig_read(unit_top, &kind, &err), 0);
	assert_string_equal(buf_text(&rig.out), "kernel-5.14.0-1|");
}

static void test_a_debian_tree(void **state)
{
	enum repository_kind kind = REPOSITORY_FILES;
	struct err err;
	rig_write("dists/bookworm/main/binary-amd64/Packages", INDEX);
	rig_write("dists/bookworm/main/binary-arm64/Packages",
		  "Package: other\nVersion: 1\nArchitecture: arm64\n");
	rig_write("pool/g/gcc_1_amd64.deb", "");
	assert_int_equal(rig_read(unit_top, &kind, &err), 0);
	assert_int_equal(kind, REPOSITORY_DEBIAN);
	assert_string_equal(buf_text(&rig.out), "gcc-4:12.2.0-3|");
}

static void test_what_is_wrong(void **state)
{
	enum repository_kind kind;
	struct err err;
	assert_int_equal(rig_read(unit_top, &kind, &err), -ENOENT);
	assert_non_null(strstr(err.text, "has neither repodata/repomd.xml"));
	assert_int_equal(rig_read(unit_path(unit_top, "missing"), &kind, &err), -ENOENT);
	assert_non_null(strstr(err.text, "missing': No such file"));
	rig_write("half/repodata/repomd.xml", REPOMD);
	assert_int_equal(rig_read(unit_path(unit_top, "half"), &kind, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "primary.xml': No such file"));
	rig_write("none/repodata/repomd.xml", "<repomd/>");
	assert_int_equal(rig_read(unit_path(unit_top, "none"), &kind, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "repomd.xml': it names no primary.xml"));
	rig_write("html/Packages", "<html>\n");
	assert_int_equal(rig_read(unit_path(unit_top, "html"), &kind, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "html/Packages': it is no index of Debian packages"));
	rig_write("fifo/readme", "");
	assert_int_equal(mkfifo(unit_path(unit_top, "fifo/Packages.gz"), 0600), 0);
	assert_int_equal(rig_read(unit_path(unit_top, "fifo"), &kind, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "is not a file"));
	assert_int_equal(rig_read("https://m.example/a", &kind, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "without libcurl"));
}

static void test_addresses(void **state)
{
	static const char *const pages[] = {
	    "https://m.example/rpm/repodata/repomd.xml",
	    REPOMD,
	    "https://m.example/rpm/repodata/primary.xml",
	    PRIMARY,
	    "http://m.example/flat/Packages",
	    INDEX,
	    "http://m.example/debian/dists/bookworm/main/binary-amd64/Packages.gz",
	    INDEX,
	    "http://m.example/debian/dists/bookworm/contrib/binary-amd64/Packages.xz",
	    INDEX,
	    NULL};
	enum repository_kind kind = REPOSITORY_FILES;
	struct err err;
	rig.pages = pages;
	assert_int_equal(rig_read("https://m.example/rpm/", &kind, &err), 0);
	assert_int_equal(kind, REPOSITORY_RPM);
	assert_string_equal(buf_text(&rig.out), "kernel-5.14.0-1|");
	assert_int_equal(rig_read("http://m.example/flat", &kind, &err), 0);
	assert_int_equal(kind, REPOSITORY_DEBIAN);
	assert_string_equal(buf_text(&rig.out), "gcc-4:12.2.0-3|");
	assert_int_equal(rig_read("http://m.example/debian  bookworm main", &kind, &err), -ENOENT);
	assert_int_equal(rig_read("http://m.example/debian bookworm main contrib", &kind, &err), 0);
	assert_string_equal(buf_text(&rig.out), "gcc-4:12.2.0-3|gcc-4:12.2.0-3|");
	assert_int_equal(rig_read("http://m.example/debian bookworm", &kind, &err), -EINVAL);
	assert_int_equal(rig_read("http://m.example/debian", &kind, &err), -ENOENT);
	assert_non_null(strstr(err.text, "\"ADDRESS bookworm main\""));
}

static void test_names(void **state)
{
	assert_string_equal(repository_kind_to_string(REPOSITORY_FILES), "files");
	assert_string_equal(repository_kind_to_string(REPOSITORY_RPM), "rpm");
	assert_string_equal(repository_kind_to_string(REPOSITORY_DEBIAN), "debian");
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RIG(test_files),	     RIG(test_indexes),	  RIG(test_a_debian_tree),
	    RIG(test_what_is_wrong), RIG(test_addresses), cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

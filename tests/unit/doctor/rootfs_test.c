/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/rootfs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/unit/doctor/ward.h"

static struct rootfs tree = ROOTFS_CLOSED;

static int setup(void **state)
{
	int rc = ward_setup(state);
	assert_int_equal(rootfs_open(unit_top, false, &tree, NULL), 0);
	return rc;
}

static int teardown(void **state)
{
	rootfs_close(&tree);
	return ward_teardown(state);
}

static void reads(void **state)
{
	(void)state;
	char word[16];
	int64_t number;
	_cleanup_buf_ struct buf text;
	buf_init(&text, 64);
	ward_file("/sys/one", "  live \nmore\n");
	assert_int_equal(rootfs_word(&tree, "/sys/one", word, sizeof(word)), 0);
	assert_string_equal(word, "live");
	assert_int_equal(rootfs_word(&tree, "/sys/one", word, 4), -ENAMETOOLONG);
	assert_int_equal(rootfs_read(&tree, "/sys/one", &text), 0);
	assert_string_equal(buf_text(&text), "  live \nmore\n");
	assert_int_equal(rootfs_number(&tree, "/sys/one", &number), -EINVAL);
	ward_file("/sys/two", "-1\n");
	assert_int_equal(rootfs_number(&tree, "/sys/two", &number), 0);
	assert_int_equal(number, -1);
	ward_file("/sys/three", "a\033[2J\n");
	assert_int_equal(rootfs_word(&tree, "/sys/three", word, sizeof(word)), -EINVAL);
	assert_int_equal(rootfs_word(&tree, "/sys/none", word, sizeof(word)), -ENOENT);
	assert_false(rootfs_exists(&tree, "/sys/none"));
	assert_true(rootfs_exists(&tree, "/sys/two"));
}

/* Links are those of the machine: absolute ones begin at its root, and none leaves it. */
static void links_stay_inside(void **state)
{
	(void)state;
	char word[16], target[FILE_PATH_MAX], name[16];
	ward_file("/usr/lib/os-release", "inside\n");
	ward_link("/etc/absolute", "/usr/lib/os-release");
	ward_link("/etc/up", "../../../../../../../../usr/lib/os-release");
	ward_link("/etc/out", "/etc/passwd");
	ward_link("/etc/a", "b");
	ward_link("/etc/b", "a");
	assert_int_equal(rootfs_word(&tree, "/etc/absolute", word, sizeof(word)), 0);
	assert_string_equal(word, "inside");
	assert_int_equal(rootfs_word(&tree, "/etc/up", word, sizeof(word)), 0);
	assert_int_equal(rootfs_word(&tree, "/etc/out", word, sizeof(word)), -ENOENT);
	assert_int_equal(rootfs_word(&tree, "/etc/a", word, sizeof(word)), -ELOOP);
	assert_int_equal(rootfs_link(&tree, "/etc/a", target), 0);
	assert_string_equal(target, "b");
	assert_int_equal(rootfs_link(&tree, "/usr/lib/os-release", target), -EINVAL);
	assert_int_equal(rootfs_link_name(&tree, "/etc/up", name, sizeof(name)), 0);
	assert_string_equal(name, "os-release");
}

static void only_regular_files(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf text;
	buf_init(&text, 64);
	ward_fifo("/etc/fifo");
	ward_directory("/etc/directory");
	assert_int_equal(rootfs_read(&tree, "/etc/fifo", &text), -EINVAL);
	assert_int_equal(rootfs_read(&tree, "/etc/directory", &text), -EINVAL);
	ward_large("/etc/large", 'x', 1 << 20);
	assert_int_equal(rootfs_read(&tree, "/etc/large", &text), -EFBIG);
	assert_int_equal(text.length, 0);
	assert_int_equal(text.max, 64);
}

struct seen {
	size_t lines, longest;
	char last[16];
};

static int see(const char *text, size_t length, void *context)
{
	struct seen *seen = context;
	seen->lines++;
	if (length > seen->longest)
		seen->longest = length;
	(void)snprintf(seen->last, sizeof(seen->last), "%.*s", (int)length, text);
	return length == 4 && memcmp(text, "stop", 4) == 0 ? 7 : 0;
}

static void lines(void **state)
{
	(void)state;
	struct seen seen = {0};
	ward_file("/etc/lines", "one\n\nthree\nend");
	assert_int_equal(rootfs_lines(&tree, "/etc/lines", see, &seen), 0);
	assert_int_equal(seen.lines, 4);
	assert_string_equal(seen.last, "end");
	ward_file("/etc/lines", "one\nstop\nthree\n");
	assert_int_equal(rootfs_lines(&tree, "/etc/lines", see, &seen), 7);
	assert_string_equal(seen.last, "stop");
	/* one line of 10 MB is cut, and a file behind it still ends */
	seen = (struct seen){0};
	ward_large("/etc/lines", 'x', 10 << 20);
	assert_int_equal(rootfs_lines(&tree, "/etc/lines", see, &seen), 0);
	assert_int_equal(seen.lines, 1);
	assert_int_equal(seen.longest, ROOTFS_LINE_MAX);
	ward_large("/etc/lines", '\n', 8192);
	seen = (struct seen){0};
	assert_int_equal(rootfs_lines(&tree, "/etc/lines", see, &seen), 0);
	assert_int_equal(seen.lines, 8192);
}

static void names(void **state)
{
	(void)state;
	_cleanup_rootfs_names_ struct rootfs_names found;
	ward_file("/etc/d/b.conf", "");
	ward_file("/etc/d/a.conf", "");
	ward_file("/etc/d/.hidden.conf", "");
	ward_file("/etc/d/c.txt", "");
	assert_int_equal(rootfs_list(&tree, "/etc/d", ".conf", &found), 0);
	assert_int_equal(found.count, 2);
	assert_string_equal(found.name[0], "a.conf");
	rootfs_names_done(&found);
	assert_int_equal(rootfs_list(&tree, "/etc/none", NULL, &found), -ENOENT);
	assert_int_equal(rootfs_list(&tree, "/etc/d/c.txt", NULL, &found), -ENOTDIR);
	assert_int_equal(found.count, 0);
}

static int count_links(int directory, const char *name, void *context)
{
	char target[16];
	int *left = context;
	if (readlinkat(directory, name, target, sizeof(target)) > 0 && --*left == 0)
		return 7;
	return 0;
}

static void each(void **state)
{
	(void)state;
	int left = 3;
	ward_link("/etc/d/a", "x");
	ward_link("/etc/d/b", "x");
	assert_int_equal(rootfs_each(&tree, "/etc/d", count_links, &left), 0);
	assert_int_equal(left, 1);
	assert_int_equal(rootfs_each(&tree, "/etc/d", count_links, &left), 7); /* stops */
	assert_int_equal(rootfs_each(&tree, "/etc/none", count_links, &left), -ENOENT);
}

static void without_openat2(void **state)
{
	(void)state;
	char word[16];
	ward_file("/etc/file", "x\n");
	tree.without_openat2 = true;
	assert_int_equal(rootfs_word(&tree, "/etc/file", word, sizeof(word)), -EOPNOTSUPP);
	struct rootfs real = ROOTFS_CLOSED;
	assert_int_equal(rootfs_open("/", false, &real, NULL), 0);
	real.without_openat2 = true;
	assert_true(rootfs_exists(&real, "/proc/version"));
	rootfs_close(&real);
}

/* A container sees its host's files, and its own /proc where the host's is not mounted. */
static void own_kernel(void **state)
{
	(void)state;
	struct rootfs host = ROOTFS_CLOSED;
	ward_directory("/proc");
	assert_int_equal(rootfs_open(unit_top, true, &host, NULL), 0);
	assert_true(rootfs_exists(&host, "/proc/version"));
	assert_false(rootfs_exists(&host, "/etc/passwd"));
	rootfs_close(&host);
	ward_file("/proc/version", "Linux\n");
	assert_int_equal(rootfs_open(unit_top, true, &host, NULL), 0);
	assert_false(rootfs_exists(&host, "/proc/self"));
	rootfs_close(&host);
}

int main(void)
{
#define test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
	    test(reads),
	    test(links_stay_inside),
	    test(only_regular_files),
	    test(lines),
	    test(names),
	    test(each),
	    test(without_openat2),
	    test(own_kernel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

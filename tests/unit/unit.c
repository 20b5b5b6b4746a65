/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

char *unit_tmp_new(void)
{
	const char *base = getenv("TMPDIR");
	char path[4096];
	int length =
	    snprintf(path, sizeof(path), "%s/sluice-unit-XXXXXX", base && *base ? base : "/tmp");
	assert_true(length > 0 && (size_t)length < sizeof(path));
	assert_non_null(mkdtemp(path));
	char *copy = strdup(path);
	assert_non_null(copy);
	return copy;
}

static int unit_remove(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	return remove(path);
}

char *unit_tmp_free(char *directory)
{
	if (directory)
		(void)nftw(directory, unit_remove, 16, FTW_DEPTH | FTW_PHYS);
	free(directory);
	return NULL;
}

char *unit_top;

int unit_top_setup(void **state)
{
	(void)state;
	unit_top = unit_tmp_new();
	return 0;
}

int unit_top_teardown(void **state)
{
	(void)state;
	unit_top = unit_tmp_free(unit_top);
	return 0;
}

const char *unit_path(const char *directory, const char *name)
{
	static char paths[8][4096];
	static unsigned next;
	char *path = paths[next++ % 8];
	int length = snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
	assert_true(length > 0 && (size_t)length < sizeof(paths[0]));
	return path;
}

void unit_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
}

uint64_t unit_now_ns(void)
{
	struct timespec now;
	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

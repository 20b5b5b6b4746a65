/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer, with any compiler: over every file of its corpus, whole and
 * cut short at up to 64 places. This is how the corpus becomes a regression test.
 *
 * usage: NAME_fuzz_corpus DIRECTORY
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DRIVER_CUTS = 64, DRIVER_FILE_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory of exactly that size, so that a sanitizer or valgrind sees a read behind it. */
static void driver_run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	(void)LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static int driver_file(const char *path)
{
	static uint8_t data[DRIVER_FILE_MAX];
	FILE *file = fopen(path, "rbe");
	if (!file) {
		fprintf(stderr, "cannot open '%s': %s\n", path, strerror(errno));
		return -1;
	}
	size_t size = fread(data, 1, sizeof(data), file);
	fclose(file);

	printf("%s (%zu bytes)\n", path, size);
	fflush(stdout); /* so that the name of the file is out when the target crashes */
	driver_run(data, size);
	for (size_t cut = 0; cut < DRIVER_CUTS; cut++)
		driver_run(data, size * cut / DRIVER_CUTS);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 64;
	}
	struct dirent **entries;
	int count = scandir(argv[1], &entries, NULL, alphasort);
	if (count < 0) {
		fprintf(stderr, "cannot read '%s': %s\n", argv[1], strerror(errno));
		return 1;
	}
	int ran = 0, failed = 0;
	for (int i = 0; i < count; i++) {
		char path[PATH_MAX];
		struct stat status;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
		if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
			ran++;
			failed += driver_file(path) != 0;
		}
		free(entries[i]);
	}
	free(entries);
	printf("%d files, %d could not be read\n", ran, failed);
	return ran == 0 || failed > 0;
}

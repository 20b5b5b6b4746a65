/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a package repository: any bytes, packed or not, as each of the indexes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/packages/debian.h"
#include "libexec/packages/rpmmd.h"
#include "libexec/packages/unpack.h"

enum { FUZZ_UNPACKED_MAX = 4 << 20 };

struct fuzz {
	struct rpmmd *rpmmd;
	struct debian debian;
	int rpmmd_result, debian_result;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fuzz_package(const struct package *package, void *context)
{
	/* What is told is printed with tabs and line ends between. */
	if (!package_is_valid(package) || strpbrk(package->name, "\t\n") ||
	    strlen(package->version) >= sizeof(package->version))
		abort();
	return 0;
}

static int fuzz_data(const char *data, size_t length, void *context)
{
	struct fuzz *fuzz = context;
	if (fuzz->rpmmd_result == 0)
		fuzz->rpmmd_result = rpmmd_feed(fuzz->rpmmd, data, length, NULL);
	if (fuzz->debian_result == 0)
		fuzz->debian_result = debian_feed(&fuzz->debian, data, length);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	char path[RPMMD_PATH_MAX];
	struct package package;
	if (size <= RPMMD_BUFFER_MAX && rpmmd_find_primary(text, size, path, NULL) == 0 &&
	    (strstr(path, "..") || *path == '/'))
		abort();
	if (package_from_file(text, size, &package) == 0)
		(void)fuzz_package(&package, NULL);
	struct fuzz fuzz = {.rpmmd = rpmmd_new(fuzz_package, NULL, NULL)};
	struct unpack *unpack = unpack_new(FUZZ_UNPACKED_MAX, fuzz_data, &fuzz);
	if (!fuzz.rpmmd || !unpack)
		abort();
	debian_init(&fuzz.debian, fuzz_package, NULL);
	/* In two pieces, cut by the first byte. */
	size_t cut = size > 0 ? data[0] % size : 0;
	if (unpack_feed(unpack, text, cut, NULL) == 0 &&
	    unpack_feed(unpack, text + cut, size - cut, NULL) == 0)
		(void)unpack_end(unpack, NULL);
	(void)rpmmd_end(fuzz.rpmmd, NULL);
	if (fuzz.debian_result == 0)
		(void)debian_end(&fuzz.debian);
	(void)unpack_free(unpack);
	(void)rpmmd_free(fuzz.rpmmd);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/doors/queue/store/store_shim.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

struct shim_file {
	sqlite3_file base; /* first: SQLite knows this one */
	int name;	   /* enum shim_name; SHIM_NAMES: not watched */
	sqlite3_file *real;
};

static struct {
	sqlite3_vfs vfs;
	sqlite3_vfs *real;
	bool records;
	struct shim_op *ops;
	size_t count, capacity;
	enum shim_kind fail_kind;
	unsigned fail_at; /* counts down to 0 */
	int fail_code;
	bool fail_forever, has_failed;
} shim;

static struct shim_file *shim_of(sqlite3_file *file)
{
	return (struct shim_file *)file;
}

static int shim_name_of(const char *path)
{
	size_t length = path ? strlen(path) : 0;
	if (length >= 8 && strcmp(path + length - 8, "queue.db") == 0)
		return SHIM_DB;
	if (length >= 12 && strcmp(path + length - 12, "queue.db-wal") == 0)
		return SHIM_WAL;
	return SHIM_NAMES;
}

static void shim_add(enum shim_kind kind, int name, int64_t offset, const void *data, size_t length)
{
	if (!shim.records || name == SHIM_NAMES)
		return;
	if (shim.count == shim.capacity) {
		shim.capacity = shim.capacity ? 2 * shim.capacity : 1024;
		shim.ops = realloc(shim.ops, shim.capacity * sizeof(*shim.ops));
		assert_non_null(shim.ops);
	}
	struct shim_op *op = &shim.ops[shim.count++];
	*op = (struct shim_op){
	    .kind = kind, .name = (enum shim_name)name, .offset = offset, .length = length};
	if (length > 0) {
		op->data = malloc(length);
		assert_non_null(op->data);
		memcpy(op->data, data, length);
	}
}

/* The result code with which this call fails, or SQLITE_OK. */
static int shim_failure(enum shim_kind kind, int name)
{
	if (name == SHIM_NAMES || kind != shim.fail_kind || shim.fail_code == SQLITE_OK)
		return SQLITE_OK;
	if (shim.fail_at > 0 && --shim.fail_at > 0)
		return SQLITE_OK;
	if (shim.has_failed && !shim.fail_forever)
		return SQLITE_OK;
	shim.has_failed = true;
	return shim.fail_code;
}

static int shim_close(sqlite3_file *file)
{
	struct shim_file *self = shim_of(file);
	return self->real->pMethods ? self->real->pMethods->xClose(self->real) : SQLITE_OK;
}

static int shim_read(sqlite3_file *file, void *data, int length, sqlite3_int64 offset)
{
	sqlite3_file *real = shim_of(file)->real;
	return real->pMethods->xRead(real, data, length, offset);
}

static int shim_write(sqlite3_file *file, const void *data, int length, sqlite3_int64 offset)
{
	struct shim_file *self = shim_of(file);
	int failure = shim_failure(SHIM_WRITE, self->name);
	if (failure != SQLITE_OK)
		length /= 2;
	shim_add(SHIM_WRITE, self->name, offset, data, (size_t)length);
	int rc = self->real->pMethods->xWrite(self->real, data, length, offset);
	return failure != SQLITE_OK ? failure : rc;
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	struct shim_file *self = shim_of(file);
	int failure = shim_failure(SHIM_TRUNCATE, self->name);
	if (failure != SQLITE_OK)
		return failure;
	shim_add(SHIM_TRUNCATE, self->name, size, NULL, 0);
	return self->real->pMethods->xTruncate(self->real, size);
}

static int shim_sync(sqlite3_file *file, int flags)
{
	struct shim_file *self = shim_of(file);
	int failure = shim_failure(SHIM_SYNC, self->name);
	if (failure != SQLITE_OK)
		return failure;
	shim_add(SHIM_SYNC, self->name, 0, NULL, 0);
	return self->real->pMethods->xSync(self->real, flags);
}

static int shim_size(sqlite3_file *file, sqlite3_int64 *out)
{
	sqlite3_file *real = shim_of(file)->real;
	return real->pMethods->xFileSize(real, out);
}

static int shim_lock(sqlite3_file *file, int level)
{
	sqlite3_file *real = shim_of(file)->real;
	return real->pMethods->xLock(real, level);
}

static int shim_unlock(sqlite3_file *file, int level)
{
	sqlite3_file *real = shim_of(file)->real;
	return real->pMethods->xUnlock(real, level);
}

static int shim_check_lock(sqlite3_file *file, int *out)
{
	sqlite3_file *real = shim_of(file)->real;
	return real->pMethods->xCheckReservedLock(real, out);
}

static int shim_control(sqlite3_file *file, int what, void *data)
{
	sqlite3_file *real = shim_of(file)->real;
	return real->pMethods->xFileControl(real, what, data);
}

static int shim_sector(sqlite3_file *file)
{
	sqlite3_file *real = shim_of(file)->real;
	return real->pMethods->xSectorSize(real);
}

static int shim_traits(sqlite3_file *file)
{
	sqlite3_file *real = shim_of(file)->real;
	return real->pMethods->xDeviceCharacteristics(real);
}

static const sqlite3_io_methods shim_methods = {
    .iVersion = 1, /* no shared memory: the store does without */
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_check_lock,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector,
    .xDeviceCharacteristics = shim_traits,
};

static int shim_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out)
{
	(void)vfs;
	struct shim_file *self = shim_of(file);
	self->name = shim_name_of(path);
	self->real = (sqlite3_file *)&self[1];
	int rc = shim.real->xOpen(shim.real, path, self->real, flags, out);
	self->base.pMethods = self->real->pMethods ? &shim_methods : NULL;
	return rc;
}

static int shim_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
	(void)vfs;
	shim_add(SHIM_DELETE, shim_name_of(path), 0, NULL, 0);
	return shim.real->xDelete(shim.real, path, sync);
}

void shim_install(void)
{
	shim.real = sqlite3_vfs_find(NULL);
	assert_non_null(shim.real);
	/* What else there is works on the file system as a whole and takes the real one's own data
	 * from the structure. */
	shim.vfs = *shim.real;
	shim.vfs.zName = "shim";
	shim.vfs.pNext = NULL;
	shim.vfs.szOsFile = (int)sizeof(struct shim_file) + shim.real->szOsFile;
	shim.vfs.xOpen = shim_open;
	shim.vfs.xDelete = shim_delete;
	assert_int_equal(sqlite3_vfs_register(&shim.vfs, 1), SQLITE_OK);
}

void shim_record(void)
{
	for (size_t i = 0; i < shim.count; i++)
		free(shim.ops[i].data);
	free(shim.ops);
	shim.ops = NULL;
	shim.count = shim.capacity = 0;
	shim.records = true;
}

void shim_mark(int64_t value)
{
	shim_add(SHIM_MARK, SHIM_DB, value, NULL, 0);
}

const struct shim_op *shim_recorded(size_t *out_count)
{
	shim.records = false;
	*out_count = shim.count;
	return shim.ops;
}

void shim_fail(enum shim_kind kind, unsigned at, int code, bool forever)
{
	shim.fail_kind = kind;
	shim.fail_at = at;
	shim.fail_code = at == 0 ? SQLITE_OK : code;
	shim.fail_forever = forever;
	shim.has_failed = false;
}

bool shim_has_failed(void)
{
	return shim.has_failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store has said yes to is there after a power loss at any moment: writes and syncs are
 * recorded, and played up to each of them, with what was not synced yet whole, lost, or lost in
 * part.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/doors/queue/store/store_common.h"
#include "unit/doors/queue/store/store_shim.h"
#include "unit/unit.h"

enum {
	POWER_JOBS = 60, /* enough for the log to go into the database twice */
	POWER_SECTOR = 512,
	POWER_FILE_MAX = 8 << 20,
	POWER_SPEC = 9000,
	POWER_OPS = 1 << 16,
};

/* -- a disk -------------------------------------------------------------------------------------*/

struct disk_file {
	bool exists;
	size_t size;
	unsigned char *data; /* owned; POWER_FILE_MAX bytes */
};

struct disk {
	struct disk_file files[SHIM_NAMES]; /* what is durable */
	const struct shim_op *pending[POWER_OPS];
	size_t pending_count;
};

static uint64_t power_random_state = 1;

static uint64_t power_random(void)
{
	power_random_state ^= power_random_state << 13;
	power_random_state ^= power_random_state >> 7;
	power_random_state ^= power_random_state << 17;
	return power_random_state;
}

static void file_new(struct disk_file *file)
{
	*file = (struct disk_file){.data = calloc(1, POWER_FILE_MAX)};
	assert_non_null(file->data);
}

static void file_load(struct disk_file *file, const char *path)
{
	file_new(file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t got = read(fd, file->data, POWER_FILE_MAX);
	assert_true(got >= 0 && got < POWER_FILE_MAX);
	file->exists = true;
	file->size = (size_t)got;
	assert_int_equal(close(fd), 0);
}

static void file_store(const struct disk_file *file, const char *path)
{
	if (!file->exists) {
		(void)unlink(path);
		return;
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, file->data, file->size), file->size);
	assert_int_equal(close(fd), 0);
}

static void file_cut(struct disk_file *file, size_t size)
{
	if (size < file->size)
		memset(file->data + size, 0, file->size - size);
	file->size = size;
}

/* `keep` of 8 sectors arrive. */
static void file_write(struct disk_file *file, const struct shim_op *op, unsigned keep)
{
	size_t end = (size_t)op->offset + op->length;
	assert_true(end <= POWER_FILE_MAX);
	for (size_t at = (size_t)op->offset; at < end;) {
		size_t next = at / POWER_SECTOR * POWER_SECTOR + POWER_SECTOR;
		if (next > end)
			next = end;
		if (keep >= 8 || power_random() % 8 < keep) {
			memcpy(file->data + at, op->data + (at - (size_t)op->offset), next - at);
			if (next > file->size)
				file->size = next; /* what lies before and is lost reads as zeros */
			file->exists = true;
		}
		at = next;
	}
}

static void file_apply(struct disk_file *file, const struct shim_op *op, unsigned keep)
{
	if (op->kind == SHIM_WRITE)
		file_write(file, op, keep);
	else if (keep < 8 && power_random() % 8 >= keep)
		return;
	else if (op->kind == SHIM_TRUNCATE)
		file_cut(file, (size_t)op->offset);
	else if (op->kind == SHIM_DELETE) {
		file_cut(file, 0);
		file->exists = false;
	}
}

/* One call happens: what is synced is on the disk, the rest is on its way. */
static void disk_do(struct disk *disk, const struct shim_op *op)
{
	if (op->kind == SHIM_MARK)
		return;
	if (op->kind != SHIM_SYNC) {
		assert_true(disk->pending_count < POWER_OPS);
		disk->pending[disk->pending_count++] = op;
		return;
	}
	size_t left = 0;
	for (size_t i = 0; i < disk->pending_count; i++) {
		if (disk->pending[i]->name == op->name)
			file_apply(&disk->files[op->name], disk->pending[i], 8);
		else
			disk->pending[left++] = disk->pending[i];
	}
	disk->files[op->name].exists = true; /* SQLite syncs the directory of a new log with it */
	disk->pending_count = left;
}

/* The power goes; what is found afterwards lies in `directory`. */
static void disk_crash(const struct disk *disk, unsigned keep, const char *directory)
{
	static const char *const names[] = {"queue.db", "queue.db-wal"};
	for (enum shim_name name = SHIM_DB; name < SHIM_NAMES; name++) {
		struct disk_file found;
		file_new(&found);
		found.exists = disk->files[name].exists;
		found.size = disk->files[name].size;
		memcpy(found.data, disk->files[name].data, found.size);
		for (size_t i = 0; i < disk->pending_count; i++)
			if (disk->pending[i]->name == name)
				file_apply(&found, disk->pending[i], keep);
		file_store(&found, unit_path(directory, names[name]));
		free(found.data);
	}
}

/* -- what was acknowledged ----------------------------------------------------------------------*/

/* Each job is accepted, started and ended; a mark says how far it came. */
enum progress { PROGRESS_NONE, PROGRESS_ACCEPTED, PROGRESS_STARTED, PROGRESS_ENDED };

static void fill_spec(char *spec, uint64_t id)
{
	for (size_t i = 0; i < POWER_SPEC - 1; i++)
		spec[i] = (char)('a' + (id + i) % 26);
	spec[POWER_SPEC - 1] = '\0';
}

static void record_work(struct store *store)
{
	char spec[POWER_SPEC];
	for (uint64_t id = 1; id <= POWER_JOBS; id++) {
		struct job job = make_job(id);
		fill_spec(spec, id);
		assert_int_equal(accept_job(store, &job, spec, NULL), 0);
		shim_mark((int64_t)(id * 4 + PROGRESS_ACCEPTED));
		if (id % 3 == 0)
			continue;
		assert_int_equal(store_start(store, id, 1, "grants", 5, NULL), 0);
		shim_mark((int64_t)(id * 4 + PROGRESS_STARTED));
		if (id % 3 == 1)
			continue;
		assert_int_equal(end_job(store, id, JOB_FAILED, (int64_t)id), 0);
		shim_mark((int64_t)(id * 4 + PROGRESS_ENDED));
	}
}

static void check_spec(struct store *store, uint64_t id)
{
	char expected[POWER_SPEC], *spec = NULL;
	size_t length = 0;
	fill_spec(expected, id);
	assert_int_equal(store_spec(store, id, &spec, &length, NULL), 0);
	assert_int_equal(length, strlen(expected));
	assert_memory_equal(spec, expected, length);
	free(spec);
}

/* The job at which work was may be one step further than was acknowledged; no other may. */
static void check_job(struct store *store, uint64_t id, int progress, bool is_last)
{
	struct seen seen = {.count = 0};
	int rc = store_get(store, id, see, &seen, NULL);
	if (rc == -ENOENT) {
		assert_int_equal(progress, PROGRESS_NONE);
		return;
	}
	assert_int_equal(rc, 0);
	int found = job_state_is_final(seen.last.state) ? PROGRESS_ENDED
		    : seen.last.state == JOB_STARTING	? PROGRESS_STARTED
							: PROGRESS_ACCEPTED;
	if (found < progress)
		fail_msg("job %" PRIu64 " is back at %d from %d", id, found, progress);
	assert_true(found <= progress + (is_last ? 1 : 0));
	if (found == PROGRESS_STARTED)
		assert_string_equal(seen.grants, "grants");
	job_done(&seen.last);
	check_spec(store, id);
}

static void check_found(const char *path, const int *progress, uint64_t last, size_t at)
{
	struct store *store = NULL;
	struct err err = {.code = 0};
	int rc = store_open(path, &store, &err);
	if (rc < 0)
		fail_msg("after call %zu: %s", at, err.text);
	for (uint64_t id = 1; id <= POWER_JOBS; id++)
		check_job(store, id, progress[id], id == last || id == last + 1);
	uint64_t next = 0;
	assert_int_equal(store_next_id(store, &next, NULL), 0);
	assert_true(next > last);
	/* It takes more, with an id that nobody had. */
	struct job job = make_job(next);
	assert_int_equal(accept_job(store, &job, "more", NULL), 0);
	store = store_close(store);
}

static void test_a_power_loss_takes_nothing_that_was_acknowledged(void **state)
{
	(void)state;
	struct place place = place_make(), after = place_make();
	struct store *store = store_close(must_open(place.path)); /* it exists by now */
	struct disk *disk = calloc(1, sizeof(*disk));
	assert_non_null(disk);
	file_load(&disk->files[SHIM_DB], place.path);
	file_load(&disk->files[SHIM_WAL], unit_path(place.directory, "queue.db-wal"));
	shim_record();
	store = must_open(place.path);
	record_work(store);
	store = store_close(store);
	size_t count = 0;
	const struct shim_op *ops = shim_recorded(&count);
	int progress[POWER_JOBS + 1] = {0};
	uint64_t last = 0;
	size_t syncs[SHIM_NAMES] = {0}, cuts = 0;
	for (size_t i = 0; i < count; i++) {
		/* At every sync, just before it, and at some of the calls between. */
		bool is_sync = ops[i].kind == SHIM_SYNC;
		for (unsigned keep = is_sync ? 0 : 4; keep <= (is_sync ? 8 : 4); keep += 4) {
			if (!is_sync && power_random() % 8 != 0)
				continue;
			disk_crash(disk, keep, after.directory);
			check_found(after.path, progress, last, i);
			cuts++;
		}
		disk_do(disk, &ops[i]);
		if (is_sync)
			syncs[ops[i].name]++;
		if (ops[i].kind == SHIM_MARK) {
			last = (uint64_t)ops[i].offset / 4;
			progress[last] = (int)(ops[i].offset % 4);
		}
	}
	disk_crash(disk, 0, after.directory);
	check_found(after.path, progress, last, count);
	assert_true(syncs[SHIM_WAL] > POWER_JOBS);
	assert_true(syncs[SHIM_DB] >= 3); /* it was written back meanwhile, and at the end */
	print_message("%zu calls, %zu power losses\n", count, cuts);
	shim_record();
	(void)shim_recorded(&count);
	free(disk->files[SHIM_DB].data);
	free(disk->files[SHIM_WAL].data);
	free(disk);
	place_done(&place);
	place_done(&after);
}

int main(void)
{
	place_in_memory();
	shim_install();
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_power_loss_takes_nothing_that_was_acknowledged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	WAL_HEADER = 32,
	WAL_FRAME_HEADER = 24,
	WAL_MAGIC = 0x377f0682, /* the last bit: big-endian checksums */
	WAL_VERSION = 3007000,
};

struct wal_reader {
	int fd;
	uint32_t page_bytes;
	bool big_endian; /* how the checksums read words */
	uint32_t sum[2];
	unsigned char salts[8];
	unsigned char *frame; /* owned: one header with its page */
};

static uint32_t wal_u32(const unsigned char *at, bool big_endian)
{
	return big_endian
		   ? (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]
		   : (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* `length` is a multiple of 8. */
static void wal_sum(struct wal_reader *reader, const unsigned char *data, size_t length)
{
	uint32_t a = reader->sum[0], b = reader->sum[1];
	for (size_t i = 0; i < length; i += 8) {
		a += wal_u32(data + i, reader->big_endian) + b;
		b += wal_u32(data + i + 4, reader->big_endian) + a;
	}
	reader->sum[0] = a;
	reader->sum[1] = b;
}

static bool wal_sum_is(const struct wal_reader *reader, const unsigned char *at)
{
	return reader->sum[0] == wal_u32(at, true) && reader->sum[1] == wal_u32(at + 4, true);
}

/* Bytes read from `offset`: less than `length` only at the end of the file. */
static ssize_t wal_read(int fd, unsigned char *data, size_t length, off_t offset)
{
	size_t done = 0;

	while (done < length) {
		ssize_t got = pread(fd, data + done, length - done, offset + (off_t)done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;

		done += (size_t)got;
	}

	return (ssize_t)done;
}

static bool wal_is_zero(const unsigned char *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (data[i] != 0)
			return false;
	return true;
}

static int wal_damaged(const char *path, const char *what, struct err *err)
{
	return err_set(
	    err, -EUCLEAN,
	    "'%s' is damaged (%s): jobs that were accepted would be lost with it. It is kept as "
	    "it is, with its database: restore a copy of both, or move both away to begin with "
	    "an empty queue",
	    path, what);
}

/* A log of zeros only was made and not written: 1. 0: a header that is whole. */
static int wal_read_header(struct wal_reader *reader, const char *path, struct err *err)
{
	unsigned char header[WAL_HEADER];
	ssize_t got = wal_read(reader->fd, header, sizeof(header), 0);
	if (got < 0)
		return err_set(err, (int)got, "cannot read '%s': %s", path, err_describe((int)got));

	/* SQLite syncs the header before it writes what follows. */
	if (got < WAL_HEADER)
		return 1;

	if (wal_is_zero(header, sizeof(header))) {
		off_t offset = WAL_HEADER;
		size_t size = WAL_FRAME_HEADER + reader->page_bytes;
		while ((got = wal_read(reader->fd, reader->frame, size, offset)) > 0) {
			if (!wal_is_zero(reader->frame, (size_t)got))
				return wal_damaged(path, "its header is empty", err);
			offset += got;
		}

		return 1;
	}

	uint32_t magic = wal_u32(header, true);
	if ((magic & ~UINT32_C(1)) != WAL_MAGIC || wal_u32(header + 4, true) != WAL_VERSION ||
	    wal_u32(header + 8, true) != reader->page_bytes)
		return wal_damaged(path, "its header is not that of a log of this database", err);

	reader->big_endian = magic & 1;
	wal_sum(reader, header, WAL_FRAME_HEADER);
	if (!wal_sum_is(reader, header + 24))
		return wal_damaged(path, "the checksum of its header is wrong", err);

	memcpy(reader->salts, header + 16, sizeof(reader->salts));
	return 0;
}

/*
 * Frames from `offset` on that belong to this log by their salts, behind one that is not whole. At
 * most the last transaction was not synced, so only one end of a transaction can be among them.
 */
static int wal_check_tail(struct wal_reader *reader, const char *path, off_t offset,
			  struct err *err)
{
	unsigned char header[WAL_FRAME_HEADER];
	unsigned ends = 0;

	for (;; offset += WAL_FRAME_HEADER + (off_t)reader->page_bytes) {
		ssize_t got = wal_read(reader->fd, header, sizeof(header), offset);
		if (got < 0)
			return err_set(err, (int)got, "cannot read '%s': %s", path,
				       err_describe((int)got));
		if (got < WAL_FRAME_HEADER)
			return 0;
		if (memcmp(header + 8, reader->salts, sizeof(reader->salts)) != 0)
			continue; /* left from before the log began anew */

		if (wal_u32(header, true) != 0 && wal_u32(header + 4, true) != 0 && ++ends > 1)
			return wal_damaged(path, "whole transactions follow a broken page", err);
	}
}

static int wal_check(struct wal_reader *reader, const char *path, struct store_wal *out,
		     struct err *err)
{
	int rc = wal_read_header(reader, path, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;

	size_t size = WAL_FRAME_HEADER + reader->page_bytes;
	off_t offset = WAL_HEADER;

	for (uint64_t count = 1;; count++, offset += (off_t)size) {
		ssize_t got = wal_read(reader->fd, reader->frame, size, offset);
		if (got < 0)
			return err_set(err, (int)got, "cannot read '%s': %s", path,
				       err_describe((int)got));

		const unsigned char *frame = reader->frame;

		if ((size_t)got < size)
			return 0;

		wal_sum(reader, frame, 8);
		wal_sum(reader, frame + WAL_FRAME_HEADER, reader->page_bytes);

		if (wal_u32(frame, true) == 0 ||
		    memcmp(frame + 8, reader->salts, sizeof(reader->salts)) != 0 ||
		    !wal_sum_is(reader, frame + 16))
			return wal_check_tail(reader, path, offset, err);

		if (wal_u32(frame + 4, true) != 0)
			out->frames = count;
	}
}

int store_wal_check(const char *path, uint32_t page_bytes, struct store_wal *out, struct err *err)
{
	struct store_wal found = {.frames = 0};
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno != ENOENT)
		return err_set(err, -errno, "cannot open '%s': %s", path, err_describe(-errno));

	if (fd >= 0) {
		_cleanup_free_ unsigned char *frame = malloc(WAL_FRAME_HEADER + (size_t)page_bytes);
		if (!frame)
			return err_set(err, -ENOMEM, "reading '%s': out of memory", path);

		struct wal_reader reader = {.fd = fd, .page_bytes = page_bytes, .frame = frame};
		int rc = wal_check(&reader, path, &found, err);
		if (rc < 0)
			return rc;
	}

	*out = found;
	return 0;
}

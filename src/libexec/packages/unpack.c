/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

#ifdef HAVE_LZMA
#include <lzma.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "base/err.h"

enum { UNPACK_MAGIC_MAX = 6 };

enum unpack_kind { UNPACK_UNKNOWN, UNPACK_PLAIN, UNPACK_GZIP, UNPACK_XZ, UNPACK_ZSTD };

struct unpack {
	enum unpack_kind kind;
	unsigned char magic[UNPACK_MAGIC_MAX]; /* until it is long enough */
	size_t magic_length;
	uint64_t left; /* that may come out */
	unpack_sink sink;
	void *context;	/* borrowed */
	bool is_ended;	/* gzip and zstd: between two members; also before the first */
	bool has_begun; /* the library's state is to be given back */
	z_stream gzip;
#ifdef HAVE_LZMA
	lzma_stream xz;
#endif
#ifdef HAVE_ZSTD
	ZSTD_DStream *zstd; /* owned */
#endif
	char out[UNPACK_CHUNK];
};

struct unpack *unpack_new(uint64_t max, unpack_sink sink, void *context)
{
	struct unpack *unpack = calloc(1, sizeof(*unpack));
	if (!unpack)
		return NULL;

	unpack->left = max;
	unpack->sink = sink;
	unpack->context = context;
	unpack->is_ended = true;

	return unpack;
}

struct unpack *unpack_free(struct unpack *unpack)
{
	if (!unpack)
		return NULL;
	if (unpack->has_begun && unpack->kind == UNPACK_GZIP)
		(void)inflateEnd(&unpack->gzip);
#ifdef HAVE_LZMA
	if (unpack->has_begun && unpack->kind == UNPACK_XZ)
		lzma_end(&unpack->xz);
#endif
#ifdef HAVE_ZSTD
	(void)ZSTD_freeDStream(unpack->zstd);
#endif
	free(unpack);

	return NULL;
}

static int unpack_hand_on(struct unpack *unpack, const char *data, size_t length, struct err *err)
{
	if (length > unpack->left)
		return err_set(err, -EFBIG, "it is longer than is believed when it is unpacked");
	unpack->left -= length;
	return length > 0 ? unpack->sink(data, length, unpack->context) : 0;
}

static int unpack_damaged(const char *how, struct err *err)
{
	return err_set(err, -EBADMSG, "it is damaged: no whole %s", how);
}

/* --- gzip: one member or several ---------------------------------------------------------------
 */

static int unpack_gzip(struct unpack *unpack, const char *data, size_t length, struct err *err)
{
	z_stream *gzip = &unpack->gzip;
	enum { WITH_GZIP_HEADER = 16 + MAX_WBITS };
	if (!unpack->has_begun && inflateInit2(gzip, WITH_GZIP_HEADER) != Z_OK)
		return err_set(err, -ENOMEM, "out of memory for unpacking");

	unpack->has_begun = true;
	gzip->next_in = (const Bytef *)data;
	gzip->avail_in = (uInt)length;

	do {
		if (unpack->is_ended && gzip->avail_in > 0) {
			if (inflateReset(gzip) != Z_OK)
				return unpack_damaged("gzip", err);
			unpack->is_ended = false;
		}

		gzip->next_out = (Bytef *)unpack->out;
		gzip->avail_out = sizeof(unpack->out);

		int code = inflate(gzip, Z_NO_FLUSH);
		if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
			return code == Z_MEM_ERROR
				   ? err_set(err, -ENOMEM, "out of memory for unpacking")
				   : unpack_damaged("gzip", err);

		unpack->is_ended = code == Z_STREAM_END;
		int rc =
		    unpack_hand_on(unpack, unpack->out, sizeof(unpack->out) - gzip->avail_out, err);
		if (rc != 0)
			return rc;
		if (code == Z_BUF_ERROR)
			return 0; /* it wants more */
	} while (gzip->avail_in > 0 || (!unpack->is_ended && gzip->avail_out == 0));
	return 0;
}

/* --- xz ---------------------------------------------------------------------------------------
 */

#ifdef HAVE_LZMA
static int unpack_xz(struct unpack *unpack, const char *data, size_t length, bool is_last,
		     struct err *err)
{
	lzma_stream *xz = &unpack->xz;
	if (!unpack->has_begun) {
		*xz = (lzma_stream)LZMA_STREAM_INIT;
		if (lzma_stream_decoder(xz, UNPACK_XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
			return err_set(err, -ENOMEM, "out of memory for unpacking");
		unpack->has_begun = true;
		unpack->is_ended = false;
	}

	xz->next_in = (const uint8_t *)data;
	xz->avail_in = length;
	lzma_ret code = LZMA_OK;

	while (code == LZMA_OK) {
		xz->next_out = (uint8_t *)unpack->out;
		xz->avail_out = sizeof(unpack->out);
		code = lzma_code(xz, is_last ? LZMA_FINISH : LZMA_RUN);

		int rc =
		    unpack_hand_on(unpack, unpack->out, sizeof(unpack->out) - xz->avail_out, err);
		if (rc != 0)
			return rc;
		if (code == LZMA_OK && !is_last && xz->avail_in == 0 && xz->avail_out > 0)
			return 0;
	}

	unpack->is_ended = code == LZMA_STREAM_END;
	if (code == LZMA_STREAM_END || (code == LZMA_BUF_ERROR && !is_last))
		return 0;
	if (code == LZMA_MEM_ERROR)
		return err_set(err, -ENOMEM, "out of memory for unpacking");
	if (code == LZMA_MEMLIMIT_ERROR)
		return err_set(err, -ENOTSUP, "to unpack it takes too much memory");

	return unpack_damaged("xz", err);
}
#endif

/* --- zstd -------------------------------------------------------------------------------------
 */

#ifdef HAVE_ZSTD
static int unpack_zstd(struct unpack *unpack, const char *data, size_t length, struct err *err)
{
	if (!unpack->zstd) {
		unpack->zstd = ZSTD_createDStream();
		if (!unpack->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(
					 unpack->zstd, ZSTD_d_windowLogMax, UNPACK_WINDOW_LOG)))
			return err_set(err, -ENOMEM, "out of memory for unpacking");
	}

	ZSTD_inBuffer in = {.src = data, .size = length};
	ZSTD_outBuffer out = {.dst = unpack->out, .size = sizeof(unpack->out)};

	do {
		out.pos = 0;
		size_t code = ZSTD_decompressStream(unpack->zstd, &out, &in);
		if (ZSTD_isError(code))
			return err_set(err, -EBADMSG, "it is no whole zstd: %s",
				       ZSTD_getErrorName(code));

		unpack->is_ended = code == 0;
		int rc = unpack_hand_on(unpack, unpack->out, out.pos, err);
		if (rc != 0)
			return rc;
	} while (in.pos < in.size || out.pos == out.size);
	return 0;
}
#endif

/* --- all --------------------------------------------------------------------------------------
 */

static int unpack_one(struct unpack *unpack, const char *data, size_t length, struct err *err)
{
	switch (unpack->kind) {
	case UNPACK_GZIP:
		return unpack_gzip(unpack, data, length, err);
#ifdef HAVE_LZMA
	case UNPACK_XZ:
		return unpack_xz(unpack, data, length, false, err);
#endif
#ifdef HAVE_ZSTD
	case UNPACK_ZSTD:
		return unpack_zstd(unpack, data, length, err);
#endif
	case UNPACK_PLAIN:
		return unpack_hand_on(unpack, data, length, err);
	default:
		return err_set(
		    err, -ENOTSUP,
		    "it is packed with %s, which this sluice was built without; have the "
		    "repository made with gzip",
		    unpack->kind == UNPACK_XZ ? "xz" : "zstd");
	}
}

static void unpack_recognise(struct unpack *unpack)
{
	static const struct {
		const char *bytes;
		size_t length;
		enum unpack_kind kind;
	} rows[] = {
	    {"\x1f\x8b", 2, UNPACK_GZIP},
	    {"\xfd"
	     "7zXZ",
	     6, UNPACK_XZ}, /* with the NUL at its end */
	    {"\x28\xb5\x2f\xfd", 4, UNPACK_ZSTD},
	};
	unpack->kind = UNPACK_PLAIN;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (unpack->magic_length >= rows[i].length &&
		    memcmp(unpack->magic, rows[i].bytes, rows[i].length) == 0)
			unpack->kind = rows[i].kind;
}

/* Hands on what was held back until it was known what it is. */
static int unpack_begin(struct unpack *unpack, struct err *err)
{
	unpack_recognise(unpack);
	return unpack_one(unpack, (const char *)unpack->magic, unpack->magic_length, err);
}

int unpack_feed(struct unpack *unpack, const char *data, size_t length, struct err *err)
{
	if (unpack->kind == UNPACK_UNKNOWN) {
		size_t room = sizeof(unpack->magic) - unpack->magic_length;
		size_t taken = length < room ? length : room;

		memcpy(unpack->magic + unpack->magic_length, data, taken);
		unpack->magic_length += taken;
		data += taken;
		length -= taken;

		if (unpack->magic_length < sizeof(unpack->magic))
			return 0;

		int rc = unpack_begin(unpack, err);
		if (rc != 0)
			return rc;
	}

	while (length > 0) {
		size_t part = length < UNPACK_CHUNK ? length : UNPACK_CHUNK;
		int rc = unpack_one(unpack, data, part, err);
		if (rc != 0)
			return rc;

		data += part;
		length -= part;
	}

	return 0;
}

int unpack_end(struct unpack *unpack, struct err *err)
{
	int rc = 0;

	if (unpack->kind == UNPACK_UNKNOWN)
		rc = unpack_begin(unpack, err);
#ifdef HAVE_LZMA
	if (rc == 0 && unpack->kind == UNPACK_XZ)
		rc = unpack_xz(unpack, NULL, 0, true, err);
#endif
	if (rc == 0 && !unpack->is_ended)
		return err_set(err, -EBADMSG, "its end is missing");

	return rc;
}

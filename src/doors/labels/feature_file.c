/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/feature_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "doors/labels/label.h"

enum { FEATURE_FILE_MODE = 0644 };

/* "# +expiry-time=2026-11-22T12:00:00Z": holds for the lines behind it. */
static int add_expiry(int64_t expires_s, struct buf *out)
{
	char text[64];
	struct tm time;
	time_t seconds = (time_t)expires_s;
	if (!gmtime_r(&seconds, &time) ||
	    strftime(text, sizeof(text), "# +expiry-time=%Y-%m-%dT%H:%M:%SZ\n", &time) == 0)
		return -EINVAL;
	return buf_add_text(out, text);
}

int feature_file_text(const struct label_set *set, int64_t expires_s, struct buf *out,
		      struct err *err)
{
	int rc = expires_s > 0 ? add_expiry(expires_s, out) : 0;
	for (size_t i = 0; i < set->count && rc == 0; i++)
		rc = buf_printf(out, "%s=%s\n", set->items[i].key, set->items[i].value);
	return rc < 0 ? err_set(err, rc, "writing %zu labels: %s", set->count, err_describe(rc))
		      : 0;
}

bool feature_file_is(const char *path, const struct buf *text)
{
	struct stat status;
	_cleanup_buf_ struct buf old;
	buf_init(&old, FEATURE_FILE_MAX);
	return lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
	       (status.st_mode & 07777) == FEATURE_FILE_MODE && file_read(path, &old, NULL) == 0 &&
	       old.length == text->length &&
	       memcmp(buf_text(&old), buf_text(text), old.length) == 0;
}

int feature_file_write(const char *path, const struct buf *text, struct err *err)
{
	const struct stat like = {
	    .st_mode = FEATURE_FILE_MODE, .st_uid = geteuid(), .st_gid = getegid()};
	return file_write_like(path, buf_text(text), text->length, &like, err);
}

void feature_keep_init(struct feature_keep *keep)
{
	*keep = (struct feature_keep){.refresh_s = 0};
	buf_init(&keep->plain, FEATURE_FILE_MAX);
	buf_init(&keep->written, FEATURE_FILE_MAX);
}

void feature_keep_done(struct feature_keep *keep)
{
	buf_done(&keep->plain);
	buf_done(&keep->written);
}

static bool buf_same(const struct buf *a, const struct buf *b)
{
	return a->length == b->length && memcmp(buf_text(a), buf_text(b), a->length) == 0;
}

int feature_keep_put(struct feature_keep *keep, const char *path, const struct buf *plain,
		     int64_t expiry_s, int64_t now_s, struct err *err)
{
	_cleanup_buf_ struct buf text;
	int wrote = 0;

	buf_init(&text, FEATURE_FILE_MAX);
	if (buf_same(plain, &keep->plain) && (expiry_s == 0 || now_s < keep->refresh_s) &&
	    feature_file_is(path, &keep->written))
		return 0;

	int rc = expiry_s > 0 ? add_expiry(now_s + expiry_s, &text) : 0;
	if (rc == 0)
		rc = buf_add(&text, buf_text(plain), plain->length);
	if (rc < 0)
		return err_set(err, rc, "the labels for '%s': %s", path, err_describe(rc));
	if (!feature_file_is(path, &text)) {
		rc = feature_file_write(path, &text, err);
		wrote = 1;
	}

	if (rc < 0)
		return rc;

	keep->refresh_s = now_s + expiry_s / FEATURE_FILE_EXPIRY_PARTS;
	buf_clear(&keep->written);
	buf_clear(&keep->plain);

	rc = buf_add(&keep->written, buf_text(&text), text.length);
	if (rc == 0)
		rc = buf_add(&keep->plain, buf_text(plain), plain->length);

	return rc < 0 ? err_set(err, rc, "out of memory for '%s'", path) : wrote;
}

int feature_file_remove(const char *path, struct err *err)
{
	if (unlink(path) < 0 && errno != ENOENT)
		return err_set(err, -errno, "cannot remove '%s': %s", path, err_describe(-errno));
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* In what two fingerprints differ: see fingerprint.h. */
#include "bench/fingerprint.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/names.h"
#include "base/text.h"

/* These differ between any two minutes, or processes. */
static const char *const diff_restless[] = {"shm_free_bytes", "cgroup"};

static bool diff_is_restless(const char *key)
{
	return names_find(diff_restless, key) >= 0;
}

static int diff_value(json_t *value, struct buf *out)
{
	if (!value)
		return buf_add_text(out, "-");

	char *text =
	    json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!text && !json_is_string(value))
		return -ENOMEM;

	const char *shown = text ? text : json_string_value(value);
	int rc = text_escape(out, shown, strlen(shown));

	free(text);
	return rc;
}

static int diff_line(const char *prefix, const char *key, json_t *a, json_t *b, struct buf *out)
{
	int rc = buf_add_text(out, prefix);
	if (rc == 0)
		rc = text_escape(out, key, strlen(key));
	if (rc == 0)
		rc = buf_add_text(out, ": A ");
	if (rc == 0)
		rc = diff_value(a, out);

	if (rc == 0)
		rc = buf_add_text(out, ", B ");
	if (rc == 0)
		rc = diff_value(b, out);

	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

/* What A has and B has otherwise; `only_missing`: what A has and B has not at all. */
static int diff_members(const char *prefix, json_t *a, json_t *b, bool is_turned, struct buf *out,
			size_t *count)
{
	const char *key;
	json_t *value;
	int rc = 0;

	json_object_foreach(a, key, value)

	{
		json_t *other = json_object_get(b, key);
		bool is_seen = is_turned ? other != NULL : other && json_equal(value, other);
		if (rc < 0 || is_seen || diff_is_restless(key) || json_is_object(value))
			continue;

		(*count)++;
		rc = diff_line(prefix, key, is_turned ? NULL : value, is_turned ? value : other,
			       out);
	}

	return rc;
}

static int diff_both(const char *prefix, json_t *a, json_t *b, struct buf *out, size_t *count)
{
	int rc = diff_members(prefix, a, b, false, out, count);
	return rc == 0 ? diff_members(prefix, b, a, true, out, count) : rc;
}

int fingerprint_differences(const char *a, const char *b, struct buf *out, size_t *out_count,
			    struct err *err)
{
	size_t count = 0;
	json_t *left = json_loads(a, 0, NULL), *right = json_loads(b, 0, NULL);
	int rc = json_is_object(left) && json_is_object(right)
		     ? 0
		     : err_set(err, -EINVAL, "a fingerprint is no JSON object");
	if (rc == 0)
		rc = diff_both("", left, right, out, &count);

	if (rc == 0)
		rc = diff_both("environment.", json_object_get(left, "environment"),
			       json_object_get(right, "environment"), out, &count);

	json_decref(left);
	json_decref(right);
	if (rc == 0 && out_count)
		*out_count = count;

	return rc;
}

bool fingerprint_is_simulated(const char *text)
{
	json_t *root = text ? json_loads(text, 0, NULL) : NULL;
	bool is_simulated = json_is_true(json_object_get(root, "simulated"));
	json_decref(root);
	return is_simulated;
}

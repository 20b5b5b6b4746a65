/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/runtime/daemon_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

static const char features_key[] = "features";
static const char cdi_key[] = "cdi";

static void release(json_t **json)
{
	json_decref(*json);
}

/* Where the JSON begins: docker takes a UTF-8 byte order mark, jansson does not. */
static size_t mark_length(const char *text, size_t length)
{
	return length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static bool is_blank(char byte)
{
	return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool is_empty(const char *text, size_t length)
{
	for (size_t i = mark_length(text, length); i < length; i++)
		if (!is_blank(text[i]))
			return false;
	return true;
}

/* The text as a value, an object; `out` owned. */
static int load(const char *text, size_t length, const char *name, json_t **out, struct err *err)
{
	if (length > DAEMON_JSON_TEXT_MAX)
		return err_set(err, -E2BIG, "%s: is longer than the %d bytes that are allowed",
			       name, DAEMON_JSON_TEXT_MAX);
	if (is_empty(text, length)) {
		*out = json_object();
		return *out ? 0 : err_set(err, -ENOMEM, "%s: out of memory", name);
	}

	/* jansson 2.14 skips a NUL behind a number. */
	if (memchr(text, '\0', length))
		return err_set(err, -EINVAL, "%s: is not JSON: has a NUL byte", name);

	size_t mark = mark_length(text, length);
	json_error_t error;
	_cleanup_(release) json_t *json =
	    json_loadb(text + mark, length - mark, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	if (!json && json_error_code(&error) == json_error_out_of_memory)
		return err_set(err, -ENOMEM, "%s: out of memory", name);

	if (!json)
		return err_set(err, -EINVAL, "%s:%d:%d: is not JSON: %s", name, error.line,
			       error.column, error.text);
	if (!json_is_object(json))
		return err_set(err, -EINVAL, "%s: has to be an object", name);

	*out = take_ptr(json);
	return 0;
}

/* --- where things stand: in a text that is known to be JSON ---------------------------------- */

struct member {
	size_t key, key_end; /* with its quotes */
	size_t value, value_end;
};

/* What an object holds of one name, and what is needed to add it. */
struct spot {
	bool is_found;
	struct member found;
	size_t open;   /* of the '{' */
	size_t close;  /* of the '}' */
	size_t blanks; /* before the last key: from here to last.key */
	struct member last;
	size_t count;
};

static size_t skip_blanks(const char *text, size_t at)
{
	while (is_blank(text[at]))
		at++;
	return at;
}

static size_t skip_string(const char *text, size_t at)
{
	for (at++; text[at] != '"'; at++)
		if (text[at] == '\\')
			at++;
	return at + 1;
}

static size_t skip_value(const char *text, size_t at)
{
	size_t depth = 0;

	do {
		if (text[at] == '"') {
			at = skip_string(text, at);
		} else if (text[at] == '{' || text[at] == '[') {
			depth++;
			at++;
		} else if (text[at] == '}' || text[at] == ']') {
			depth--;

			at++;
		} else if (depth > 0) {
			at++;
		} else {
			while (!strchr(",]} \t\r\n", text[at])) /* valid: one comes */
				at++;
		}
	} while (depth > 0);
	return at;
}

/* Whether a key with its quotes is `name`, however it is written. */
static bool is_key(const char *text, const struct member *member, const char *name)
{
	_cleanup_(release) json_t *key =
	    json_loadb(text + member->key, member->key_end - member->key,
		       JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	return key && strcmp(json_string_value(key), name) == 0;
}

/* The object whose '{' is at `open`. */
static struct spot spot_find(const char *text, size_t open, const char *name)
{
	struct spot spot = {.open = open};
	size_t at = open + 1;

	for (;;) {
		size_t blanks = at;

		at = skip_blanks(text, at);
		if (text[at] == '}')
			break;

		struct member member = {.key = at};
		member.key_end = skip_string(text, at);
		at = skip_blanks(text, member.key_end) + 1; /* the colon */
		member.value = skip_blanks(text, at);
		member.value_end = skip_value(text, member.value);
		if (is_key(text, &member, name)) {
			spot.is_found = true;
			spot.found = member;
		}

		spot.blanks = blanks;
		spot.last = member;
		spot.count++;
		at = skip_blanks(text, member.value_end);
		if (text[at] == '}')
			break;

		at++; /* the comma */
	}

	spot.close = at;
	return spot;
}

static uint32_t line_of(const char *text, size_t at)
{
	uint32_t line = 1;
	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	return line;
}

/* --- what it says ---------------------------------------------------------------------------- */

static int wrong(const char *name, const char *key, const char *wanted, struct err *err)
{
	return err_set(err, -EINVAL, "%s: '%s' has to be %s", name, key, wanted);
}

/* A program of NVIDIA's among the runtimes. */
static void read_runtimes(const json_t *runtimes, struct daemon_json *out)
{
	const char *name;
	json_t *runtime;
	json_object_foreach((json_t *)runtimes, name, runtime)

	{
		const char *path = json_string_value(json_object_get(runtime, "path"));
		if (strcmp(name, "nvidia") == 0 ||
		    (path && strstr(path, "nvidia-container-runtime")))
			(void)snprintf(out->nvidia_path, sizeof(out->nvidia_path), "%s",
				       path ? path : name);
	}
}

static void read_directories(const json_t *directories, struct daemon_json *out)
{
	out->has_directories = json_array_size(directories) > 0;
	for (size_t i = 0; i < json_array_size(directories); i++) {
		const char *path = json_string_value(json_array_get(directories, i));
		if (path && (strcmp(path, "/var/run/cdi") == 0 || strcmp(path, "/run/cdi") == 0))
			out->has_run_directory = true;
	}
}

/* All of it, owned by the caller also on failure, and the features in it; NULL where there are
 * none.
 */
static int load_features(const char *text, size_t length, const char *name, json_t **out_root,
			 const json_t **out, struct err *err)
{
	int rc = load(text, length, name, out_root, err);
	if (rc < 0)
		return rc;

	const json_t *features = json_object_get(*out_root, features_key);
	if (features && !json_is_object(features))
		return wrong(name, "features", "an object", err);

	const json_t *cdi = json_object_get(features, cdi_key);
	if (cdi && !json_is_boolean(cdi))
		return wrong(name, "features.cdi", "true or false", err);

	*out = features;
	return 0;
}

int daemon_json_parse(const char *text, size_t length, const char *name, struct daemon_json *out,
		      struct err *err)
{
	_cleanup_(release) json_t *root = NULL;
	const json_t *features = NULL;
	int rc = load_features(text, length, name, &root, &features, err);
	if (rc < 0)
		return rc;

	struct daemon_json found = {.cdi = DAEMON_JSON_UNSET};
	const json_t *cdi = json_object_get(features, cdi_key);
	if (cdi) {
		found.cdi = json_is_true(cdi) ? DAEMON_JSON_ON : DAEMON_JSON_OFF;
		size_t open = skip_blanks(text, mark_length(text, length));
		struct spot outer = spot_find(text, open, features_key);
		struct spot inner = spot_find(text, outer.found.value, cdi_key);
		found.cdi_line = line_of(text, inner.found.value);
	}

	const char *runtime = json_string_value(json_object_get(root, "default-runtime"));
	(void)snprintf(found.default_runtime, sizeof(found.default_runtime), "%s",
		       runtime ? runtime : "");
	read_runtimes(json_object_get(root, "runtimes"), &found);
	read_directories(json_object_get(root, "cdi-spec-dirs"), &found);
	*out = found;

	return 0;
}

/* --- the edit -------------------------------------------------------------------------------- */

/* Replaces text[from, to) by what `format` gives. */
static int splice(const char *text, size_t length, size_t from, size_t to, struct buf *out,
		  const struct buf *put)
{
	int rc = buf_add(out, text, from);
	if (rc == 0)
		rc = buf_add(out, put->data, put->length);
	if (rc == 0)
		rc = buf_add(out, text + to, length - to);
	return rc;
}

/* A new member behind the last one, set apart as that one is, or as that one's value. */
static int put_behind(const char *text, const struct spot *spot, struct buf *put)
{
	size_t width = spot->last.key - spot->blanks;
	bool is_airy = width == 0 && spot->count == 1 && text[spot->last.value - 1] == ' ';
	int rc = buf_add_text(put, is_airy ? ", " : ",");
	return rc == 0 ? buf_add(put, text + spot->blanks, width) : rc;
}

/* "features": {"cdi": true}, over several lines if the members around it are. */
static int put_features(const char *text, const struct spot *spot, struct buf *put)
{
	int rc = put_behind(text, spot, put);
	size_t indent = spot->last.key;
	while (indent > spot->blanks && text[indent - 1] != '\n')
		indent--;

	size_t width = spot->last.key - indent;

	if (rc < 0 || indent == spot->blanks)
		return rc < 0 ? rc : buf_add_text(put, "\"features\": {\"cdi\": true}");

	bool is_crlf = indent - spot->blanks >= 2 && text[indent - 2] == '\r';
	const char *end = is_crlf ? "\r\n" : "\n";
	const char *blanks = text + indent;

	return buf_printf(put, "\"features\": {%s%.*s%.*s\"cdi\": true%s%.*s}", end, (int)width,
			  blanks, (int)width, blanks, end, (int)width, blanks);
}

/* The edit itself: `from`, `to` and what goes there. */
static int edit(const char *text, size_t length, struct buf *out)
{
	_cleanup_buf_ struct buf put;
	buf_init(&put, DAEMON_JSON_TEXT_MAX);

	size_t mark = mark_length(text, length);

	if (is_empty(text, length)) {
		int rc = buf_add(out, text, mark);
		return rc < 0 ? rc
			      : buf_add_text(out, "{\n    \"features\": {\n        \"cdi\": true\n"
						  "    }\n}\n");
	}

	size_t open = skip_blanks(text, mark);
	struct spot outer = spot_find(text, open, features_key), inner;
	size_t from, to;
	int rc;

	if (!outer.is_found && outer.count == 0) {
		from = open;
		to = outer.close + 1;
		rc = buf_add_text(&put, "{\n    \"features\": {\n        \"cdi\": true\n    }\n}");
	} else if (!outer.is_found) {
		from = to = outer.last.value_end;
		rc = put_features(text, &outer, &put);
	} else if (inner = spot_find(text, outer.found.value, cdi_key), inner.is_found) {
		from = inner.found.value;
		to = inner.found.value_end;

		rc = buf_add_text(&put, "true");
	} else if (inner.count == 0) {
		from = inner.open;
		to = inner.close + 1;
		rc = buf_add_text(&put, "{\"cdi\": true}");
	} else {
		from = to = inner.last.value_end;
		rc = put_behind(text, &inner, &put);
		if (rc == 0)
			rc = buf_add_text(&put, "\"cdi\": true");
	}

	return rc < 0 ? rc : splice(text, length, from, to, out, &put);
}

/* Whether `text` is what `root` was, with CDI on, and nothing else. */
static bool is_right(const char *text, size_t length, json_t *root)
{
	_cleanup_(release) json_t *now = NULL;
	if (load(text, length, "", &now, NULL) < 0)
		return false;

	json_t *features = json_object_get(root, features_key);
	if (!features) {
		features = json_object();
		if (json_object_set_new(root, features_key, features) < 0)
			return false;
	}

	return json_object_set_new(features, cdi_key, json_true()) == 0 && json_equal(now, root);
}

int daemon_json_set_cdi(const char *text, size_t length, const char *name, struct buf *out,
			struct err *err)
{
	_cleanup_(release) json_t *root = NULL;
	const json_t *features = NULL;
	int rc = load_features(text, length, name, &root, &features, err);
	if (rc < 0)
		return rc;

	if (json_is_true(json_object_get(features, cdi_key)))
		return 0;

	size_t before = out->length;

	rc = edit(text, length, out);
	/* An edit that could change anything else would be our mistake, in a file of others. */
	if (rc == 0 && !is_right(out->data + before, out->length - before, root))
		rc = -EINVAL;
	if (rc == 0)
		return 1;

	out->length = before;
	return err_set(err, rc, "%s: %s", name,
		       rc == -EINVAL ? "is not understood" : err_describe(rc));
}

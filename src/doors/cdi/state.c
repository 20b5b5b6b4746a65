/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/cdi/state.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

enum { STATE_VERSION = 1, STATE_ROOM = 16 };

void state_done(struct state *state)
{
	for (uint32_t i = 0; i < state->uuid_count; i++)
		free(state->uuids[i]);

	for (uint32_t i = 0; i < state->source_count; i++)
		free(state->sources[i].path);

	for (uint32_t i = 0; i < state->file_count; i++) {
		free(state->files[i].path);
		free(state->files[i].kind);
	}

	free(state->uuids);
	free(state->sources);
	free(state->files);
	*state = (struct state){.uuid_count = 0};
}

/* Room for one more. */
static int state_grow(void **list, uint32_t count, size_t size, uint32_t max, struct err *err)
{
	if (count == max)
		return err_set(err, -E2BIG, "more than %u entries in " STATE_NAME, max);
	if (count % STATE_ROOM != 0)
		return 0;

	void *grown = reallocarray(*list, count + STATE_ROOM, size);
	if (!grown)
		return err_set(err, -ENOMEM, "out of memory for " STATE_NAME);

	*list = grown;
	return 0;
}

static int state_copy(const char *text, char **out, struct err *err)
{
	*out = strdup(text);
	return *out ? 0 : err_set(err, -ENOMEM, "out of memory for " STATE_NAME);
}

int state_add_uuid(struct state *state, const char *uuid, struct err *err)
{
	int rc = state_grow((void **)&state->uuids, state->uuid_count, sizeof(*state->uuids),
			    STATE_UUIDS_MAX, err);
	if (rc == 0)
		rc = state_copy(uuid, &state->uuids[state->uuid_count], err);
	state->uuid_count += rc == 0;
	return rc;
}

int state_add_source(struct state *state, const char *path, int64_t mtime_ns, struct err *err)
{
	int rc = state_grow((void **)&state->sources, state->source_count, sizeof(*state->sources),
			    STATE_SOURCES_MAX, err);
	if (rc == 0)
		rc = state_copy(path, &state->sources[state->source_count].path, err);
	if (rc == 0)
		state->sources[state->source_count++].mtime_ns = mtime_ns;
	return rc;
}

int state_add_file(struct state *state, const char *path, const char *kind, struct err *err)
{
	_cleanup_free_ char *own = NULL, *own_kind = NULL;
	int rc = state_grow((void **)&state->files, state->file_count, sizeof(*state->files),
			    STATE_FILES_MAX, err);
	if (rc == 0)
		rc = state_copy(path, &own, err);
	if (rc == 0)
		rc = state_copy(kind, &own_kind, err);

	if (rc == 0)
		state->files[state->file_count++] =
		    (struct state_file){.path = take_ptr(own), .kind = take_ptr(own_kind)};

	return rc;
}

/* --- writing --------------------------------------------------------------------------------- */

static void state_json_free(json_t **json)
{
	json_decref(*json);
}

/* Takes `value`; NULL is none. False: no memory, or a text that is no UTF-8. */
static bool state_put(json_t *list, json_t *value)
{
	return json_array_append_new(list, value) == 0;
}

/* NULL: as state_put(). */
static json_t *state_json(const struct state *state)
{
	_cleanup_(state_json_free) json_t *uuids = json_array();
	_cleanup_(state_json_free) json_t *sources = json_array();
	_cleanup_(state_json_free) json_t *files = json_array();
	bool is_good = uuids && sources && files;

	for (uint32_t i = 0; is_good && i < state->uuid_count; i++)
		is_good = state_put(uuids, json_string(state->uuids[i]));

	for (uint32_t i = 0; is_good && i < state->source_count; i++)
		is_good = state_put(sources,
				    json_pack("{s:s, s:I}", "path", state->sources[i].path,
					      "mtime_ns", (json_int_t)state->sources[i].mtime_ns));

	for (uint32_t i = 0; is_good && i < state->file_count; i++)
		is_good = state_put(files, json_pack("{s:s, s:s}", "path", state->files[i].path,
						     "kind", state->files[i].kind));

	if (!is_good)
		return NULL;

	return json_pack("{s:i, s:s, s:s, s:O, s:O, s:O}", "version", STATE_VERSION, "driver",
			 state->driver, "boot_id", state->boot_id, "files", files, "uuids", uuids,
			 "sources", sources);
}

static int state_dump(const char *bytes, size_t length, void *context)
{
	return buf_add(context, bytes, length);
}

int state_format(const struct state *state, struct buf *out, struct err *err)
{
	_cleanup_(state_json_free) json_t *json = state_json(state);
	if (!json)
		return err_set(err, -ENOMEM,
			       "out of memory for " STATE_NAME ", or a text in it "
			       "is no UTF-8");

	size_t before = out->length;

	if (json_dump_callback(json, state_dump, out, JSON_INDENT(1)) == 0 &&
	    buf_add_text(out, "\n") == 0)
		return 0;

	out->length = before;
	return err_set(err, -ENOMEM, "no room for " STATE_NAME);
}

/* --- reading --------------------------------------------------------------------------------- */

/* A text of less than `max` bytes; NULL: it is none. */
static const char *state_text(const json_t *value, size_t max)
{
	const char *text = json_string_value(value);
	return text && strlen(text) < max ? text : NULL;
}

static int state_take_uuids(const json_t *list, const char *name, struct state *out,
			    struct err *err)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		const char *uuid = state_text(json_array_get(list, i), GPU_UUID_MAX);
		rc = uuid ? state_add_uuid(out, uuid, err)
			  : err_set(err, -EINVAL, "%s: uuids[%zu] is no UUID", name, i);
	}
	return rc;
}

static int state_take_sources(const json_t *list, const char *name, struct state *out,
			      struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		const json_t *source = json_array_get(list, i);
		const char *path = state_text(json_object_get(source, "path"), STATE_TEXT_MAX);
		const json_t *mtime = json_object_get(source, "mtime_ns");
		if (!path || !json_is_integer(mtime))
			return err_set(err, -EINVAL, "%s: sources[%zu] is no file and its time",
				       name, i);

		rc = state_add_source(out, path, json_integer_value(mtime), err);
	}

	return rc;
}

static int state_take_files(const json_t *list, const char *name, struct state *out,
			    struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		const json_t *file = json_array_get(list, i);
		const char *path = state_text(json_object_get(file, "path"), STATE_TEXT_MAX);
		const char *kind = state_text(json_object_get(file, "kind"), STATE_TEXT_MAX);
		if (!path || !kind)
			return err_set(err, -EINVAL, "%s: files[%zu] is no file and its kind", name,
				       i);

		rc = state_add_file(out, path, kind, err);
	}

	return rc;
}

static int state_take(const json_t *json, const char *name, struct state *out, struct err *err)
{
	const json_t *version = json_object_get(json, "version");
	const char *driver = state_text(json_object_get(json, "driver"), sizeof(out->driver));
	const char *boot_id = state_text(json_object_get(json, "boot_id"), sizeof(out->boot_id));
	if (json_integer_value(version) != STATE_VERSION || !driver || !boot_id)
		return err_set(err, -EINVAL, "%s: not what an agent of this version writes", name);

	memcpy(out->driver, driver, strlen(driver) + 1);
	memcpy(out->boot_id, boot_id, strlen(boot_id) + 1);

	int rc = state_take_uuids(json_object_get(json, "uuids"), name, out, err);
	if (rc == 0)
		rc = state_take_sources(json_object_get(json, "sources"), name, out, err);

	return rc < 0 ? rc : state_take_files(json_object_get(json, "files"), name, out, err);
}

int state_parse(const char *text, size_t length, const char *name, struct state *out,
		struct err *err)
{
	_cleanup_state_ struct state state = {.uuid_count = 0};
	json_error_t why;

	if (length > STATE_SIZE_MAX)
		return err_set(err, -E2BIG, "%s: more than %d bytes", name, STATE_SIZE_MAX);

	_cleanup_(state_json_free) json_t *json =
	    json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
	/* It has no words for some of what it cannot allocate. */
	if (!json && (json_error_code(&why) == json_error_out_of_memory || !*why.text))
		return err_set(err, -ENOMEM, "out of memory for '%s'", name);
	if (!json)
		return err_set(err, -EINVAL, "%s:%d:%d: %s", name, why.line, why.column, why.text);

	int rc = state_take(json, name, &state, err);
	if (rc < 0)
		return rc;

	*out = state;
	state = (struct state){.uuid_count = 0};
	return 0;
}

int state_read(const char *path, struct state *out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, STATE_SIZE_MAX);
	int rc = file_read(path, &text, err);
	return rc < 0 ? rc : state_parse(buf_text(&text), text.length, path, out, err);
}

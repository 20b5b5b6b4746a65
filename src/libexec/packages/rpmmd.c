/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/rpmmd.h"

#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

enum rpmmd_field { RPMMD_NONE, RPMMD_NAME, RPMMD_ARCH };

struct rpmmd {
	XML_Parser parser; /* owned */
	package_sink sink;
	void *context; /* borrowed */
	struct package package;
	enum rpmmd_field field;
	size_t length; /* of its text */
	unsigned depth;
	size_t since_token; /* bytes fed since expat told of anything */
	int result;	    /* why it was stopped */
	const char *why;
	/* of repomd.xml */
	bool is_primary;
	char primary[RPMMD_PATH_MAX];
};

static const char *rpmmd_attribute(const char **attributes, const char *name)
{
	for (; *attributes; attributes += 2)
		if (strcmp(attributes[0], name) == 0)
			return attributes[1];
	return NULL;
}

static void rpmmd_stop(struct rpmmd *rpmmd, int rc, const char *why)
{
	rpmmd->result = rc;
	rpmmd->why = why;
	(void)XML_StopParser(rpmmd->parser, XML_FALSE); /* fails where it is stopped already */
}

static void rpmmd_on_doctype(void *context, const char *name, const char *system_id,
			     const char *public_id, int has_internal)
{
	rpmmd_stop(context, -EBADMSG, "it has a document type, which no such file has");
}

static bool rpmmd_go_down(struct rpmmd *rpmmd)
{
	rpmmd->since_token = 0;
	rpmmd->field = RPMMD_NONE;
	if (++rpmmd->depth <= RPMMD_DEPTH_MAX)
		return true;
	rpmmd_stop(rpmmd, -EBADMSG, "its elements are nested too deeply");
	return false;
}

/* --- primary.xml ------------------------------------------------------------------------------ */

/* Names may have a prefix in other dialects; in these files the ones we want have none. */
static void rpmmd_on_start(void *context, const char *name, const char **attributes)
{
	struct rpmmd *rpmmd = context;
	struct package *package = &rpmmd->package;

	if (!rpmmd_go_down(rpmmd))
		return;

	/* metadata/package/...; <format> has names of its own below. */
	if (rpmmd->depth == 1 && strcmp(name, "metadata") != 0) {
		rpmmd_stop(rpmmd, -EBADMSG, "it does not begin with <metadata>");
	} else if (rpmmd->depth == 2) {
		*package = (struct package){.name = ""};
	} else if (rpmmd->depth == 3 && strcmp(name, "name") == 0) {
		rpmmd->field = RPMMD_NAME;
		rpmmd->length = 0;
	} else if (rpmmd->depth == 3 && strcmp(name, "arch") == 0) {
		rpmmd->field = RPMMD_ARCH;
		rpmmd->length = 0;
	} else if (rpmmd->depth == 3 && strcmp(name, "version") == 0) {
		const char *version = rpmmd_attribute(attributes, "ver");
		const char *release = rpmmd_attribute(attributes, "rel");
		if (!version || !release ||
		    snprintf(package->version, sizeof(package->version), "%s-%s", version,
			     release) >= (int)sizeof(package->version))
			*package->version = '\0';
	}
}

static void rpmmd_on_text(void *context, const char *text, int length)
{
	struct rpmmd *rpmmd = context;
	char *out = rpmmd->field == RPMMD_NAME ? rpmmd->package.name : rpmmd->package.arch;
	size_t size =
	    rpmmd->field == RPMMD_NAME ? sizeof(rpmmd->package.name) : sizeof(rpmmd->package.arch);

	rpmmd->since_token = 0;
	if (rpmmd->field == RPMMD_NONE || length < 0)
		return;

	if (rpmmd->length + (size_t)length >= size) {
		rpmmd->field = RPMMD_NONE;
		*out = '\0';
		return;
	}

	memcpy(out + rpmmd->length, text, (size_t)length);
	rpmmd->length += (size_t)length;
	out[rpmmd->length] = '\0';
}

static void rpmmd_on_end(void *context, const char *name)
{
	struct rpmmd *rpmmd = context;
	rpmmd->since_token = 0;
	rpmmd->field = RPMMD_NONE;
	if (rpmmd->depth == 2 && strcmp(name, "package") == 0 &&
	    package_is_valid(&rpmmd->package) && strcmp(rpmmd->package.arch, "src") != 0) {
		int rc = rpmmd->sink(&rpmmd->package, rpmmd->context);
		if (rc != 0)
			rpmmd_stop(rpmmd, rc, NULL);
	}

	rpmmd->depth--;
}

/* --- repomd.xml ------------------------------------------------------------------------------- */

static void rpmmd_on_start_index(void *context, const char *name, const char **attributes)
{
	struct rpmmd *rpmmd = context;
	if (!rpmmd_go_down(rpmmd))
		return;

	if (rpmmd->depth == 1 && strcmp(name, "repomd") != 0) {
		rpmmd_stop(rpmmd, -EBADMSG, "it does not begin with <repomd>");
	} else if (rpmmd->depth == 2) {
		const char *type = rpmmd_attribute(attributes, "type");
		rpmmd->is_primary =
		    strcmp(name, "data") == 0 && type && strcmp(type, "primary") == 0;
	} else if (rpmmd->depth == 3 && rpmmd->is_primary && strcmp(name, "location") == 0) {
		const char *path = rpmmd_attribute(attributes, "href");
		if (path && snprintf(rpmmd->primary, sizeof(rpmmd->primary), "%s", path) >=
				(int)sizeof(rpmmd->primary))
			rpmmd_stop(rpmmd, -EBADMSG, "the path of its primary.xml is too long");
	}
}

static void rpmmd_on_end_index(void *context, const char *name)
{
	struct rpmmd *rpmmd = context;
	rpmmd->depth--;
}

/* --- both ------------------------------------------------------------------------------------- */

struct rpmmd *rpmmd_new(package_sink sink, void *context, struct err *err)
{
	struct rpmmd *rpmmd = calloc(1, sizeof(*rpmmd));
	if (rpmmd)
		rpmmd->parser = XML_ParserCreate(NULL);

	if (!rpmmd || !rpmmd->parser) {
		free(rpmmd);
		(void)err_set(err, -ENOMEM, "out of memory for an XML parser");
		return NULL;
	}

	rpmmd->sink = sink;
	rpmmd->context = context;
	XML_SetUserData(rpmmd->parser, rpmmd);
	XML_SetStartDoctypeDeclHandler(rpmmd->parser, rpmmd_on_doctype);

	if (sink) {
		XML_SetElementHandler(rpmmd->parser, rpmmd_on_start, rpmmd_on_end);
		XML_SetCharacterDataHandler(rpmmd->parser, rpmmd_on_text);
	} else {
		XML_SetElementHandler(rpmmd->parser, rpmmd_on_start_index, rpmmd_on_end_index);
	}

	return rpmmd;
}

struct rpmmd *rpmmd_free(struct rpmmd *rpmmd)
{
	if (rpmmd)
		XML_ParserFree(rpmmd->parser);
	free(rpmmd);
	return NULL;
}

static int rpmmd_parse(struct rpmmd *rpmmd, const char *data, size_t length, bool is_last,
		       struct err *err)
{
	if (length > RPMMD_BUFFER_MAX)
		return err_set(err, -EBADMSG, "more than %d bytes at once", RPMMD_BUFFER_MAX);

	/* What expat has not understood yet it keeps. */
	rpmmd->since_token += length;
	if (XML_Parse(rpmmd->parser, data, (int)length, is_last) == XML_STATUS_OK) {
		if (rpmmd->since_token <= RPMMD_BUFFER_MAX)
			return 0;
		return err_set(err, -EBADMSG, "a tag of it is longer than %d bytes",
			       RPMMD_BUFFER_MAX);
	}

	enum XML_Error code = XML_GetErrorCode(rpmmd->parser);
	if (code == XML_ERROR_NO_MEMORY)
		return err_set(err, -ENOMEM, "out of memory for XML");
	if (rpmmd->result != 0 && !rpmmd->why)
		return rpmmd->result;

	return err_set(err, -EBADMSG, "line %lu: %s",
		       (unsigned long)XML_GetCurrentLineNumber(rpmmd->parser),
		       rpmmd->why ? rpmmd->why : XML_ErrorString(code));
}

int rpmmd_feed(struct rpmmd *rpmmd, const char *data, size_t length, struct err *err)
{
	return rpmmd_parse(rpmmd, data, length, false, err);
}

int rpmmd_end(struct rpmmd *rpmmd, struct err *err)
{
	return rpmmd_parse(rpmmd, "", 0, true, err);
}

static void rpmmd_cleanup(struct rpmmd **rpmmd)
{
	*rpmmd = rpmmd_free(*rpmmd);
}

int rpmmd_find_primary(const char *text, size_t length, char out[RPMMD_PATH_MAX], struct err *err)
{
	_cleanup_(rpmmd_cleanup) struct rpmmd *rpmmd = rpmmd_new(NULL, NULL, err);
	if (!rpmmd)
		return err ? err->code : -ENOMEM;

	int rc = rpmmd_parse(rpmmd, text, length, true, err);
	if (rc < 0)
		return rc;

	const char *path = rpmmd->primary;
	if (!*path)
		return err_set(err, -ENOENT, "it names no primary.xml");
	if (*path == '/' || strstr(path, "..") || strpbrk(path, ":?#\\ \t\r\n%"))
		return err_set(err, -EBADMSG,
			       "its primary.xml '%.100s' is not a path within the repository",
			       path);

	(void)snprintf(out, RPMMD_PATH_MAX, "%s", path);
	return 0;
}

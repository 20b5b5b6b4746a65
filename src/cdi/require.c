/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/require.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/text.h"
#include "cdi/oci.h"

#define REQUIRE_PREFIX "NVIDIA_REQUIRE_"
/* Of Tegra, and no requirement. */
#define REQUIRE_OTHER "NVIDIA_REQUIRE_JETPACK"

enum require_property {
	REQUIRE_CUDA,
	REQUIRE_DRIVER,
	REQUIRE_ARCH,
	REQUIRE_BRAND,
	REQUIRE_UNKNOWN
};
enum require_operator {
	REQUIRE_NOT_EQUAL,
	REQUIRE_AT_MOST,
	REQUIRE_AT_LEAST,
	REQUIRE_EQUAL,
	REQUIRE_BELOW,
	REQUIRE_ABOVE,
	REQUIRE_OPERATORS,
};

static const char *const require_properties[] = {"cuda", "driver", "arch", "brand"};
/* In this order: the longer ones first. */
static const char *const require_operators[] = {"!=", "<=", ">=", "=", "<", ">"};

struct require_term {
	enum require_property property;
	enum require_operator compare;
	const char *name, *value; /* borrowed of the text */
	size_t name_length, value_length;
};

/* The number at the front of "12.8.1"; moves behind its dot. False: there is none. */
static bool require_field(const char **at, const char *end, uint64_t *out)
{
	const char *dot = memchr(*at, '.', (size_t)(end - *at));
	const char *stop = dot ? dot : end;
	if (parse_u64_span(*at, (size_t)(stop - *at), 0, UINT32_MAX, out) < 0)
		return false;
	*at = dot ? dot + 1 : end;
	return !dot || *at < end;
}

static bool require_is_version(const char *text, size_t length)
{
	const char *at = text, *end = text + length;
	uint64_t field;
	do {
		if (!require_field(&at, end, &field))
			return false;
	} while (at < end);
	return true;
}

/* Both valid. Fields that are missing are 0. */
static int require_compare(const char *left, size_t left_length, const char *right,
			   size_t right_length)
{
	const char *left_end = left + left_length, *right_end = right + right_length;

	while (left < left_end || right < right_end) {
		uint64_t a = 0, b = 0;

		if (left < left_end)
			(void)require_field(&left, left_end, &a);
		if (right < right_end)
			(void)require_field(&right, right_end, &b);
		if (a != b)
			return a < b ? -1 : 1;
	}

	return 0;
}

static enum require_property require_property_of(const char *name, size_t length)
{
	size_t i = 0;
	while (i < array_length(require_properties) &&
	       (strlen(require_properties[i]) != length ||
		memcmp(require_properties[i], name, length) != 0))
		i++;
	return (enum require_property)i;
}

static bool require_term_parse(const char *text, size_t length, struct require_term *out)
{
	size_t at = 0;
	while (at < length && !strchr("!<>=", text[at]))
		at++;

	*out = (struct require_term){.name = text,
				     .name_length = at,
				     .property = require_property_of(text, at),
				     .compare = REQUIRE_OPERATORS};
	for (size_t i = 0; i < array_length(require_operators); i++) {
		size_t size = strlen(require_operators[i]);
		if (length - at < size || memcmp(text + at, require_operators[i], size) != 0)
			continue;

		out->compare = (enum require_operator)i;
		at += size;
		break;
	}

	out->value = text + at;
	out->value_length = length - at;
	if (out->compare == REQUIRE_OPERATORS || out->name_length == 0 || out->value_length == 0)
		return false;

	for (size_t i = 0; i < out->value_length; i++)
		if (strchr("!<>=", out->value[i]))
			return false;

	if (out->property == REQUIRE_UNKNOWN)
		return true;
	if (out->property == REQUIRE_BRAND)
		return out->compare == REQUIRE_EQUAL || out->compare == REQUIRE_NOT_EQUAL;

	return require_is_version(out->value, out->value_length);
}

/* "tesla"; images say "vapps" for NVIDIA's "NvidiaVApps". */
static bool require_is_brand(const struct require_term *term, const char *brand)
{
	static const char maker[] = "Nvidia";
	size_t skip = strlen(maker);
	if (strlen(brand) == term->value_length &&
	    strncasecmp(brand, term->value, term->value_length) == 0)
		return true;
	return strncmp(brand, maker, skip) == 0 && strlen(brand + skip) == term->value_length &&
	       strncasecmp(brand + skip, term->value, term->value_length) == 0;
}

static bool require_holds(const struct require_term *term, const struct require_facts *facts)
{
	if (term->property >= REQUIRE_ARCH && !facts->has_gpu)
		return true;
	if (term->property == REQUIRE_BRAND)
		return require_is_brand(term, facts->brand) == (term->compare == REQUIRE_EQUAL);

	const char *fact = term->property == REQUIRE_CUDA     ? facts->cuda
			   : term->property == REQUIRE_DRIVER ? facts->driver
							      : facts->arch;
	if (!require_is_version(fact, strlen(fact)))
		return false; /* not known: not to be relied on */

	int order = require_compare(fact, strlen(fact), term->value, term->value_length);

	switch (term->compare) {
	case REQUIRE_EQUAL:
		return order == 0;
	case REQUIRE_NOT_EQUAL:
		return order != 0;
	case REQUIRE_BELOW:
		return order < 0;
	case REQUIRE_AT_MOST:
		return order <= 0;
	case REQUIRE_ABOVE:
		return order > 0;
	default:
		return order >= 0;
	}
}

static bool require_is_blank(char letter)
{
	return letter == ' ' || letter == '\t' || letter == '\n';
}

/* One alternative. `out_known` counts its terms of properties that are known. */
static int require_alternative(const char *text, size_t length, size_t offset,
			       const struct require_facts *facts, bool *out_holds,
			       size_t *out_known, struct buf *unknown, struct err *err)
{
	*out_holds = true;
	*out_known = 0;
	for (size_t at = 0; at <= length;) {
		const char *comma = memchr(text + at, ',', length - at);
		size_t size = comma ? (size_t)(comma - text) - at : length - at;
		struct require_term term;

		if (!require_term_parse(text + at, size, &term))
			return err_set(err, -EINVAL,
				       "at byte %zu: '%.*s' is no requirement: cuda, driver, arch "
				       "or brand, a comparison and a version",
				       offset + at, (int)(size < 64 ? size : 64), text + at);

		if (term.property == REQUIRE_UNKNOWN && unknown &&
		    buf_printf(unknown, "%.*s\n", (int)(size < 64 ? size : 64), text + at) ==
			-ENOMEM)
			return err_set(err, -ENOMEM, "out of memory for a requirement");

		if (term.property != REQUIRE_UNKNOWN) {
			(*out_known)++;
			*out_holds = *out_holds && require_holds(&term, facts);
		}

		at += size + 1;
	}

	return 0;
}

int require_check(const char *text, size_t length, const struct require_facts *facts,
		  bool *out_is_met, struct buf *unknown, struct err *err)
{
	if (length > REQUIRE_EXPRESSION_MAX)
		return err_set(err, -E2BIG, "a requirement of more than %d bytes",
			       REQUIRE_EXPRESSION_MAX);

	bool is_met = false, is_any = false;

	for (size_t at = 0; at < length;) {
		size_t end = at;
		while (end < length && !require_is_blank(text[end]))
			end++;

		bool holds;
		size_t known = 0;
		int rc = end == at ? 0
				   : require_alternative(text + at, end - at, at, facts, &holds,
							 &known, unknown, err);
		if (rc < 0)
			return rc;

		/* Of unknown properties alone it says nothing, neither yes nor no. */
		is_any = is_any || known > 0;
		is_met = is_met || (known > 0 && holds);
		at = end + 1;
	}

	*out_is_met = is_met || !is_any;
	return 0;
}

/* ---- An environment ---- */

/* What Go's strconv.ParseBool takes for true. */
static bool require_is_disabled(const json_t *env)
{
	static const char *const words[] = {"1", "t", "T", "TRUE", "true", "True"};
	const char *value =
	    oci_variable(env, "NVIDIA_DISABLE_REQUIRE", strlen("NVIDIA_DISABLE_REQUIRE"));
	return value && names_find(words, value) >= 0;
}

/* An expression of the variable `name`. Keeps the first reason. */
static int require_one(const char *name, const char *text, const struct require_facts *facts,
		       bool *io_is_met, struct err *why, struct buf *unknown, struct err *err)
{
	bool is_met;
	int rc = require_check(text, strlen(text), facts, &is_met, unknown, err);
	if (rc < 0)
		return err_wrap(err, "%.128s", name);

	if (!is_met && *io_is_met)
		(void)err_set(why, -ENOTSUP,
			      "%.64s needs '%.200s'; here are cuda %s, driver %s%s%s%s%s", name,
			      text, facts->cuda[0] ? facts->cuda : "(not known)",
			      facts->driver[0] ? facts->driver : "(not known)",
			      facts->has_gpu ? ", arch " : "", facts->has_gpu ? facts->arch : "",
			      facts->has_gpu ? ", brand " : "", facts->has_gpu ? facts->brand : "");

	*io_is_met = *io_is_met && is_met;
	return 0;
}

static int require_legacy(const char *version, const struct require_facts *facts, bool *io_is_met,
			  struct err *why, struct buf *unknown, struct err *err)
{
	char text[64];
	const char *dot = strchr(version, '.'), *second = dot ? strchr(dot + 1, '.') : NULL;
	int length = (int)(second ? second - version : (ptrdiff_t)strnlen(version, 32));
	(void)snprintf(text, sizeof(text), "cuda>=%.*s", length < 32 ? length : 32, version);
	return require_one("CUDA_VERSION", text, facts, io_is_met, why, unknown, err);
}

int require_env(const json_t *env, const struct require_facts *facts, bool *out_is_met,
		struct err *why, struct buf *unknown, struct err *err)
{
	bool is_met = true;
	int rc = 0;
	size_t i;
	json_t *entry;

	if (require_is_disabled(env)) {
		*out_is_met = true;
		return 0;
	}

	json_array_foreach(env, i, entry)

	{
		const char *text = json_string_value(entry);
		const char *equals = text ? strchr(text, '=') : NULL;
		if (rc < 0 || !equals || !text_starts_with(text, REQUIRE_PREFIX) ||
		    text_starts_with(text, REQUIRE_OTHER))
			continue;

		char name[64];
		(void)snprintf(name, sizeof(name), "%.*s", (int)(equals - text),
			       text); /* may be cut */
		rc = require_one(name, equals + 1, facts, &is_met, why, unknown, err);
	}

	const char *version = oci_variable(env, "CUDA_VERSION", strlen("CUDA_VERSION"));
	const char *cuda = oci_variable(env, REQUIRE_PREFIX "CUDA", strlen(REQUIRE_PREFIX "CUDA"));
	if (rc == 0 && version && version[0] && (!cuda || !cuda[0]))
		rc = require_legacy(version, facts, &is_met, why, unknown, err);
	if (rc == 0)
		*out_is_met = is_met;

	return rc;
}

static int require_env_lines(const char *text, size_t length, json_t **out, struct err *err)
{
	json_auto_t *list = json_array();
	bool failed = !list;
	const char *end = text + length;

	for (const char *at = text; at < end && !failed;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t size = (size_t)((stop ? stop : end) - at);
		if (size > 0 && *at != '#') {
			json_t *line = json_stringn(at, size);
			if (!line)
				return err_set(err, -EINVAL, "a line that is no text");
			failed = json_array_append_new(list, line);
		}

		at += size + 1;
	}

	if (failed)
		return err_set(err, -ENOMEM, "out of memory for an environment");

	*out = json_incref(list);
	return 0;
}

/* The list that is meant: itself, or "Env", perhaps in "Config", perhaps of the first of several.
 */
static json_t *require_env_find(json_t *value)
{
	json_t *first = json_array_get(value, 0);
	if (json_is_object(first))
		value = first;
	if (json_is_array(value))
		return value;
	json_t *config = json_object_get(value, "Config");
	return json_object_get(config ? config : value, "Env");
}

int require_env_parse(const char *text, size_t length, json_t **out, struct err *err)
{
	size_t at = 0;
	while (at < length && require_is_blank(text[at]))
		at++;

	if (length > OCI_TEXT_MAX)
		return err_set(err, -E2BIG, "more than %d bytes", OCI_TEXT_MAX);
	if (at == length || (text[at] != '[' && text[at] != '{'))
		return require_env_lines(text, length, out, err);

	/* oci_parse() has the limits, and takes an object. */
	_cleanup_buf_ struct buf wrapped;
	buf_init(&wrapped, (size_t)OCI_TEXT_MAX + 8);

	json_auto_t *value = NULL;

	if (buf_add_text(&wrapped, "{\"\":") < 0 || buf_add(&wrapped, text, length) < 0 ||
	    buf_add_text(&wrapped, "}") < 0)
		return err_set(err, -ENOMEM, "out of memory for an environment");

	int rc = oci_parse(buf_text(&wrapped), wrapped.length, &value, err);
	if (rc < 0)
		return rc;

	json_t *list = require_env_find(json_object_get(value, ""));
	if (!json_is_array(list))
		return err_set(err, -EINVAL, "there is no list 'Env' in it");

	*out = json_incref(list);
	return 0;
}

void require_facts_of(const struct inventory *inventory, const struct gpu *gpu,
		      struct require_facts *out)
{
	*out = (struct require_facts){.has_gpu = gpu, .brand = "Unknown"};
	if (inventory->cuda_version > 0)
		(void)snprintf(out->cuda, sizeof(out->cuda), "%u.%u",
			       inventory->cuda_version / 1000 % 10000,
			       inventory->cuda_version % 1000 / 10);

	memcpy(out->driver, inventory->driver_version, sizeof(out->driver));
	if (!gpu)
		return;
	if (gpu->cc_major != GPU_U32_UNKNOWN && gpu->cc_minor != GPU_U32_UNKNOWN)
		(void)snprintf(out->arch, sizeof(out->arch), "%u.%u", gpu->cc_major % 10000,
			       gpu->cc_minor % 10000);

	out->brand = gpu_brand_to_string(gpu->brand);
}

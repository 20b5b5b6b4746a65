/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/domain.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/text.h"
#include "policy/config.h"

enum schema_limits {
	SCHEMA_WORD_MAX = 32, /* bytes of one word with its NUL */
	SCHEMA_CPU_MILLI_MAX = 1000000000,
};

static const struct schema_row rows[SCHEMA_COUNT] = {
#define FLAGS(id, path_, type_, member, words_, default_, flag_, other_, variable_, help_)         \
	[SCHEMA_##id] = {                                                                          \
	    .path = path_,                                                                         \
	    .type = type_,                                                                         \
	    .offset = offsetof(struct config, member),                                             \
	    .words = words_,                                                                       \
	    .default_text = default_,                                                              \
	    .flag = flag_,                                                                         \
	    .other_flag = other_,                                                                  \
	    .variable = variable_,                                                                 \
	    .help = help_,                                                                         \
	},
#define FLAG(id, path_, type_, member, words_, default_, flag_, variable_, help_)                  \
	FLAGS(id, path_, type_, member, words_, default_, flag_, NULL, variable_, help_)
#define LABELS FLAG
#define PLAIN(id, path_, type_, member, words_, default_, help_)                                   \
	FLAGS(id, path_, type_, member, words_, default_, NULL, NULL, NULL, help_)
#include "policy/schema.def"
#undef PLAIN
#undef FLAG
#undef FLAGS
#undef LABELS
};

const struct schema_row *schema_row(enum schema_id id)
{
	return &rows[id];
}

static void *schema_member(struct config *config, const struct schema_row *row)
{
	return (char *)config + row->offset;
}

/* Copies word `index` of "a|b|c". False: there is none. */
static bool word_at(const char *words, uint32_t index, char out[SCHEMA_WORD_MAX])
{
	for (; index > 0; index--) {
		words = strchr(words, '|');
		if (!words)
			return false;
		words++;
	}

	size_t length = strcspn(words, "|");
	if (length >= SCHEMA_WORD_MAX)
		return false;

	memcpy(out, words, length);
	out[length] = '\0';
	return true;
}

/* What is wrong with a word, in the sentence that people search for. */
static int word_error(enum schema_id id, const char *text, struct err *err)
{
	const struct schema_row *row = &rows[id];
	const char *sentence = NULL;

	switch (id) {
	case SCHEMA_VERSION:
		sentence = "unknown version: ";
		break;
	case SCHEMA_MIG_STRATEGY:
		sentence = "unknown MIG strategy: ";
		break;
	case SCHEMA_LIST_STRATEGY:
		sentence = "invalid --device-list-strategy option: invalid strategy: ";
		break;
	case SCHEMA_ID_STRATEGY:
		sentence = "invalid --device-id-strategy option: ";
		break;
	case SCHEMA_ALLOCATION_POLICY:
		sentence = "invalid --shared-devices-allocation-policy option: ";
		break;
	case SCHEMA_DISCOVERY:
		sentence = "invalid --device-discovery-strategy option ";
		break;
	case SCHEMA_IMEX_CHANNELS:
		return err_set(
		    err, -EINVAL,
		    "invalid IMEX channel IDs: channelIDs must be [] or [0]; found %.64s", text);
	default:
		sentence = "unknown value: ";
		break;
	}

	char word[SCHEMA_WORD_MAX], best[SCHEMA_WORD_MAX] = "";
	for (uint32_t i = 0; word_at(row->words, i, word); i++) {
		/* The nearest so far against one more. */
		const char *const pair[] = {best, word};
		if (suggest_nearest(text, pair, 2) == word)
			memcpy(best, word, sizeof(best));
	}

	bool near = best[0] != '\0';
	return err_set(err, -EINVAL, "%s%.64s (expected %s%s%s%s)", sentence, text, row->words,
		       near ? "; did you mean '" : "", near ? best : "", near ? "'?" : "");
}

static int word_find(enum schema_id id, const char *text, uint32_t *out, struct err *err)
{
	char word[SCHEMA_WORD_MAX];
	for (uint32_t i = 0; word_at(rows[id].words, i, word); i++) {
		if (strcmp(word, text) == 0) {
			*out = i;
			return 0;
		}
	}

	return word_error(id, text, err);
}

static int set_words(struct config *config, enum schema_id id, const char *text, struct err *err)
{
	uint32_t mask = 0;

	while (*text != '\0') {
		char word[SCHEMA_WORD_MAX];
		size_t length = strcspn(text, ",");
		if (length >= sizeof(word))
			return word_error(id, text, err);

		memcpy(word, text, length);
		word[length] = '\0';

		uint32_t index;
		int rc = word_find(id, word, &index, err);
		if (rc < 0)
			return rc;

		mask |= 1u << index;
		text += length;
		if (*text == ',' && *++text == '\0')
			return word_error(id, "", err);
	}

	if (mask == 0 && id != SCHEMA_IMEX_CHANNELS)
		return word_error(id, "", err);

	memcpy(schema_member(config, &rows[id]), &mask, sizeof(mask));
	return 0;
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* What stands before the '/' of a CDI kind:
 * https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md */
static bool is_cdi_vendor(const char *text)
{
	size_t length = strlen(text);
	if (length == 0 || (text[0] >= '0' && text[0] <= '9'))
		return false;

	for (size_t i = 0; i < length; i++) {
		bool inner = i > 0 && i + 1 < length;
		if (!is_alnum(text[i]) && !(inner && strchr("-_.", text[i])))
			return false;
	}

	return true;
}

static int codes_error(const char *text, struct err *err)
{
	return err_set(err, -EINVAL, "expected a list of XIDs, numbers up to %d, found '%.64s'",
		       CONFIG_CODE_MAX, text);
}

static int set_codes(struct config *config, const struct schema_row *row, const char *text,
		     struct err *err)
{
	struct config_codes codes = {.count = 0};
	const char *at = text;

	while (*at != '\0') {
		size_t length = strcspn(at, ",");
		uint64_t code;

		if (parse_u64_span(at, length, 0, CONFIG_CODE_MAX, &code) < 0)
			return codes_error(text, err);

		uint32_t same = 0;
		while (same < codes.count && codes.code[same] != code)
			same++;

		if (same == CONFIG_CODES_MAX)
			return err_set(err, -EINVAL, "more than %d XIDs", CONFIG_CODES_MAX);

		codes.code[same] = (uint16_t)code;
		codes.count += same == codes.count;
		at += length;
		if (*at == ',' && *++at == '\0')
			return codes_error(text, err);
	}

	memcpy(schema_member(config, row), &codes, sizeof(codes));
	return 0;
}

static int set_number(struct config *config, const struct schema_row *row, const char *text,
		      struct err *err)
{
	uint64_t largest = 0, number;
	(void)parse_u64(row->words, 0, UINT32_MAX, &largest); /* of the table */

	if (parse_u64(text, 0, largest, &number) < 0)
		return err_set(err, -EINVAL, "expected a number up to %" PRIu64 ", found '%.64s'",
			       largest, text);

	uint32_t value = (uint32_t)number;
	memcpy(schema_member(config, row), &value, sizeof(value));
	return 0;
}

/* What stands for "no number": "auto" is nothing that somebody could have counted, "none" is 0. */
static bool is_zero(const struct schema_row *row, const char *text)
{
	return strcmp(text, row->words) == 0 ||
	       (strcmp(row->words, "none") == 0 && strcmp(text, "0") == 0);
}

static int set_size(struct config *config, const struct schema_row *row, const char *text,
		    struct err *err)
{
	uint64_t bytes = 0;
	if (!is_zero(row, text) && parse_size(text, 1, INT64_MAX, &bytes) < 0)
		return err_set(err, -EINVAL,
			       "expected a size such as 512Mi, 64Gi or %s, found '%.64s'",
			       row->words, text);
	memcpy(schema_member(config, row), &bytes, sizeof(bytes));
	return 0;
}

/* As Kubernetes counts processors: "8", "7.5", "7500m". */
static int set_cpus(struct config *config, const struct schema_row *row, const char *text,
		    struct err *err)
{
	uint64_t milli = 0;
	double cpus;
	size_t length = strlen(text);

	if (is_zero(row, text)) {
		milli = 0;
	} else if (length > 1 && text[length - 1] == 'm' &&
		   parse_u64_span(text, length - 1, 1, SCHEMA_CPU_MILLI_MAX, &milli) == 0) {
		/* is read */
	} else if (parse_fraction(text, 0.001, SCHEMA_CPU_MILLI_MAX / 1000, &cpus) == 0) {
		milli = (uint64_t)(cpus * 1000 + 0.5);
	} else {
		return err_set(
		    err, -EINVAL,
		    "expected a number of processors such as 8, 7.5, 7500m or %s, found '%.64s'",
		    row->words, text);
	}

	uint32_t value = (uint32_t)milli;
	memcpy(schema_member(config, row), &value, sizeof(value));
	return 0;
}

/* Devices as a job names them: an index, GPU:MIG or a UUID. */
static int check_devices(const char *text, struct err *err)
{
	for (const char *at = text; *at != '\0';) {
		size_t length = strcspn(at, ","), colon = strcspn(at, ":,");
		uint64_t number;
		bool is_index =
		    parse_u64_span(at, colon, 0, UINT16_MAX, &number) == 0 &&
		    (colon == length || parse_u64_span(at + colon + 1, length - colon - 1, 0,
						       UINT16_MAX, &number) == 0);
		bool is_uuid =
		    length > 4 && (text_starts_with(at, "GPU-") || text_starts_with(at, "MIG-"));
		if (!is_index && !is_uuid)
			return err_set(err, -EINVAL,
				       "expected an index, \"GPU:MIG\" or a UUID, found '%.*s'",
				       (int)(length < 64 ? length : 64), at);

		at += length + (at[length] == ',');
	}

	return 0;
}

bool schema_is_group(const char *text)
{
	size_t length = strlen(text);
	bool is_good = length < CONFIG_GROUP_MAX && text[0] != '-';
	for (size_t i = 0; i < length; i++)
		is_good =
		    is_good && text[i] > ' ' && text[i] != 0x7f && text[i] != ':' && text[i] != ',';
	return is_good;
}

static int check_group(const char *text, struct err *err)
{
	if (schema_is_group(text))
		return 0;
	return err_set(err, -EINVAL, "expected the name of a group, found '%.64s'", text);
}

/* Of programs and variables: no blanks, nothing that a terminal obeys. */
static int check_names(const char *text, struct err *err)
{
	for (const char *at = text; *at != '\0';) {
		size_t length = strcspn(at, ","), i = 0;
		while (i < length && at[i] > ' ' && at[i] <= '~' && at[i] != '=')
			i++;

		bool is_last_comma = at[length] == ',' && at[length + 1] == '\0';
		if (length == 0 || i < length || is_last_comma)
			return err_set(err, -EINVAL, "expected a list of names, found '%.64s'",
				       text);

		at += length + (at[length] == ',');
	}

	return 0;
}

static int set_text(struct config *config, enum schema_id id, const char *text, struct err *err)
{
	const struct schema_row *row = &rows[id];

	if (strlen(text) >= CONFIG_TEXT_MAX)
		return err_set(err, -EINVAL, "longer than %d bytes", CONFIG_TEXT_MAX - 1);

	if (id == SCHEMA_CDI_VENDOR && !is_cdi_vendor(text))
		return err_set(err, -EINVAL,
			       "'%.64s' is no vendor of CDI devices: a letter first, then letters, "
			       "digits, '-', '_' and '.', such as " SLUICE_DOMAIN,
			       text);

	struct address address;
	if (id == SCHEMA_WEB_ADDRESS && strcmp(text, "off") != 0 &&
	    address_parse(text, strlen(text), &address, err) < 0)
		return -EINVAL;

	int rc = row->type == SCHEMA_NAMES ? check_names(text, err) : 0;
	if (rc == 0 && id == SCHEMA_JOBS_PREFER)
		rc = check_devices(text, err);
	if (rc == 0 && (id == SCHEMA_JOBS_ADMIN_GROUP || id == SCHEMA_JOBS_ENFORCE_GROUP))
		rc = check_group(text, err);
	if (rc == 0 && id == SCHEMA_JOBS_ENFORCE_GROUP && *text == '\0')
		rc = err_set(err, -EINVAL, "expected the name of a group, found none");

	if (rc < 0)
		return rc;

	char *copy = strdup(text);
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");

	char **member = schema_member(config, row);
	free(*member);
	*member = copy;

	return 0;
}

/* The words that YAML 1.1 and Go take for booleans. */
static int set_bool(struct config *config, const struct schema_row *row, const char *text,
		    struct err *err)
{
	static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "YES",
					  "on",	  "On",	  "ON",	  "y",	 "Y"};
	static const char *const no[] = {"false", "False", "FALSE", "no", "No", "NO",
					 "off",	  "Off",   "OFF",   "n",  "N"};

	bool value = names_find(yes, text) >= 0;
	if (value || names_find(no, text) >= 0) {
		memcpy(schema_member(config, row), &value, sizeof(value));
		return 0;
	}

	return err_set(err, -EINVAL, "expected true or false, found '%.64s'", text);
}

struct duration_unit {
	const char *name;
	uint64_t ns;
};

/* Longer names first where one begins with another. */
static const struct duration_unit duration_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"µs", 1000},
    {"ms", 1000000},
    {"h", UINT64_C(3600000000000)},
    {"m", UINT64_C(60000000000)},
    {"s", UINT64_C(1000000000)},
};

static const struct duration_unit *duration_unit_at(const char *text)
{
	for (size_t i = 0; i < array_length(duration_units); i++) {
		if (text_starts_with(text, duration_units[i].name))
			return &duration_units[i];
	}
	return NULL;
}

/* One "3.5s". Moves *text behind it. */
static int duration_part(const char **text, uint64_t *out_ns)
{
	const char *at = *text;
	uint64_t whole = 0, fraction = 0, scale = 1;
	size_t digits = 0;

	for (; *at >= '0' && *at <= '9'; at++, digits++) {
		if (__builtin_mul_overflow(whole, UINT64_C(10), &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*at - '0'), &whole))
			return -ERANGE;
	}

	if (*at == '.') {
		for (at++; *at >= '0' && *at <= '9'; at++, digits++) {
			if (scale < UINT64_C(1000000)) { /* finer than any use of it */
				fraction = fraction * 10 + (uint64_t)(*at - '0');
				scale *= 10;
			}
		}
	}

	bool bare = *at == '\0' && scale == 1 && at != *text;
	const struct duration_unit *unit = duration_unit_at(at);
	if (digits == 0 || (!unit && !bare))
		return -EINVAL;

	uint64_t factor = unit ? unit->ns : 1;
	uint64_t ns;

	if (__builtin_mul_overflow(whole, factor, &ns) ||
	    __builtin_add_overflow(
		ns, fraction * (factor / scale) + fraction * (factor % scale) / scale, &ns))
		return -ERANGE;

	*text = at + (unit ? strlen(unit->name) : 0);
	*out_ns = ns;
	return 0;
}

int schema_parse_duration(const char *text, uint64_t *out_ns)
{
	if (strcmp(text, "infinite") == 0) {
		*out_ns = SCHEMA_FOREVER;
		return 0;
	}

	uint64_t total = 0;

	if (*text == '\0')
		return -EINVAL;

	for (bool first = true; *text != '\0'; first = false) {
		uint64_t part;
		const char *before = text;
		int rc = duration_part(&text, &part);
		if (rc < 0)
			return rc;

		/* A number without a unit stands alone. */
		if (!first && text == before + strspn(before, "0123456789"))
			return -EINVAL;
		if (__builtin_add_overflow(total, part, &total) || total > INT64_MAX)
			return -ERANGE; /* Go keeps durations in a signed word */
	}

	*out_ns = total;
	return 0;
}

/* NVIDIA's programs take a number without a unit for nanoseconds, which nobody means: a key of
 * theirs does so here too, and one of ours wants the unit. */
static int set_duration(struct config *config, const struct schema_row *row, const char *text,
			struct err *err)
{
	size_t digits = strspn(text, "0123456789");
	bool is_bare = digits > 0 && text[digits] == '\0' && strspn(text, "0") < digits;
	uint64_t ns;

	if (is_bare && text_starts_with(row->path, "sluice."))
		return err_set(err, -EINVAL,
			       "expected a duration with its unit, found '%.32s': write %.32ss for "
			       "seconds, or a duration such as 90m or 1h30m",
			       text, text);

	if (schema_parse_duration(text, &ns) < 0)
		return err_set(err, -EINVAL,
			       "expected a duration such as 60s, 1h30m or infinite, found '%.64s'",
			       text);

	memcpy(schema_member(config, row), &ns, sizeof(ns));
	return 0;
}

bool schema_is_list(const struct schema_row *row)
{
	return row->type == SCHEMA_WORDS || row->type == SCHEMA_CODES || row->type == SCHEMA_NAMES;
}

bool schema_is_text(const struct schema_row *row)
{
	return row->type == SCHEMA_TEXT || row->type == SCHEMA_NAMES;
}

int schema_set(struct config *config, enum schema_id id, const char *text, struct err *err)
{
	const struct schema_row *row = &rows[id];
	switch (row->type) {
	case SCHEMA_BOOL:
		return set_bool(config, row, text, err);
	case SCHEMA_TEXT:
	case SCHEMA_NAMES:
		return set_text(config, id, text, err);
	case SCHEMA_WORDS:
		return set_words(config, id, text, err);
	case SCHEMA_CODES:
		return set_codes(config, row, text, err);
	case SCHEMA_CHOICE: {
		/* An empty version is v1, as in the first files. */
		uint32_t index = 0;
		bool empty_version = id == SCHEMA_VERSION && *text == '\0';
		int rc = empty_version ? 0 : word_find(id, text, &index, err);
		if (rc < 0)
			return rc;

		memcpy(schema_member(config, row), &index, sizeof(index));
		return 0;
	}
	case SCHEMA_NUMBER:
		return set_number(config, row, text, err);
	case SCHEMA_SIZE:
		return set_size(config, row, text, err);
	case SCHEMA_CPUS:
		return set_cpus(config, row, text, err);
	case SCHEMA_DURATION:
		return set_duration(config, row, text, err);
	}

	return err_set(err, -EINVAL, "'%s' has a type that nothing can read", row->path);
}

/* "1h2m3.5s", as Go prints it but without parts that are 0. */
static int format_duration(uint64_t ns, char *out, size_t size)
{
	if (ns == SCHEMA_FOREVER)
		return snprintf(out, size, "infinite");
	if (ns % UINT64_C(1000000000) != 0)
		return snprintf(out, size, "%" PRIu64 "ns", ns);

	uint64_t seconds = ns / UINT64_C(1000000000);
	if (seconds % 3600 == 0 && seconds > 0)
		return snprintf(out, size, "%" PRIu64 "h", seconds / 3600);
	if (seconds % 60 == 0 && seconds > 60)
		return snprintf(out, size, "%" PRIu64 "m", seconds / 60);

	return snprintf(out, size, "%" PRIu64 "s", seconds);
}

/* "64Gi", in the largest unit that divides it. */
static int format_size(uint64_t bytes, const char *zero, char *out, size_t size)
{
	static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
	size_t unit = 0;

	if (bytes == 0)
		return snprintf(out, size, "%s", zero);

	while (unit + 1 < array_length(units) && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}

	return snprintf(out, size, "%" PRIu64 "%s", bytes, units[unit]);
}

static int format_cpus(uint32_t milli, const char *zero, char *out, size_t size)
{
	if (milli == 0)
		return snprintf(out, size, "%s", zero);
	if (milli % 1000 == 0)
		return snprintf(out, size, "%" PRIu32, milli / 1000);
	return snprintf(out, size, "%" PRIu32 "m", milli);
}

static int format_words(const char *words, uint32_t mask, char *out, size_t size)
{
	size_t length = 0;
	char word[SCHEMA_WORD_MAX];

	if (size == 0)
		return -1;

	out[0] = '\0';
	for (uint32_t i = 0; word_at(words, i, word); i++) {
		if (!(mask >> i & 1))
			continue;

		int added = snprintf(out + length, size - length, "%s%s", length ? "," : "", word);
		if (added < 0 || (size_t)added >= size - length)
			return -1;

		length += (size_t)added;
	}

	return (int)length;
}

static int format_codes(const struct config_codes *codes, char *out, size_t size)
{
	int length = snprintf(out, size, "%s", "");
	for (uint32_t i = 0; i < codes->count && length >= 0 && (size_t)length < size; i++)
		length += snprintf(out + length, size - (size_t)length, "%s%u", i ? "," : "",
				   (unsigned)codes->code[i]);
	return length;
}

int schema_format(const struct config *config, enum schema_id id, char *out, size_t size)
{
	const struct schema_row *row = &rows[id];
	const void *member = (const char *)config + row->offset;
	int length = -1;
	uint32_t word = 0;
	uint64_t ns = 0;
	char name[SCHEMA_WORD_MAX];

	switch (row->type) {
	case SCHEMA_BOOL:
		length = snprintf(out, size, "%s", *(const bool *)member ? "true" : "false");
		break;
	case SCHEMA_TEXT:
	case SCHEMA_NAMES:
		length = snprintf(out, size, "%s", *(char *const *)member);
		break;
	case SCHEMA_CHOICE:
		memcpy(&word, member, sizeof(word));

		if (word_at(row->words, word, name))
			length = snprintf(out, size, "%s", name);
		break;
	case SCHEMA_WORDS:
		memcpy(&word, member, sizeof(word));
		length = format_words(row->words, word, out, size);
		break;
	case SCHEMA_CODES:
		length = format_codes(member, out, size);
		break;
	case SCHEMA_NUMBER:
		memcpy(&word, member, sizeof(word));
		length = snprintf(out, size, "%" PRIu32, word);
		break;
	case SCHEMA_SIZE:
		memcpy(&ns, member, sizeof(ns));
		length = format_size(ns, row->words, out, size);
		break;
	case SCHEMA_CPUS:
		memcpy(&word, member, sizeof(word));
		length = format_cpus(word, row->words, out, size);
		break;
	case SCHEMA_DURATION:
		memcpy(&ns, member, sizeof(ns));
		length = format_duration(ns, out, size);
		break;
	}

	return length < 0 || (size_t)length >= size ? -ENOSPC : 0;
}

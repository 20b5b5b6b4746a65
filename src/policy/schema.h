/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings (schema.def) and how one value of each type is read. Knows text and struct
 * config; nothing of YAML or files.
 */
#ifndef SLUICE_POLICY_SCHEMA_H
#define SLUICE_POLICY_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct err;

enum schema_type {
	SCHEMA_BOOL,   /* bool */
	SCHEMA_TEXT,   /* char *, owned by the config */
	SCHEMA_CHOICE, /* uint32_t: which of the words */
	SCHEMA_WORDS,  /* uint32_t: bit N for word N; one word, a comma list or a YAML list */
	SCHEMA_CODES,  /* struct config_codes; one number, a comma list or a YAML list; empty: none
			*/
	SCHEMA_NAMES,  /* char *, owned by the config: names with commas between them; one, a comma
			  list or a YAML list; empty: none */
	SCHEMA_NUMBER, /* uint32_t: 0 up to the number in `words` */
	SCHEMA_SIZE,   /* uint64_t bytes, "1Gi"; 0 is the word in `words` */
	SCHEMA_CPUS, /* uint32_t thousandths of a processor, "8" or "7500m"; 0 as of SCHEMA_SIZE */
	SCHEMA_DURATION, /* uint64_t nanoseconds; SCHEMA_FOREVER for "infinite" */
};

#define SCHEMA_FOREVER UINT64_MAX

enum schema_id {
#define PLAIN(id, ...)	SCHEMA_##id,
#define FLAG(id, ...)	SCHEMA_##id,
#define FLAGS(id, ...)	SCHEMA_##id,
#define LABELS(id, ...) SCHEMA_##id,
#include "policy/schema.def"
#undef PLAIN
#undef FLAG
#undef FLAGS
#undef LABELS
	SCHEMA_COUNT,
};

struct schema_row {
	const char *path; /* "flags.plugin.passDeviceSpecs" */
	enum schema_type type;
	size_t offset;	   /* in struct config */
	const char *words; /* "a|b|c"; of SCHEMA_NUMBER the largest, of sizes what 0 is called
			    */
	const char *default_text;
	const char *flag, *other_flag; /* without the dashes; NULL: none */
	const char *variable;	       /* of the environment; NULL: none */
	const char *help;
};

const struct schema_row *schema_row(enum schema_id id);
/* Whether a YAML list is taken for it. */
bool schema_is_list(const struct schema_row *row);
/* Whether its member is a char * that the config owns. */
bool schema_is_text(const struct schema_row *row);

/*
 * Reads `text` as the value of `id` and puts it into `config`. -EINVAL with a text that says what
 * was expected and what was found, in the peer's words where it has a sentence for it ("unknown MIG
 * strategy: X"); -ENOMEM. `config` is untouched on failure.
 */
int schema_set(struct config *config, enum schema_id id, const char *text, struct err *err);

/* The value as it would stand in the file. 0, -ENOSPC when `size` is too small. */
int schema_format(const struct config *config, enum schema_id id, char *out, size_t size);

/* Whether it can be the name of a group of users: one word for a terminal and for getent. "" can.
 */
bool schema_is_group(const char *text);

/* Go's duration syntax: "1h2m3.5s", units ns us ms s m h, a bare number is nanoseconds, "infinite".
 * 0, -EINVAL or -ERANGE. */
int schema_parse_duration(const char *text, uint64_t *out_ns);

#endif

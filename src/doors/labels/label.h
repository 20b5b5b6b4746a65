/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of Kubernetes labels: keys and values that are always valid, in the order of their bytes.
 * One value that is not valid makes an API server refuse a whole patch, so what does not fit the
 * rules is mended where that is safe, else left out alone, with a warning. Pure; knows nothing of
 * GPUs.
 *
 * Rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
 */
#ifndef SLUICE_DOORS_LABELS_LABEL_H
#define SLUICE_DOORS_LABELS_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum label_limits {
	LABEL_VALUE_SIZE = 64,	 /* 63 and a NUL */
	LABEL_KEY_SIZE = 96,	 /* prefix, '/', name and a NUL */
	LABEL_SET_MAX = 1024,	 /* labels of one set: a feature file has at most 64 kB */
	LABEL_WARNINGS_MAX = 16, /* that are kept */
	LABEL_WARNING_SIZE = 256,
};

struct label {
	char key[LABEL_KEY_SIZE];
	char value[LABEL_VALUE_SIZE];
};

struct label_set {
	struct label *items; /* owned; ordered bytewise by key */
	size_t count, capacity;
	int error;		/* -ENOMEM once there was no memory: the set is not whole */
	uint32_t warning_count; /* all; the first LABEL_WARNINGS_MAX are kept */
	char warning[LABEL_WARNINGS_MAX][LABEL_WARNING_SIZE];
};

/* An empty set. Allocates nothing. */
void label_set_init(struct label_set *set);
void label_set_done(struct label_set *set);
#define _cleanup_label_set_ __attribute__((cleanup(label_set_done)))

/* Puts a label in, or another value in the place of that of its key. What is not valid is left out
 * with a warning. Without memory `error` is set and nothing else happens from then on. */
void label_set_put(struct label_set *set, const char *key, const char *value);
/* Takes a label out, if it is there. */
void label_set_drop(struct label_set *set, const char *key);
/* The value of a key, or NULL. Borrowed: until the next change. */
const char *label_set_get(const struct label_set *set, const char *key);
void label_set_warn(struct label_set *set, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Empty, or letters, digits, '-', '_' and '.', the first and the last of them a letter or digit, at
 * most 63 bytes. */
bool label_value_is_valid(const char *value);
/* "prefix/name", the name as a value that is not empty. */
bool label_key_is_valid(const char *key);

/*
 * Text from outside as GPU feature discovery makes a value of it: characters other than letters,
 * digits, '-', '_', '.' and blanks vanish, and the words are joined by '-'. Then cut to `size` - 1
 * bytes. The result may still begin or end with a '-'.
 */
void label_sanitise(const char *text, size_t length, char *out, size_t size);

/* A text from outside as a value that is valid: sanitised, trimmed, at most 63 bytes. */
void label_value(const char *text, size_t length, char out[LABEL_VALUE_SIZE]);
/* The same with `suffix` ("-MIG-1g.5gb-SHARED", valid characters) behind it, which is kept whole
 * where the text has to be cut. "" when the text has nothing that can stay. */
void label_value_with_suffix(const char *text, const char *suffix, char out[LABEL_VALUE_SIZE]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a struct and a message of proto/job.proto: a table with a row for each field that both
 * have under the same name. What is compared, copied and freed of such a struct goes by the same
 * table, so that a new field is one line of it. Pure. Knows nothing of what the fields mean.
 */
#ifndef SLUICE_JOB_FORM_H
#define SLUICE_JOB_FORM_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* What it is in the struct, and in the message. */
enum form_kind {
	FORM_TEXT,   /* char[size]; string */
	FORM_BYTES,  /* char[size]; bytes, of which none is NUL */
	FORM_STRING, /* char *, owned, NULL for none; string, "" for none */
	FORM_WORD,   /* uint32_t, place in `words`; string, "" as the first of them */
	FORM_U32,    /* the same in both, at most `max`; so the next three */
	FORM_I32,    /* from -max */
	FORM_U64,
	FORM_BOOL,
	FORM_LIST, /* char **, owned as its strings are, ends in NULL, and size_t; repeated bytes */
};

struct form_field {
	const char *name;
	enum form_kind kind;
	uint32_t at, count_at;		       /* in the struct; of a list: also its size_t */
	uint32_t message_at, message_count_at; /* in the message, the same */
	uint64_t max;			       /* of a number; of a text: bytes with its NUL */
	const char *const *words;	       /* `max` + 1 of them */
};

/* A row. Of what is not of the kind's type in the struct nothing good comes. */
#define FORM_NUMBER(struct_, message_, name_, kind_, max_)                                         \
	{                                                                                          \
		.name = #name_, .kind = (kind_), .at = offsetof(struct struct_, name_),            \
		.message_at = offsetof(message_, name_), .max = (max_)                             \
	}
#define FORM_CHARS(struct_, message_, name_, message_name_, kind_)                                 \
	{                                                                                          \
		.name = #name_, .kind = (kind_), .at = offsetof(struct struct_, name_),            \
		.message_at = offsetof(message_, message_name_),                                   \
		.max = sizeof(((struct struct_ *)NULL)->name_)                                     \
	}
#define FORM_WORDS(struct_, message_, name_, words_)                                               \
	{                                                                                          \
		.name = #name_, .kind = FORM_WORD, .at = offsetof(struct struct_, name_),          \
		.message_at = offsetof(message_, name_), .max = array_length(words_) - 1,          \
		.words = (words_)                                                                  \
	}
#define FORM_STRINGS(struct_, message_, name_, list_, count_, message_list_, max_)                 \
	{                                                                                          \
		.name = (name_), .kind = FORM_LIST, .at = offsetof(struct struct_, list_),         \
		.count_at = offsetof(struct struct_, count_),                                      \
		.message_at = offsetof(message_, message_list_),                                   \
		.message_count_at = offsetof(message_, n_##message_list_), .max = (max_)           \
	}

/* Fills the fields of an initialised message, which borrow from the struct; the arrays of lists are
 * the message's: form_message_done(), also after an error. -ENOMEM. */
int form_to_message(const struct form_field *fields, size_t count, const void *object,
		    ProtobufCMessage *message);
void form_message_done(const struct form_field *fields, size_t count, ProtobufCMessage *message);

/* Copies a message into a struct whose fields are zero; form_done(), also after an error. -EINVAL,
 * -E2BIG name the field: a NUL byte, a number that is too large, a word that is none, a text or a
 * list that is too long, a field that is not known. -ENOMEM. */
int form_from_message(const struct form_field *fields, size_t count,
		      const ProtobufCMessage *message, void *object, struct err *err);

/* Packs a message; `*out` is owned. -E2BIG above `max` bytes, -ENOMEM. */
int form_pack(const ProtobufCMessage *message, size_t max, char **out, size_t *out_length);

/* Frees strings and lists, and leaves them NULL. */
void form_done(const struct form_field *fields, size_t count, void *object);
/* Gives the strings of a struct that was copied as it is strings of its own; the lists stay shared.
 * -ENOMEM: those that could not be copied are NULL. */
int form_copy_strings(const struct form_field *fields, size_t count, void *object);
bool form_field_is_equal(const struct form_field *field, const void *a, const void *b);
/* A field of FORM_STRING; NULL for none, and of other kinds. */
const char *form_string(const struct form_field *field, const void *object);
/* Number of a field that is one, a negative one as its two's complement. */
uint64_t form_number(const struct form_field *field, const void *object);
void form_set_number(const struct form_field *field, void *object, uint64_t number);
/* -EINVAL names the field and its range. Of a field that is no number: 0. */
int form_check_number(const struct form_field *field, const void *object, struct err *err);

/* Appends a copy to a list whose room is a power of two of pointers. -E2BIG, -ENOMEM. */
int form_list_add(char ***list, size_t *count, size_t max, const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a command as one table. From it come the parsing, the --help text, shell
 * completion and the man page, so none of them can differ from another. Values land, checked, in a
 * plain struct of the command's own.
 */
#ifndef SLUICE_CMD_OPTIONS_H
#define SLUICE_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* What an option takes, and the type of the field that it fills. */
enum option_kind {
	OPTION_FLAG,	 /* nothing; bool */
	OPTION_TEXT,	 /* anything; const char * (borrowed from argv) */
	OPTION_PATH,	 /* a file name, completed as one; const char * */
	OPTION_U32,	 /* a whole number; uint32_t */
	OPTION_U64,	 /* a whole number; uint64_t */
	OPTION_I64,	 /* a whole number with a sign; int64_t */
	OPTION_HEX,	 /* hexadecimal, with or without 0x; uint64_t */
	OPTION_SIZE,	 /* "16Gi"; uint64_t bytes */
	OPTION_DURATION, /* "1h30m"; uint64_t nanoseconds; min and max are nanoseconds as well */
	OPTION_FRACTION, /* "0.75"; double; min and max are whole numbers */
	OPTION_CHOICE,	 /* one of `words`; its index, in an enum or uint32_t */
	OPTION_LIST,	 /* anything, may be given again; struct option_list */
};

struct option_list {
	const char **items; /* owned by the parser, the texts borrowed from argv */
	size_t count;
};

/* One row. A table ends with a row without a name. */
struct option_row {
	const char *name; /* "gpus" for --gpus */
	char letter;	  /* 'n' for -n; 0: none */
	enum option_kind kind;
	const char *value; /* what the help calls the value: "N"; NULL: a word for the kind */
	const char *bare; /* its value when it is given without one; then one needs an '=': --share,
			     --share=1/2. NULL: it cannot */
	const char *help; /* a phrase without a full stop; the default in it, where there is one */
	const char *words; /* OPTION_CHOICE: "table|json"; others: words that completion offers;
			      "@checks": ids of the doctor's checks */
	int64_t min;
	uint64_t max; /* 0: no limit */
	bool required;
	bool hidden;	     /* works, but is shown nowhere */
	const char *renamed; /* the name of the row in whose place this one was once; it is hidden,
				and the caller says that it is deprecated */
	/* Both by OPTION_FIELD(struct run_options, gpus). */
	size_t offset;
	size_t size;
};

/* Where the value goes. A macro, because only a macro can name a member. */
#define OPTION_FIELD(type, member)                                                                 \
	.offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* For every command that prints data: a field `enum option_output output` and this row. */
enum option_output { OPTION_OUTPUT_TABLE, OPTION_OUTPUT_JSON };
#define OPTION_OUTPUT(type, member)                                                                \
	{                                                                                          \
		.name = "output", .letter = 'o', .kind = OPTION_CHOICE, .words = "table|json",     \
		.help = "how to print: a table for people (default) or JSON for programs",         \
		OPTION_FIELD(type, member)                                                         \
	}

enum option_limits {
	OPTION_ROWS_MAX = 96,	/* of one table */
	OPTION_WORDS_MAX = 64,	/* of one row */
	OPTION_WORD_SIZE = 64,	/* bytes of a word with its NUL */
	OPTION_UNKNOWN_MAX = 8, /* that a lenient table leaves out */
	OPTION_RENAMED_MAX = 4, /* old names that are told */
};

enum option_manner {
	OPTION_MANNER_PLAIN,
	OPTION_MANNER_POSIX, /* options end at the first positional argument (for commands that take
				a command line) */
	OPTION_MANNER_LENIENT, /* options that are not in the table are left out, and listed */
};

/* What options_parse() found besides values. */
struct option_result {
	bool help; /* -h or --help was there: nothing else was checked */
	int first; /* argv[first] is the first positional argument; options were moved before it */
	/* OPTION_MANNER_LENIENT: "-q", "--foo"; the first few of them. A value that stood behind
	 * one is a positional argument now. */
	size_t unknown_count;
	char unknown[OPTION_UNKNOWN_MAX][OPTION_WORD_SIZE];
	/* Rows with `renamed` that were given, each once. */
	size_t renamed_count;
	const struct option_row *renamed[OPTION_RENAMED_MAX];
};

/*
 * Parses argv[1..argc) by `rows` (may be NULL) into `values`, which holds the defaults before.
 * A name counts when it is whole: abbreviations are refused. 0, -EINVAL (unknown, wrong or missing
 * option; `err` says which, what was wanted and, for a misspelt name, which is nearest) or -ENOMEM.
 * Lists are given back by options_done() in any case.
 */
int options_parse(const struct option_row *rows, enum option_manner manner, int argc, char **argv,
		  void *values, struct option_result *out, struct err *err);
void options_done(const struct option_row *rows, void *values);

/* Whether a table is sound: every field is of its option's type, names and letters are there once
 * and are not --help's, every row has a help text, choices have words. 0, or -EINVAL with the row.
 * For the tests, and for __dump, so that a wrong table does not get through a build. */
int options_check(const struct option_row *rows, struct err *err);

/* What the help and the man page call the value of a row: "N", "table|json", ...; NULL: a flag. */
const char *options_value_name(const struct option_row *row);
/* Copies word number `index` of "a|b|c". False: there are not that many. */
bool options_word(const char *words, size_t index, char out[OPTION_WORD_SIZE]);
const char *option_kind_to_string(enum option_kind kind);

#endif

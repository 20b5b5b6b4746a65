/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What checks of a machine have found: one entry for each thing that was looked at, with the
 * figures behind it, as `checks` and `runs` of sluice.result/1. Those of `sluice validate`
 * report through a sink, because most of them run in a process of their own (validate/apart.h).
 * Knows nothing of what is checked.
 */
#ifndef SLUICE_BENCH_CHECKS_H
#define SLUICE_BENCH_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/findings.h"

struct err;
struct jsonw;

enum checks_limits {
	CHECKS_NAME_MAX = 40,
	CHECKS_TARGET_MAX = 112, /* "GPU-... -> GPU-..." */
	CHECKS_UNIT_MAX = 16,
	CHECKS_TEXT_MAX = 800, /* of a reason, a hint, a note */
	CHECKS_MAX = 8192,
	CHECKS_SAMPLES_MAX = 1 << 17,
};

enum check_status {
	CHECK_PASS,
	CHECK_WARN, /* it works; somebody should know */
	CHECK_SKIP, /* it was not looked at, and the reason says why: never a pass */
	CHECK_SLOW, /* right, and below what is expected */
	CHECK_FAIL,
	CHECK_STATUS_COUNT,
};
/* "PASS", "WARN", "SKIP", "SLOW", "FAIL". */
const char *check_status_to_string(enum check_status status);

struct check {
	char name[CHECKS_NAME_MAX]; /* "vectoradd" */
	char target[CHECKS_TARGET_MAX];
	enum check_status status;
	bool has_value, has_limit;
	double value, limit;
	char unit[CHECKS_UNIT_MAX]; /* of both */
	char reason[CHECKS_TEXT_MAX], hint[CHECKS_TEXT_MAX];
};
/* A status with its reason: cut where it is longer. */
void check_set(struct check *check, enum check_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The worse of two statuses decides, and its reason stays; an equal one changes nothing. */
void check_worsen(struct check *check, enum check_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_value(struct check *check, double value, const char *unit);

struct checks_sample {
	char target[CHECKS_TARGET_MAX], metric[CHECKS_NAME_MAX], unit[CHECKS_UNIT_MAX];
	bool higher_is_better;
	double value;
};

enum checks_record_kind {
	CHECKS_BEGIN, /* check.name and .target: what is being looked at now; `number`: its place */
	CHECKS_END,   /* check */
	CHECKS_SAMPLE,
	CHECKS_NOTE,	 /* text: a line for people */
	CHECKS_PROGRESS, /* text: the same, and gone with the next */
	CHECKS_FACT,	 /* check.name, check.target, number: for whoever started it */
	CHECKS_BLOB,	 /* blob: the same */
	CHECKS_ERROR,	 /* text, number (an errno): it ended with this */
	CHECKS_KIND_COUNT,
};

/* What goes through a pipe: fixed size, no pointers, less than PIPE_BUF. */
struct checks_record {
	uint32_t kind; /* enum checks_record_kind */
	uint32_t job;  /* which process it is of; set by who reads it */
	uint64_t number;
	union {
		struct check check;
		struct checks_sample sample;
		char text[CHECKS_TEXT_MAX + 128];
		unsigned char blob[512];
	};
};

struct checks_sink {
	void (*take)(void *context, const struct checks_record *record);
	void *context; /* borrowed */
};
/* Says what is looked at from now on, `place` being its number in the caller's order. Starts `out`,
 * which is PASS until somebody says something else. */
void checks_begin(const struct checks_sink *sink, struct check *out, uint64_t place,
		  const char *name, const char *target);
void checks_end(const struct checks_sink *sink, const struct check *check);
void checks_sample(const struct checks_sink *sink, const char *target, const char *metric,
		   const char *unit, bool higher_is_better, double value);
void checks_note(const struct checks_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void checks_progress(const struct checks_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void checks_fact(const struct checks_sink *sink, const char *name, const char *target,
		 uint64_t number);

/* What was found, in its order. */
struct checks {
	struct check *list; /* owned */
	size_t count, room;
	struct checks_sample *samples; /* owned */
	size_t sample_count, sample_room;
	bool is_cut; /* there was no room, or no memory, for all: then nothing passes */
};
void checks_init(struct checks *checks);
void checks_done(struct checks *checks);
void checks_add(struct checks *checks, const struct check *check);
void checks_add_sample(struct checks *checks, const struct checks_sample *sample);
/* A check without figures. */
void checks_say(struct checks *checks, const char *name, const char *target,
		enum check_status status, const char *hint, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
size_t checks_of(const struct checks *checks, enum check_status status);

/* Where some were not kept, nothing passes. */
enum findings_exit checks_exit_code(const struct checks *checks);

/* The member `checks` of the object that is being written; with `runs` as well that one, and what
 * each check advises. */
void checks_write(struct jsonw *json, const struct checks *checks, bool has_runs);

#endif

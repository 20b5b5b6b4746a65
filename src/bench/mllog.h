/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of an MLPerf training log, in both historic forms, as bytes: read and written. Pure.
 * Knows nothing of what the keys mean.
 *
 *   :::MLLOG {"namespace": "", "time_ms": 1560000000123, "event_type": "INTERVAL_START",
 *             "key": "run_start", "value": null, "metadata": {"file": "train.py", "lineno": 7}}
 *   :::MLL 1560000000.123 run_start: {"value": null, "metadata": {"file": "train.py", "lineno": 7}}
 *
 * The second is that of round v0.6. Anything may stand before the token (launchers put the rank
 * there), and the last token of a line counts. Some published logs have neither event_type nor
 * namespace, and some have their metadata in Python's notation: both are read.
 * https://github.com/mlcommons/logging
 */
#ifndef SLUICE_BENCH_MLLOG_H
#define SLUICE_BENCH_MLLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum mllog_limits {
	MLLOG_KEY_MAX = 128,
	MLLOG_TEXT_MAX = 128, /* of a value that is text; more is cut */
	MLLOG_ITEMS_MAX = 2,  /* numbers of a list that are kept */
	MLLOG_LINE_MAX =
	    262144,	      /* weights_initialization and the like are short; longer is refused */
	MLLOG_DEPTH_MAX = 64, /* of objects and lists within each other */
};

enum mllog_event { MLLOG_POINT, MLLOG_START, MLLOG_STOP };
enum mllog_kind { MLLOG_NULL, MLLOG_BOOL, MLLOG_NUMBER, MLLOG_STRING, MLLOG_OTHER };

struct mllog {
	bool is_old;	/* of round v0.6 */
	bool is_python; /* in Python's notation, which is no JSON */
	double time_ms;
	enum mllog_event event; /* of the old form, or without one: by the end of the key */
	char key[MLLOG_KEY_MAX];
	enum mllog_kind kind;
	bool is_integer; /* MLLOG_NUMBER: it was written as one */
	double number;	 /* MLLOG_NUMBER; of a bool 0 or 1 */
	char text[MLLOG_TEXT_MAX];
	bool has_length;	       /* MLLOG_STRING, MLLOG_OTHER: */
	size_t length;		       /* how many bytes, items or names */
	double items[MLLOG_ITEMS_MAX]; /* the first of a list; NAN: none, or no number */
	uint64_t value_id;	       /* the same for equal values */
	double bbox, segm;	       /* MLLOG_OTHER: the two accuracies of Mask R-CNN; NAN */
	/* What keys of interest have in their metadata; NAN, "" where they have it not. */
	double epoch_num, first_epoch_num, epoch_count, timestamp_s;
	char status[MLLOG_TEXT_MAX], method[MLLOG_TEXT_MAX], tensor[MLLOG_TEXT_MAX];
	bool has_tensor;
};

/* 1: `line` (without its end) is one; 0: it has no token; -EINVAL: it has one, and cannot be read
 * (why is in `err`); -ENOMEM. Takes anything. */
int mllog_parse(const char *line, size_t length, struct mllog *out, struct err *err);

/*
 * Appends a line in the newer form, with its end. `value` is JSON (NULL: null), `metadata` a JSON
 * object (NULL: {}). -EINVAL: a key that no reader takes, or what is no JSON; -ENOMEM, -ENOSPC.
 */
int mllog_format(struct buf *out, uint64_t time_ms, enum mllog_event event, const char *key,
		 const char *value, const char *metadata, struct err *err);

#endif

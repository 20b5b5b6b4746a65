/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order a job wrote its two outputs: the index order.N beside out.N and err.N, a list of
 * records of 8 bytes, of which stream and how many bytes came next. The supervisor appends, and
 * lets the last record grow; whoever reads believes none of it, for the files may be the job's
 * user's, and a supervisor may have been killed: what is shown is always each byte of both files
 * once, and each file's bytes in their order. Pure.
 */
#ifndef SLUICE_JOB_INTERLEAVE_H
#define SLUICE_JOB_INTERLEAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum interleave_limits {
	INTERLEAVE_RECORD = 8,		    /* bytes */
	INTERLEAVE_RECORDS_MAX = 128 << 10, /* a megabyte; what comes later has no order */
};

enum interleave_stream { INTERLEAVE_OUT, INTERLEAVE_ERR, INTERLEAVE_STREAMS };

struct interleave_piece {
	enum interleave_stream stream;
	uint64_t offset; /* in its file */
	uint64_t length;
};

/* Little endian, the stream in the highest bit. */
void interleave_format(enum interleave_stream stream, uint64_t length,
		       uint8_t out[INTERLEAVE_RECORD]);
/* -EBADMSG: nobody has written that. */
int interleave_parse(const uint8_t record[INTERLEAVE_RECORD], enum interleave_stream *out_stream,
		     uint64_t *out_length);

/* A reader's place; starts with zeros. */
struct interleave {
	size_t record;			    /* the one that is read */
	uint64_t used;			    /* bytes of it that were shown */
	uint64_t at[INTERLEAVE_STREAMS];    /* bytes of each file that were shown */
	uint64_t ahead[INTERLEAVE_STREAMS]; /* of them, those that no record has told of yet */
	bool is_bad;			    /* a record that nobody has written was met */
};

/* What a reader sees now. */
struct interleave_view {
	const uint8_t *index; /* borrowed; from the beginning. A piece of a record at its end is
				 left out */
	size_t index_length;
	/* Of the files. The output's was looked at before that of the errors, and once more when
	 * there were new ones: see interleave_sizes(). */
	uint64_t sizes[INTERLEAVE_STREAMS];
	bool is_final; /* nothing comes any more: what has no order is shown one after the other */
};

/* Which sizes to believe, of the output before and after the errors were looked at: bytes that are
 * seen in one file while nothing new is in the other came before all that will come there. */
void interleave_sizes(const struct interleave *self, uint64_t out_before, uint64_t err_size,
		      uint64_t out_after, uint64_t sizes[INTERLEAVE_STREAMS]);

/* The next piece that may be shown: true. False: there is none, or it is not known what comes next.
 */
bool interleave_next(struct interleave *self, const struct interleave_view *view,
		     struct interleave_piece *out);
/* There is something of both files, and more than was shown: what comes next is known from the
 * index alone. What one has may have been written after what is on its way to the other. */
bool interleave_is_stuck(const struct interleave *self, const uint64_t sizes[INTERLEAVE_STREAMS]);

/*
 * What a supervisor knows of a moment: between two looks the kernel has told of writes by turns,
 * `run_count` of them, the first of `first`; neighbours of one stream are one. Each file has grown
 * by `grown` bytes, which are `text` (NULL: more than anybody wants to read).
 */
struct interleave_window {
	enum interleave_stream first;
	size_t run_count;
	uint64_t grown[INTERLEAVE_STREAMS];
	const char *text[INTERLEAVE_STREAMS];
};

/*
 * Gives each turn its bytes, by `add` in their order: a stream that had one turn all of them; else
 * each turn a line, and the last one the rest. That is exact for programs that write whole lines,
 * one at a time. Bytes that no turn tells of come last. Stops at the first turn whose bytes are not
 * there yet: what else there is came after them, and is given to nobody. Returns how many turns are
 * left, that one included.
 */
size_t interleave_split(const struct interleave_window *window,
			void (*add)(enum interleave_stream stream, uint64_t length, void *context),
			void *context);

#endif

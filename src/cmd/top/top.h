/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `sluice top`: a picture of the machine as lines of text (pure: what is to be seen
 * in, lines out), the machine as a message when no agent tells it, and the terminal. Only top*.c
 * include this. What comes from outside (names, reasons) is escaped where it enters a line.
 */
#ifndef SLUICE_CMD_TOP_TOP_H
#define SLUICE_CMD_TOP_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

#include "base/buf.h"
#include "sluice.pb-c.h"

struct err;
struct inventory;
struct snapshot;

enum top_limits {
	TOP_BYTES_MAX = 4 << 20, /* of one picture */
	TOP_LINES_MAX = 4096,
	TOP_WIDTH_MIN = 20,   /* of a narrower terminal the rest is not seen */
	TOP_WIDTH_FREE = 100, /* how wide bars are laid out where there is no terminal */
	TOP_USES_MAX = 8,     /* processes of one GPU that have a line of their own */
	TOP_NAME_MAX = 64,
};

/* --- a page: lines, each cut at the width ----------------------------------------------------- */

enum top_style { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_GREEN, TOP_YELLOW, TOP_RED };

struct top_page {
	struct buf text;		  /* lines with their line ends */
	size_t width;			  /* columns; 0: no limit */
	bool colour;			  /* else styles are not written */
	size_t used;			  /* columns of the present line */
	bool is_cut;			  /* it ended in "…"; what follows is left out */
	size_t line_count;		  /* complete lines */
	uint32_t line[TOP_LINES_MAX + 1]; /* where each begins, and where the last ends */
	int error;			  /* -ENOMEM, -ENOSPC: remembered, the rest does nothing */
};

void top_page_init(struct top_page *page, size_t width, bool colour);
void top_page_done(struct top_page *page);
/* Appends text from anywhere: escaped, cut at the width. */
void top_page_add(struct top_page *page, enum top_style style, const char *text);
void top_page_addf(struct top_page *page, enum top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, in exactly `width` columns: cut, or filled with blanks. */
void top_page_cell(struct top_page *page, enum top_style style, const char *text, size_t width,
		   bool right);
/* "[||||    83%]" in `width` columns; `percent` below 0: not known. */
void top_page_bar(struct top_page *page, enum top_style style, size_t width, int percent,
		  const char *text);
void top_page_end(struct top_page *page); /* of the line */
/* Columns that the escaped text takes. */
size_t top_width(const char *text);

/* --- what is to be seen ------------------------------------------------------------------------
 */

struct top_scene {
	const Sluice__V1__Machine *machine; /* borrowed; NULL: nothing is known yet */
	const char *notice; /* below the headline: that no service runs, that it is gone; "" */
	const char *clock;  /* the time of day for people; "": not shown */
	size_t width;	    /* of the terminal; 0: none, lines are as long as they are */
	size_t height;	    /* 0: as many lines as there are */
	size_t first;	    /* line of the body that is the first to be seen */
	bool colour;
	/* A user's name. NULL, or returns NULL: the number is shown. */
	const char *(*user)(uint32_t uid, void *context);
	void *context;
};

/* The parts of a picture. */
void top_gpus(struct top_page *page, const struct top_scene *scene);
void top_jobs(struct top_page *page, const struct top_scene *scene);

/*
 * The whole picture, lines that end in LF; no more than `height`, then the last says how to leave
 * and what is out of sight. `*out_first` is scene->first, or less if that is beyond the end.
 * -ENOMEM, -ENOSPC (more than TOP_BYTES_MAX).
 */
int top_draw(const struct top_scene *scene, struct buf *out, size_t *out_first, struct err *err);

/* --- the machine as a message ------------------------------------------------------------------
 */

/* What is known of a process: for the machine that no agent tells. */
typedef void top_process(uint32_t pid, char out_name[TOP_NAME_MAX], uint32_t *out_uid);

/* The message that the agent's Watch would send, without jobs. Owned: top_machine_free(). NULL:
 * no memory. `snapshot` may be NULL. */
Sluice__V1__Machine *top_machine_new(const struct inventory *inventory,
				     const struct snapshot *snapshot, top_process *process);
Sluice__V1__Machine *top_machine_copy(const Sluice__V1__Machine *machine);
Sluice__V1__Machine *top_machine_free(Sluice__V1__Machine *machine);
/* For --output json; `notice` as in top_scene. NULL: no memory. */
json_t *top_machine_json(const Sluice__V1__Machine *machine, const char *notice);

/* --- the terminal ------------------------------------------------------------------------------
 */

struct top_terminal {
	int in, out;	      /* borrowed descriptors */
	struct termios saved; /* as it was before the first time */
	bool is_saved;
	bool is_ours;
};

/* Alternate screen, no cursor, keys at once. -errno. */
int top_terminal_enter(struct top_terminal *terminal, struct err *err);
/* As it was before; may be called at any time, in a terminal that is not ours it does nothing. */
void top_terminal_leave(struct top_terminal *terminal);
void top_terminal_size(const struct top_terminal *terminal, size_t *out_width, size_t *out_height);
/* Shows the lines from the top of the screen on. -EPIPE, -EIO: nobody looks any more. */
int top_terminal_show(struct top_terminal *terminal, const struct buf *lines, struct err *err);

enum top_key {
	TOP_KEY_NONE,
	TOP_KEY_QUIT,
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_REDRAW,
};
/* The first key of `length` bytes (at least 1) of typing, and how many of them it took. */
enum top_key top_key_read(const char *bytes, size_t length, size_t *out_taken);

#endif

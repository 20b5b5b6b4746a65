/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/top/top.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"

/* Control sequences of ECMA-48 and xterm that every terminal emulator of today knows; the
 * terminal's own database would need a library for six strings. */
#define ENTER	  "\x1b[?1049h\x1b[?25l\x1b[2J" /* alternate screen, no cursor, clear */
#define LEAVE	  "\x1b[?25h\x1b[?1049l"
#define HOME	  "\x1b[H"
#define LINE_END  "\x1b[K\r\n" /* clear the rest of the line */
#define CLEAR_END "\x1b[J"

static int terminal_write(int fd, const char *bytes, size_t length, struct err *err)
{
	while (length > 0) {
		ssize_t count = write(fd, bytes, length);
		if (count < 0 && errno != EINTR)
			return err_set(err, -errno, "cannot write to the terminal: %s",
				       err_describe(-errno));
		if (count > 0) {
			bytes += count;
			length -= (size_t)count;
		}
	}

	return 0;
}

int top_terminal_enter(struct top_terminal *terminal, struct err *err)
{
	if (terminal->is_ours)
		return 0;

	if (terminal->in >= 0) {
		if (!terminal->is_saved && tcgetattr(terminal->in, &terminal->saved) < 0)
			return err_set(err, -errno, "cannot read the terminal's modes: %s",
				       err_describe(-errno));

		terminal->is_saved = true;
		struct termios modes = terminal->saved;

		/* Keys at once and not shown; Ctrl-C and Ctrl-Z stay signals. */
		modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		modes.c_cc[VMIN] = 1;
		modes.c_cc[VTIME] = 0;
		if (tcsetattr(terminal->in, TCSADRAIN, &modes) < 0)
			return err_set(err, -errno, "cannot set the terminal's modes: %s",
				       err_describe(-errno));
	}

	terminal->is_ours = true;
	return terminal_write(terminal->out, ENTER, sizeof(ENTER) - 1, err);
}

void top_terminal_leave(struct top_terminal *terminal)
{
	if (!terminal->is_ours)
		return;
	terminal->is_ours = false;
	/* What fails here fails because the terminal is gone. */
	(void)terminal_write(terminal->out, LEAVE, sizeof(LEAVE) - 1, NULL);
	if (terminal->in >= 0)
		(void)tcsetattr(terminal->in, TCSADRAIN, &terminal->saved);
}

void top_terminal_size(const struct top_terminal *terminal, size_t *out_width, size_t *out_height)
{
	struct winsize size;
	bool known = ioctl(terminal->out, TIOCGWINSZ, &size) == 0;
	*out_width = known && size.ws_col > 0 ? size.ws_col : 80;
	*out_height = known && size.ws_row > 0 ? size.ws_row : 24;
}

int top_terminal_show(struct top_terminal *terminal, const struct buf *lines, struct err *err)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, TOP_BYTES_MAX * 2);

	const char *at = buf_text(lines), *end = at + lines->length;
	int rc = buf_add(&out, HOME, sizeof(HOME) - 1);

	while (rc == 0 && at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		size_t length = line_end ? (size_t)(line_end - at) : (size_t)(end - at);
		bool last = at + length + 1 >= end;

		rc = buf_add(&out, at, length);
		/* A line end behind the last line would scroll a full screen. */
		if (rc == 0)
			rc = buf_add(&out, LINE_END, sizeof(LINE_END) - 1 - (last ? 2 : 0));
		at += length + 1;
	}

	if (rc == 0)
		rc = buf_add(&out, CLEAR_END, sizeof(CLEAR_END) - 1);
	if (rc < 0)
		return err_set(err, rc, "no room for the picture of the machine");

	return terminal_write(terminal->out, buf_text(&out), out.length, err);
}

enum top_key top_key_read(const char *bytes, size_t length, size_t *out_taken)
{
	static const struct {
		const char *bytes;
		enum top_key key;
	} keys[] = {
	    {"\x1b[A", TOP_KEY_UP},   {"\x1b[B", TOP_KEY_DOWN},	    {"\x1bOA", TOP_KEY_UP},
	    {"\x1bOB", TOP_KEY_DOWN}, {"\x1b[5~", TOP_KEY_PAGE_UP}, {"\x1b[6~", TOP_KEY_PAGE_DOWN},
	    {"\x1b[H", TOP_KEY_HOME}, {"\x1b[F", TOP_KEY_END},	    {"\x1b[1~", TOP_KEY_HOME},
	    {"\x1b[4~", TOP_KEY_END}, {"q", TOP_KEY_QUIT},	    {"Q", TOP_KEY_QUIT},
	    {"k", TOP_KEY_UP},	      {"j", TOP_KEY_DOWN},	    {" ", TOP_KEY_PAGE_DOWN},
	    {"b", TOP_KEY_PAGE_UP},   {"g", TOP_KEY_HOME},	    {"G", TOP_KEY_END},
	    {"\x0c", TOP_KEY_REDRAW},
	};

	for (size_t i = 0; i < array_length(keys); i++) {
		size_t wanted = strlen(keys[i].bytes);
		if (length >= wanted && memcmp(bytes, keys[i].bytes, wanted) == 0) {
			*out_taken = wanted;
			return keys[i].key;
		}
	}

	/* Another key's sequence is left out as a whole, lest its last letter count as a key. */
	size_t taken = 1;

	if (bytes[0] == '\x1b' && length > 1 && (bytes[1] == '[' || bytes[1] == 'O')) {
		taken = 2;
		while (taken < length && (bytes[taken] < '@' || bytes[taken] > '~'))
			taken++;
		taken += taken < length;
	}

	*out_taken = taken;
	return TOP_KEY_NONE;
}

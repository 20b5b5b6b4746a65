/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void err_mark_cut(char *text)
{
	memcpy(text + ERR_TEXT_MAX - 4, "...", 4);
}

int err_set(struct err *err, int code, const char *format, ...)
{
	if (!err)
		return code;

	va_list arguments;
	va_start(arguments, format);

	int length = vsnprintf(err->text, sizeof(err->text), format, arguments);

	va_end(arguments);
	if (length >= ERR_TEXT_MAX)
		err_mark_cut(err->text);
	else if (length < 0)
		err->text[0] = '\0';

	err->code = code;
	return code;
}

int err_wrap(struct err *err, const char *format, ...)
{
	if (!err || err->code == 0)
		return -EIO;

	char inner[ERR_TEXT_MAX];
	memcpy(inner, err->text, sizeof(inner));

	char outer[ERR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(outer, sizeof(outer), format, arguments);

	va_end(arguments);
	if (length < 0)
		return err->code;

	length = snprintf(err->text, sizeof(err->text), "%s: %s", outer, inner);
	if (length >= ERR_TEXT_MAX)
		err_mark_cut(err->text);

	return err->code;
}

const char *err_describe(int code)
{
	const char *text = strerrordesc_np(code < 0 ? -code : code);
	return text ? text : "unknown error";
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "job/indices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"

/* "3-17:2" */
struct indices_item {
	uint32_t first, last, step;
};

struct indices_reader {
	const char *text;
	size_t length, at;
};

static bool indices_take(struct indices_reader *reader, char character)
{
	bool is_there = reader->at < reader->length && reader->text[reader->at] == character;
	reader->at += is_there;
	return is_there;
}

static int indices_refuse(const struct indices_reader *reader, size_t at, const char *what,
			  struct err *err)
{
	return err_set(err, -EINVAL, "'%.*s': %s at character %zu",
		       reader->length > 64 ? 64 : (int)reader->length, reader->text, what, at + 1);
}

static int indices_number(struct indices_reader *reader, uint64_t min, uint32_t *out,
			  struct err *err)
{
	size_t begin = reader->at;
	uint64_t value;

	while (reader->at < reader->length && reader->text[reader->at] >= '0' &&
	       reader->text[reader->at] <= '9')
		reader->at++;

	if (reader->at == begin)
		return indices_refuse(reader, begin, "a number is missing", err);
	if (parse_u64_span(reader->text + begin, reader->at - begin, min, INDICES_LAST_MAX,
			   &value) < 0)
		return indices_refuse(reader, begin, "a number that is too large, or a step of 0,",
				      err);

	*out = (uint32_t)value;
	return 0;
}

static int indices_item(struct indices_reader *reader, struct indices_item *out, struct err *err)
{
	size_t begin = reader->at;
	int rc = indices_number(reader, 0, &out->first, err);

	out->last = out->first;
	out->step = 1;
	if (rc < 0 || !indices_take(reader, '-'))
		return rc;

	rc = indices_number(reader, 0, &out->last, err);
	if (rc == 0 && out->last < out->first)
		rc = indices_refuse(reader, begin, "a range that ends before it begins", err);
	if (rc == 0 && indices_take(reader, ':'))
		rc = indices_number(reader, 1, &out->step, err);

	return rc;
}

static uint32_t indices_of(const struct indices_item *item)
{
	return (item->last - item->first) / item->step + 1;
}

int indices_check(const char *text, size_t length, uint32_t max, uint32_t *out_count,
		  struct err *err)
{
	struct indices_reader reader = {.text = text, .length = length};
	uint64_t count = 0;
	int64_t before = -1;

	do {
		struct indices_item item;
		size_t begin = reader.at;
		int rc = indices_item(&reader, &item, err);
		if (rc < 0)
			return rc;
		if (item.first <= before)
			return indices_refuse(&reader, begin,
					      "an index that is not above the one before it", err);

		count += indices_of(&item);
		before = item.first + (int64_t)(indices_of(&item) - 1) * item.step;
	} while (indices_take(&reader, ','));

	if (reader.at < length)
		return indices_refuse(&reader, reader.at, "nothing such as 3-17:2 or 1,5,9-12",
				      err);
	if (count > max)
		return err_set(err, -E2BIG, "%" PRIu64 " members: at most %" PRIu32, count, max);

	*out_count = (uint32_t)count;
	return 0;
}

uint32_t indices_at(const char *text, uint32_t n)
{
	struct indices_reader reader = {.text = text, .length = text ? strlen(text) : 0};
	struct indices_item item;
	uint32_t left = n;

	while (text && indices_item(&reader, &item, NULL) == 0) {
		uint32_t count = indices_of(&item);
		if (left < count)
			return item.first + left * item.step;

		left -= count;
		if (!indices_take(&reader, ','))
			break;
	}

	return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_set.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/parse.h"
#include "job/wants.h"

static const char job_set_digits[] = "0123456789";

/* The number at `*at`, which moves behind it. */
static int job_set_number(const char *text, const char **at, uint64_t min, uint64_t max,
			  uint64_t *out, struct err *err)
{
	size_t length = strspn(*at, job_set_digits), place = (size_t)(*at - text) + 1;
	if (length == 0)
		return err_set(err, -EINVAL, "'%.64s': a number is missing at character %zu", text,
			       place);
	if (parse_u64_span(*at, length, min, max, out) < 0)
		return err_set(err, -EINVAL, "'%.64s': the number at character %zu is out of range",
			       text, place);

	*at += length;
	return 0;
}

/* "-LAST", if it is there. */
static int job_set_last(const char *text, const char **at, uint64_t max, struct job_set_item *item,
			struct err *err)
{
	item->last = item->first;
	if (**at != '-')
		return 0;

	(*at)++;
	int rc = job_set_number(text, at, 0, max, &item->last, err);
	if (rc == 0 && item->last < item->first)
		rc = err_set(err, -EINVAL, "'%.64s' ends before it begins", text);

	return rc;
}

static int job_set_read_numbers(const char *text, struct job_set_item *item, struct err *err)
{
	const char *at = text;
	uint64_t id_max = INT64_MAX - WANTS_ARRAY_MAX;
	int rc = job_set_number(text, &at, 1, id_max, &item->first, err);
	if (rc < 0)
		return rc;

	if (*at == '.') {
		at++;
		item->kind = JOB_SET_MEMBERS;
		item->array_id = item->first;
		rc = job_set_number(text, &at, 0, UINT32_MAX, &item->first, err);
		if (rc == 0)
			rc = job_set_last(text, &at, UINT32_MAX, item, err);
	} else {
		item->kind = *at == '-' ? JOB_SET_RANGE : JOB_SET_ID;
		rc = job_set_last(text, &at, id_max, item, err);
	}

	if (rc == 0 && *at)
		rc = err_set(err, -EINVAL,
			     "'%.64s' makes no sense from character %zu on: 17, 12-20, 17.3 and "
			     "17.3-9 do",
			     text, (size_t)(at - text) + 1);

	return rc;
}

int job_set_read_name(const char *text, struct job_set_item *out, struct err *err)
{
	if (*text == '\0')
		return err_set(err, -EINVAL, "an empty name means no job");
	if (strlen(text) > JOB_SET_NAME_MAX)
		return err_set(err, -EINVAL, "no job has so long a name: '%.40s...'", text);

	int rc = glob_check(text, err);
	if (rc == 0)
		*out = (struct job_set_item){.kind = JOB_SET_NAME, .text = text};

	return rc;
}

int job_set_read(const char *text, struct job_set_item *out, struct err *err)
{
	bool is_number =
	    text[0] >= '0' && text[0] <= '9' && text[strspn(text, "0123456789.-")] == '\0';
	if (!is_number)
		return job_set_read_name(text, out, err);

	struct job_set_item item = {.text = text};
	int rc = job_set_read_numbers(text, &item, err);
	if (rc == 0)
		*out = item;

	return rc;
}

bool job_set_is_single(const struct job_set_item *item)
{
	return item->kind == JOB_SET_ID ||
	       (item->kind == JOB_SET_MEMBERS && item->first == item->last);
}

bool job_set_has(const struct job_set_item *item, const Sluice__V1__Job *job)
{
	uint64_t number = job->array_id ? job->array_id : job->id;

	switch (item->kind) {
	case JOB_SET_ID:
		return number == item->first || job->id == item->first;
	case JOB_SET_RANGE:
		return number >= item->first && number <= item->last;
	case JOB_SET_MEMBERS:
		return job->array_id == item->array_id && job->array_index >= item->first &&
		       job->array_index <= item->last;
	case JOB_SET_NAME:
		return glob_match(item->text, job->name);
	}

	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/service/service_select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/glob.h"
#include "job/job.h"

static int select_take_names(struct service_select *select, const Sluice__V1__ListRequest *asked,
			     struct err *err)
{
	for (size_t i = 0; i < asked->n_names; i++) {
		size_t length = strlen(asked->names[i]);
		if (length >= SELECT_NAME_BYTES_MAX)
			return err_set(err, -EINVAL, "no job has so long a name: '%.40s...'",
				       asked->names[i]);

		int rc = glob_check(asked->names[i], err);
		if (rc < 0)
			return rc;

		memcpy(select->names[select->name_count++], asked->names[i], length + 1);
	}

	return 0;
}

static int select_take_ranges(struct service_select *select, const Sluice__V1__ListRequest *asked,
			      struct err *err)
{
	for (size_t i = 0; i < asked->n_ranges; i++) {
		const Sluice__V1__JobRange *range = asked->ranges[i];
		if (range->first > range->last)
			return err_set(err, -EINVAL,
				       "range %" PRIu64 "-%" PRIu64 " begins behind its end",
				       range->first, range->last);

		select->ranges[select->range_count++] =
		    (struct select_range){range->first, range->last, range->array_id, range->alone};
	}

	return 0;
}

int service_select_take(struct service_select *select, const Sluice__V1__ListRequest *asked,
			struct err *err)
{
	if (asked->n_names > SELECT_NAMES_MAX || asked->n_ranges > SELECT_RANGES_MAX)
		return err_set(
		    err, -EINVAL,
		    "%zu names and %zu ranges of numbers are too many: at most %d and %d",
		    asked->n_names, asked->n_ranges, SELECT_NAMES_MAX, SELECT_RANGES_MAX);

	select->names = asked->n_names ? calloc(asked->n_names, sizeof(*select->names)) : NULL;
	select->ranges = asked->n_ranges ? calloc(asked->n_ranges, sizeof(*select->ranges)) : NULL;
	if ((asked->n_names && !select->names) || (asked->n_ranges && !select->ranges))
		return err_set(err, -ENOMEM, "no memory to look for jobs");

	int rc = select_take_names(select, asked, err);
	return rc < 0 ? rc : select_take_ranges(select, asked, err);
}

static bool select_range_has(const struct select_range *range, const struct job *job)
{
	if (range->array_id)
		return job->array_id == range->array_id && job->array_index >= range->first &&
		       job->array_index <= range->last;

	uint64_t number = job->array_id ? job->array_id : job->id;
	return (number >= range->first && number <= range->last) ||
	       (range->alone && job->id >= range->first && job->id <= range->last);
}

bool service_select_has(const struct service_select *select, const struct job *job, bool sees_name)
{
	if (select->name_count == 0 && select->range_count == 0)
		return true;

	for (size_t i = 0; i < select->range_count; i++)
		if (select_range_has(&select->ranges[i], job))
			return true;

	for (size_t i = 0; sees_name && i < select->name_count; i++)
		if (glob_match(select->names[i], job->name))
			return true;

	return false;
}

void service_select_done(struct service_select *select)
{
	free(take_ptr(select->names));
	free(take_ptr(select->ranges));
	*select = (struct service_select){.name_count = 0};
}

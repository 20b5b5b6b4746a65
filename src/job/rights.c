/* SPDX-License-Identifier: Apache-2.0 */
#include "job/rights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void rights_done(struct rights *rights)
{
	free(rights->groups);
	rights->groups = NULL;
	rights->group_count = 0;
}

int rights_copy(const struct rights *rights, struct rights *out)
{
	gid_t *groups = calloc(rights->group_count + 1, sizeof(*groups));
	if (!groups)
		return -ENOMEM;

	for (size_t i = 0; i < rights->group_count; i++)
		groups[i] = rights->groups[i];

	*out = *rights;
	out->groups = groups;
	return 0;
}

static bool rights_has_group(gid_t wanted, gid_t gid, const gid_t *groups, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (groups[i] == wanted)
			return true;
	return wanted == gid;
}

bool rights_keep_groups(struct spec *spec, gid_t gid, const gid_t *groups, size_t count)
{
	size_t kept = 0, before = spec->group_count;
	for (size_t i = 0; i < before; i++)
		if (rights_has_group(spec->groups[i], gid, groups, count))
			spec->groups[kept++] = spec->groups[i];
	spec->group_count = kept;
	return kept < before;
}

int rights_lower(struct spec *spec, const struct rights *rights, struct err *err)
{
	if (!rights_has_group(spec->gid, rights->gid, rights->groups, rights->group_count))
		return err_set(
		    err, -EPERM,
		    "the job runs as group %u, of which who changes it is none: submit it "
		    "anew",
		    (unsigned)spec->gid);

	(void)rights_keep_groups(spec, rights->gid, rights->groups, rights->group_count);

	for (size_t i = 0; i < spec->limit_count; i++) {
		struct spec_limit *limit = &spec->limits[i];
		const struct spec_limit *most = &rights->limits[limit->resource % SPEC_LIMITS_MAX];
		limit->hard = limit->hard < most->hard ? limit->hard : most->hard;
		limit->soft = limit->soft < limit->hard ? limit->soft : limit->hard;
	}

	return 0;
}

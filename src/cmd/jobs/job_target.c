/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_target.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "cmd/service/agent_call.h"
#include "cmd/jobs/job_text.h"
#include "sluice.pb-c.h"

static void job_target_fill(const Sluice__V1__Job *job, struct job_target *out)
{
	if (job->array_id != job->id || out->is_member)
		return;
	/* Of other users' jobs it is not told: then the first alone is meant. */
	if (job->wants)
		out->array_count = job->wants->array_count;
}

static bool job_target_on_page(const ProtobufCMessage *reply, void *context)
{
	const Sluice__V1__ListReply *page = (const Sluice__V1__ListReply *)reply;
	uint64_t *id = context;
	if (page->n_jobs > 0)
		*id = page->jobs[0]->id;
	return page->n_jobs == 0;
}

/* The member of an array whose indices do not begin at 0, or have gaps. */
static int job_target_search(struct agent_call *agent, uint64_t array_id, uint64_t index,
			     struct job_target *out, struct err *err)
{
	Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
	Sluice__V1__JobRange range = SLUICE__V1__JOB_RANGE__INIT, *ranges[] = {&range};
	uint64_t id = 0;

	range.array_id = array_id;
	range.first = range.last = index;
	request.ranges = ranges;
	request.n_ranges = 1;
	request.array_id = array_id;
	request.all = true;

	int rc = agent_call_follow(agent, AGENT_LIST, &request.base, AGENT_CALL_DEADLINE_NS,
				   job_target_on_page, &id, err);
	if (rc < 0)
		return rc;
	if (id == 0)
		return err_set(err, -EINVAL, "job %" PRIu64 " has no member %" PRIu64, array_id,
			       index);

	out->id = id;
	return 0;
}

int job_target_find(struct agent_call *agent, const char *text, bool has_array,
		    struct job_target *out, struct err *err)
{
	struct job_target target = {.id = 0};
	uint64_t array_id;

	if (job_text_target(text, &target.id, &array_id) < 0)
		return err_set(err, -EINVAL, "'%s' is no number of a job", text);

	target.is_member = array_id != 0;
	if (!target.is_member && !has_array) {
		*out = target;
		return 0;
	}

	Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;
	uint64_t index = target.id - array_id;

	request.id = target.id;
	int rc = agent_call_ask(agent, AGENT_GET, &request.base, &reply, err);
	bool is_gone = rc == -EREMOTEIO && agent->result.status == WIRE_NOT_FOUND;
	if (rc < 0 && !(is_gone && target.is_member))
		return rc;

	const Sluice__V1__Job *job = (const Sluice__V1__Job *)reply;
	bool is_it =
	    job && (!target.is_member || (job->array_id == array_id && job->array_index == index));

	if (is_it)
		job_target_fill(job, &target);
	agent_call_free(reply);
	rc = is_it ? 0 : job_target_search(agent, array_id, index, &target, err);
	if (rc == 0)
		*out = target;

	return rc;
}

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

	request.id = target.id;
	int rc = agent_call_ask(agent, AGENT_GET, &request.base, &reply, err);
	if (rc == -EREMOTEIO && agent->result.status == WIRE_NOT_FOUND && target.is_member)
		return err_set(err, rc, "job %" PRIu64 " has no member %" PRIu64, array_id,
			       target.id - array_id);
	if (rc < 0)
		return rc;

	const Sluice__V1__Job *job = (const Sluice__V1__Job *)reply;
	if (target.is_member && job->array_id != array_id)
		rc = err_set(err, -EINVAL, "job %" PRIu64 " has no member %" PRIu64, array_id,
			     target.id - array_id);

	job_target_fill(job, &target);
	agent_call_free(reply);
	if (rc == 0)
		*out = target;

	return rc;
}

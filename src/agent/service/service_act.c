/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to a job that a number names: found first, whoever's it is and whether or not it has
 * ended. */
#include <errno.h>
#include <inttypes.h>

#include "agent/service/service_internal.h"
#include "base/err.h"

/* -ENOENT, with a sentence. */
static int service_no_job(uint64_t id, struct err *err)
{
	return err_set(err, -ENOENT, "there is no job %" PRIu64, id);
}

void service_fail_lookup(struct service_request *request, uint64_t id, int rc,
			 const struct err *err)
{
	struct err failure = {0};

	if (rc < 0 && rc != -ENOENT && err)
		failure = *err;
	else
		(void)service_no_job(id, &failure);

	service_request_fail(request, &failure);
}

static void service_act_now(struct service_act *act)
{
	struct err err = {0};
	if (service_check_act(&act->request, act->id, act->uid, &err) < 0)
		service_request_fail(&act->request, &err);
	else
		act->act(act);
}

static void service_act_each(const struct job *job, const struct queue_attempt *attempt,
			     void *context)
{
	struct service_act *act = context;
	act->is_found = true;
	act->uid = job->uid;
}

static void service_act_found(int rc, const struct err *err, void *context)
{
	struct service_act *act = context;
	if (!service_request_answered(&act->request))
		return;
	if (act->is_found)
		service_act_now(act);
	else
		service_fail_lookup(&act->request, act->id, rc, err);
}

void service_act_on(struct service_act *act)
{
	struct queue *queue = act->request.service->options.queue;
	const struct job *job = queue_find(queue, act->id);
	if (!job && !act->member_alone) /* others of its array may not have ended */
		job = queue_find_array(queue, act->id);

	if (job) {
		act->uid = job->uid;
		service_act_now(act);
		return;
	}

	const struct queue_query query = {.id = act->id,
					  .uid = act->request.uid,
					  .max = 1,
					  .each = service_act_each,
					  .done = service_act_found,
					  .context = act};
	service_request_wait(&act->request);
	queue_query(queue, &query);
}

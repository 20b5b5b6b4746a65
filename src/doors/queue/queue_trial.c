/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submissions that ask what a scheduling pass would say of one more job: dry runs, and those that
 * must not wait. Each takes a pass over all jobs. They are made one at a time, with rests, the
 * users in turn, so that neither the loop nor another user's waits for one user's many.
 */
#include "doors/queue/queue_submission.h"

/* Whose turn it is: the first of another user than the last one's, or the first. */
static struct queue_submission *trial_take(struct queue *queue)
{
	struct queue_submission **at = &queue->trials;
	while (*at && account_owner(queue->account, (*at)->uid) == queue->trial_owner)
		at = &(*at)->next;

	if (!*at)
		at = &queue->trials;

	struct queue_submission *taken = *at;
	if (!taken)
		return NULL;

	*at = taken->next;
	if (queue->trials_end == &taken->next)
		queue->trials_end = at;
	taken->next = NULL;
	queue->trial_owner = account_owner(queue->account, taken->uid);

	return taken;
}

void queue_trial_next(void *context)
{
	struct queue *queue = context;
	uint64_t began_ns = loop_now_ns(queue->options.loop);
	if (queue->closing || !queue->has_machine || began_ns < queue->trial_next_ns)
		return;

	struct queue_submission *submission = trial_take(queue);
	if (!submission)
		return;

	queue_submission_try(queue, submission);

	uint64_t ended_ns = loop_now_ns(queue->options.loop);
	queue->trial_next_ns = ended_ns + QUEUE_PASS_REST * (ended_ns - began_ns);
	if (queue->trials)
		loop_timer_start(queue->trial_timer, queue->trial_next_ns - ended_ns + 1);
}

void queue_trial_add(struct queue *queue, struct queue_submission *submission)
{
	*queue->trials_end = submission;
	queue->trials_end = &submission->next;
	if (loop_timer_is_running(queue->trial_timer))
		return;

	uint64_t now_ns = loop_now_ns(queue->options.loop);
	if (now_ns < queue->trial_next_ns)
		loop_timer_start(queue->trial_timer, queue->trial_next_ns - now_ns);
	else
		queue_trial_next(queue);
}

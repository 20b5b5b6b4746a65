/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List: every job that fits, in pages. What is true now is packed at once, so that a reader who
 * takes his time gets one moment and not a mixture, and is sent as he reads; the first pages while
 * the store is still being read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/service/service_internal.h"
#include "agent/service/service_select.h"
#include "agent/users.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "wire/arena.h"

enum list_limits {
	LIST_VARINT_MAX = 10, /* bytes */
	LIST_JOBS_FIELD = 1,  /* ListReply.jobs */
};

struct service_listing {
	struct service_request request;
	struct message_view view;
	bool all;
	uint32_t states; /* bit N: jobs in state N; 0: all of them */
	bool has_user, has_uid, is_manager;
	bool own;		      /* only jobs that the caller may act on */
	struct service_select select; /* owned */
	int64_t since_unix_ns;	      /* 0: as `all` says */
	char project[WANTS_NAME_MAX];
	uid_t uid;
	char user[USERS_NAME_MAX];
	struct arena arena; /* of one job at a time */
	struct buf packed;  /* each job: its length as a varint, and its bytes */
	size_t sent;	    /* bytes of it */
	size_t unsent;	    /* jobs behind those */
	/* Who computes without a job: of `outside_arena`, and in the first message. */
	Sluice__V1__GpuUse **outside;
	size_t outside_count;
	struct arena outside_arena;
	bool is_asking;	    /* the queue has not said yet that it will answer */
	bool is_complete;   /* nothing is added any more */
	int result;	    /* -errno: something did not fit */
	struct err refusal; /* of the queue, or of the account */
	/* Jobs that had not ended when they were packed: one whose end was being written may be
	 * among those that have ended as well. Ascending, owned. */
	uint64_t array_id; /* 0: any, and those that are in none */
	uint64_t *unended;
	size_t unended_count;
};

static bool listing_wants(const struct service_listing *listing, const struct job *job)
{
	struct service *service = listing->request.service;

	if (listing->states && !(listing->states >> job->state & 1))
		return false;
	if (listing->array_id > 0 && job->array_id != listing->array_id)
		return false;

	/* What a project is called may say what it is about: as of the name. */
	if (listing->project[0] &&
	    (!job->wants.project || strcmp(job->wants.project, listing->project) != 0 ||
	     !(listing->is_manager || message_view_owns(&listing->view, job->uid))))
		return false;

	bool owns = message_view_owns(&listing->view, job->uid);
	if (listing->own && !owns && !(listing->is_manager && listing->has_user))
		return false;
	if (!service_select_has(&listing->select, job, owns))
		return false;
	if (!listing->has_user)
		return true;
	if (listing->has_uid && listing->uid == job->uid)
		return true;

	return strcmp(users_name(service->users, job->uid), listing->user) == 0;
}

static int listing_add_varint(struct buf *out, uint64_t value)
{
	uint8_t bytes[LIST_VARINT_MAX];
	size_t length = 0;
	do {
		bytes[length++] = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
		value >>= 7;
	} while (value > 0);
	return buf_add(out, bytes, length);
}

static void listing_add(struct service_listing *listing, const struct job *job,
			const struct queue_attempt *attempt)
{
	if (listing->result < 0 || !listing->request.call || !listing_wants(listing, job))
		return;

	Sluice__V1__Job message;
	int rc = service_job_message(listing->request.service, &listing->view, job, attempt,
				     &listing->arena, &message, NULL);
	size_t length = rc == 0 ? protobuf_c_message_get_packed_size(&message.base) : 0;

	if (rc == 0)
		rc = listing_add_varint(&listing->packed, length);
	if (rc == 0)
		rc = buf_reserve(&listing->packed, length);
	if (rc == 0)
		rc = service_request_keep(&listing->request, listing->packed.length + length,
					  &listing->refusal);

	if (rc == 0) {
		(void)protobuf_c_message_pack(&message.base, (uint8_t *)listing->packed.data +
								 listing->packed.length);
		listing->packed.length += length;
		listing->unsent++;
	}

	arena_reset(&listing->arena);
	listing->result = rc;
}

/* Bytes of the job at `at`, its length included. */
static size_t listing_size_at(const struct service_listing *listing, size_t at)
{
	uint64_t length = 0;
	size_t used = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)listing->packed.data[at + used];
		length |= (uint64_t)(byte & 0x7f) << (7 * used);
		used++;
	} while (byte & 0x80);
	return used + (size_t)length;
}

/* False: as service_request_send(). */
static bool listing_send_outside(struct service_listing *listing)
{
	Sluice__V1__ListReply reply = SLUICE__V1__LIST_REPLY__INIT;

	reply.outside = listing->outside;
	reply.n_outside = listing->outside_count;
	if (!service_request_send(&listing->request, &reply.base))
		return false;

	listing->outside_count = 0;
	arena_done(&listing->outside_arena);
	arena_init(&listing->outside_arena, SERVICE_ARENA_MAX);

	return true;
}

/* Sends pages while the reader takes them. A job that is packed already is what protobuf-c calls an
 * unknown field: bytes that it passes on as they are. */
static void listing_send(struct service_request *request)
{
	struct service_listing *listing = (struct service_listing *)request;

	if (listing->outside_count > 0 && !listing_send_outside(listing))
		return;

	while (listing->unsent >= (listing->is_complete ? 1 : SERVICE_PAGE_JOBS)) {
		ProtobufCMessageUnknownField jobs[SERVICE_PAGE_JOBS];
		Sluice__V1__ListReply reply = SLUICE__V1__LIST_REPLY__INIT;
		size_t at = listing->sent;
		unsigned count = 0;

		while (count < SERVICE_PAGE_JOBS && at < listing->packed.length) {
			size_t size = listing_size_at(listing, at);
			jobs[count++] = (ProtobufCMessageUnknownField){
			    .tag = LIST_JOBS_FIELD,
			    .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
			    .len = size,
			    .data = (uint8_t *)listing->packed.data + at,
			};
			at += size;
		}

		reply.base.n_unknown_fields = count;
		reply.base.unknown_fields = jobs;
		if (!service_request_send(request, &reply.base))
			return;

		listing->sent = at;
		listing->unsent -= count;
		if (listing->unsent == 0) {
			buf_clear(&listing->packed);
			listing->sent = 0;
			(void)service_request_keep(request, 0, NULL);
		}
	}

	if (listing->is_complete)
		service_request_finish(request, WIRE_OK, NULL);
}

static int listing_compare_ids(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

static void listing_each(const struct job *job, const struct queue_attempt *attempt, void *context)
{
	struct service_listing *listing = context;
	if (listing->unended_count > 0 &&
	    bsearch(&job->id, listing->unended, listing->unended_count, sizeof(job->id),
		    listing_compare_ids))
		return;

	listing_add(listing, job, attempt);
	/* Where he waits for a reader, that reader has him go on. */
	if (listing->request.call && listing->request.blocked_ns == 0)
		listing_send(&listing->request);
}

static void listing_complete(int rc, const struct err *err, void *context)
{
	struct service_listing *listing = context;
	if (listing->is_asking) { /* it does not answer at all: service_list() goes on */
		listing->refusal = *err;
		listing->refusal.code = rc;
		return;
	}

	if (!service_request_answered(&listing->request))
		return;

	listing->is_complete = true;
	struct err failure = {0};

	if (rc < 0) {
		failure = *err;
		failure.code = rc;
	} else if (listing->result < 0) {
		failure = listing->refusal;
		if (failure.code == 0)
			(void)err_set(&failure, -ENOMEM,
				      "so many jobs do not fit into one answer: ask for a user or "
				      "a state");

		rc = failure.code;
	}

	if (rc < 0)
		service_request_fail(&listing->request, &failure);
	else if (listing->request.blocked_ns == 0)
		listing_send(&listing->request);
}

static void listing_release(struct service_request *request)
{
	struct service_listing *listing = (struct service_listing *)request;
	arena_done(&listing->arena);
	arena_done(&listing->outside_arena);
	buf_done(&listing->packed);
	free(listing->unended);
	service_select_done(&listing->select);
}

static int listing_take(struct service_listing *listing, const Sluice__V1__ListRequest *asked,
			struct err *err)
{
	uint64_t uid;

	listing->all = asked->all;
	listing->array_id = asked->array_id;
	listing->since_unix_ns = asked->since_unix_ns;
	listing->is_manager = service_is_manager(&listing->request);
	if (strlen(asked->project) >= sizeof(listing->project))
		return err_set(err, -EINVAL, "no project has so long a name: '%.40s...'",
			       asked->project);

	memcpy(listing->project, asked->project, strlen(asked->project) + 1);

	for (size_t i = 0; i < asked->n_states; i++) {
		enum job_state state;
		if (message_to_state(asked->states[i], &state) < 0)
			return err_set(err, -EINVAL, "there is no state %d of a job",
				       (int)asked->states[i]);

		listing->states |= UINT32_C(1) << state;
		/* Who asks for jobs that have ended means all of them. */
		listing->all |= job_state_is_final(state);
	}

	listing->own = asked->own;
	int rc = service_select_take(&listing->select, asked, err);
	if (rc < 0)
		return rc;

	listing->has_user = asked->user[0] != '\0';
	if (strlen(asked->user) >= sizeof(listing->user))
		return err_set(err, -EINVAL, "no user has so long a name: '%.40s...'", asked->user);

	memcpy(listing->user, asked->user, strlen(asked->user) + 1);
	if (listing->has_user && parse_u64(asked->user, 0, UINT32_MAX - 1, &uid) == 0) {
		listing->has_uid = true;
		listing->uid = (uid_t)uid;
	}

	return 0;
}

/* Whether final jobs can be among those that are wanted. */
static bool listing_wants_final(const struct service_listing *listing)
{
	if (listing->states == 0)
		return true;
	for (int state = JOB_PENDING; state <= JOB_CANCELLED; state++) {
		if (job_state_is_final((enum job_state)state) && listing->states >> state & 1)
			return true;
	}
	return false;
}

/* Has the jobs that have ended read, which takes a while: the others are packed meanwhile, and none
 * of them is missed, for it takes the loop to make one a job that has ended. */
static void listing_ask(struct service_listing *listing)
{
	const struct queue_query query = {
	    .uid = listing->request.uid,
	    .since_unix_ns = listing->since_unix_ns != 0 ? listing->since_unix_ns
			     : listing->all		 ? 0
							 : clock_unix_ns() - SERVICE_LATELY_NS,
	    .max = SERVICE_FINAL_MAX,
	    .each = listing_each,
	    .done = listing_complete,
	    .context = listing,
	};

	listing->is_asking = true;
	queue_query(listing->request.service->options.queue, &query);
	listing->is_asking = false;
}

static void listing_add_unended(struct service_listing *listing, const struct queue *queue)
{
	size_t count = 0;
	for (int state = JOB_PENDING; state <= JOB_CANCELLED; state++)
		count += queue_count(queue, (enum job_state)state);

	listing->unended = calloc(count + 1, sizeof(listing->unended[0]));
	if (!listing->unended)
		listing->result = -ENOMEM;

	for (const struct job *job = queue_first(queue); job && listing->result == 0;
	     job = queue_next(queue, job)) {
		struct queue_attempt attempt;
		queue_attempt_of(queue, job, &attempt);
		if (listing->unended_count < count)
			listing->unended[listing->unended_count++] = job->id;
		listing_add(listing, job, &attempt);
	}
}

void service_list(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct queue *queue = service->options.queue;
	struct service_listing *listing =
	    service_request_new(service, call, SERVICE_LIST, sizeof(*listing));
	if (!listing)
		return;

	listing->request.resume = listing_send;
	listing->request.release = listing_release;
	listing->view = service_view(service, call, false);
	arena_init(&listing->arena, SERVICE_ARENA_MAX);
	arena_init(&listing->outside_arena, SERVICE_ARENA_MAX);
	buf_init(&listing->packed, SERVICE_LIST_BYTES_MAX);

	struct err err = {0};
	if (listing_take(listing, (const Sluice__V1__ListRequest *)message, &err) < 0 ||
	    service_outside(service, &listing->view, &listing->outside_arena, &listing->outside,
			    &listing->outside_count, &err) < 0) {
		service_request_fail(&listing->request, &err);
		return;
	}

	service_request_wait(&listing->request);
	if (listing_wants_final(listing))
		listing_ask(listing);

	if (listing->refusal.code < 0) {
		struct err refusal = listing->refusal;
		if (service_request_answered(&listing->request))
			service_request_fail(&listing->request, &refusal);
		return;
	}

	listing_add_unended(listing, queue);
	if (listing_wants_final(listing))
		listing_send(&listing->request);
	else
		listing_complete(0, NULL, listing);
}

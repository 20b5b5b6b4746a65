/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the service share: service.c (connections, streams, who asks), service_job.c
 * (one job), service_list.c (many), service_logs.c, service_node.c (the machine), service_uses.c
 * (who computes on it), service_health.c (its health). Nobody else includes this.
 */
#ifndef SLUICE_AGENT_SERVICE_SERVICE_INTERNAL_H
#define SLUICE_AGENT_SERVICE_SERVICE_INTERNAL_H

#include <stddef.h>
#include <sys/types.h>

#include "agent/answer.h"
#include "agent/message.h"
#include "agent/service/service.h"
#include "base/account.h"
#include "base/loop.h"
#include "doors/queue/queue.h"
#include "sluice.pb-c.h"
#include "wire/server.h"

struct arena;
struct kubelet_view;
struct snapshot;
struct users;

enum { SERVICE_OUTSIDE_MAX = 64 }; /* processes outside the queue that one answer names */

/* Streams that are told of changes. */
enum service_kind {
	SERVICE_CALL,	       /* answers once */
	SERVICE_WATCH_JOB,     /* told by service_jobs_changed() */
	SERVICE_WATCH_MACHINE, /* told by service_machine_changed() */
	SERVICE_LIST,
	SERVICE_LOGS,
	SERVICE_KIND_COUNT,
};

/*
 * A call that is not answered yet; the first member of what a handler keeps for it. It outlives the
 * call: whoever was asked (queue, storage thread) answers it in any case, and only then is it
 * freed. `call` is NULL when the caller is gone.
 */
struct service_request {
	struct service_request *next, **link;
	struct service *service; /* borrowed */
	struct wire_call *call;	 /* borrowed; NULL: nobody waits for an answer any more */
	enum service_kind kind;
	uid_t uid;	     /* whose account it is on */
	uint64_t list_bytes; /* that it has of ACCOUNT_LIST_BYTES */
	bool is_counted;     /* on the account, as one of its kind */
	bool is_waiting;     /* somebody holds it as context and will call back */
	uint64_t blocked_ns; /* loop time since which its reader does not read; 0: he does */
	void (*resume)(struct service_request *request);  /* he reads again */
	void (*release)(struct service_request *request); /* frees what it owns; may be NULL */
};

struct service {
	struct service_options options;
	struct wire_server *server;	  /* owned */
	struct users *users;		  /* owned */
	struct loop_timer *again;	  /* owned; runs while the queue was asked too much */
	struct loop_timer *stall;	  /* owned; runs while a reader does not read */
	struct service_request *requests; /* owned */
	size_t count[SERVICE_KIND_COUNT];
	bool is_stopping;
	uint64_t last_call_ns;
	char storage_error[256];

	/* Jobs that ended lately, for those who watch the machine. */
	struct job *recent; /* owned; newest first */
	size_t recent_count;
	bool recent_is_stale, recent_is_asked;
	struct loop_task recent_task, evict_task;
};

/*
 * Begins a request of `size` bytes (a struct that starts with a service_request). NULL: the call
 * was answered already (the agent stops, too many of this kind, no memory).
 */
void *service_request_new(struct service *service, struct wire_call *call, enum service_kind kind,
			  size_t size);
/* From now on it has `amount` of ACCOUNT_LIST_BYTES. 0 or -errno: it is as it was. */
int service_request_keep(struct service_request *request, uint64_t amount, struct err *err);
/* Somebody was asked and will answer; and he has. The second returns false, and has freed the
 * request, when nobody waits for it any more. */
void service_request_wait(struct service_request *request);
bool service_request_answered(struct service_request *request);
/* Each ends the call, if there is somebody, and frees the request. */
void service_request_reply(struct service_request *request, const ProtobufCMessage *reply);
void service_request_fail(struct service_request *request, const struct err *err);
void service_request_finish(struct service_request *request, enum wire_status status,
			    const char *message);
/* One message of a stream. True: it was taken. False: the request is gone, or (blocked_ns set) its
 * reader does not read and resume() will be called. */
bool service_request_send(struct service_request *request, const ProtobufCMessage *reply);

/* The queue answers no more questions just now: watchers of jobs are looked at again soon. */
void service_ask_again(struct service *service);

/*
 * Who may do what with a job. Its owner, root, and whoever the agent runs as may do all, and see
 * its command and logs. A manager (one of these, or a member of sluice.jobs.adminGroup, as the
 * kernel says of the caller) may also cancel, signal, hold and reorder everybody's jobs, and drain
 * the queue; he sees of them what everybody sees.
 */
bool service_is_manager(const struct service_request *request);
/* 0, or -EPERM with a text: whether the caller may do that with job `id` of this user; whether he
 * may give a job that priority: above 0 it is for managers alone, or whoever asked for most would
 * always be first. */
int service_check_act(const struct service_request *request, uint64_t id, uid_t uid,
		      struct err *err);

/* A call that does something to one job. `request`, `id`, `member_alone` and act() are the
 * caller's. */
struct service_act {
	struct service_request request;
	uint64_t id;
	bool member_alone; /* no array: `id` is one of its jobs */
	bool is_found;
	uid_t uid; /* the job's */
	void (*act)(struct service_act *act);
};
/* Finds the job, be it over, and calls act() if whoever asks may act on it; answers him if not. */
void service_act_on(struct service_act *act);
/* The answer to a request whose job was looked up in vain: `rc` and `err` of the query. */
void service_fail_lookup(struct service_request *request, uint64_t id, int rc,
			 const struct err *err);
/* -EINVAL: it is no signal that a job can be sent. */
int service_check_signal(uint32_t signo, struct err *err);
int service_check_priority(const struct service_request *request, int32_t priority,
			   struct err *err);
/* The groups and limits of the process that calls, as the kernel says; the groups are borrowed of
 * the call. -EPERM: it has ended, and they cannot be known; -errno. */
int service_caller_rights(struct wire_call *call, struct rights *out, struct err *err);

/* How the caller sees jobs. */
struct message_view service_view(const struct service *service, const struct wire_call *call,
				 bool details);
/* Builds the message of a job in `arena`. -ENOMEM. */
int service_job_message(struct service *service, const struct message_view *view,
			const struct job *job, const struct queue_attempt *attempt,
			struct arena *arena, Sluice__V1__Job *out, struct err *err);

/* Handlers, by file. */
void service_submit(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_get(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_watch_job(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_signal(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_cancel(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_change(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_act_many(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_drain(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_claim(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_claims(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_collect(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_list(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_usage(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_logs(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_status(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_watch_machine(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_holders(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_reload(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_health(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_clear_health(struct wire_call *call, const ProtobufCMessage *message, void *context);
void service_release(struct wire_call *call, const ProtobufCMessage *message, void *context);

/*
 * How a GPU or a MIG device is claimed: the bits of enum claims_how, and in `*out_text` what to say
 * of it (left as it is without any claim); `with_parts`: also of a GPU's MIG devices.
 */
unsigned service_claims_how(const struct service *service, const char *uuid, bool with_parts,
			    struct arena *arena, char **out_text);

/* The limit that is asked for. -EINVAL: not one, or not it alone. */
int service_limit_take(const Sluice__V1__ChangeRequest *asked, bool is_manager,
		       struct queue_limit *out, struct err *err);

/* What the changes mean for requests of a kind. */
void service_watch_job_update(struct service_request *request);
void service_watch_machine_update(struct service_request *request);

/* A request of somebody who may do that (`what`, for the error). NULL: the call was answered. */
struct service_request *service_manage(struct service *service, struct wire_call *call, size_t size,
				       const char *what);

/* service_uses.c: the processes on the GPUs, into out->uses. -ENOMEM. */
int service_machine_uses(const struct service *service, const struct message_view *view,
			 const struct snapshot *snapshot, struct arena *arena,
			 Sluice__V1__Machine *out, struct err *err);
/* Of these the ones outside the queue, SERVICE_OUTSIDE_MAX at most. -ENOMEM. */
int service_outside(const struct service *service, const struct message_view *view,
		    struct arena *arena, Sluice__V1__GpuUse ***out, size_t *out_count,
		    struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that an agent answers on its socket (proto/sluice.proto): who may ask what, and how a
 * request becomes a call of the queue. Knows neither how jobs run nor how GPUs are looked at. All
 * of it belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_SERVICE_SERVICE_H
#define SLUICE_AGENT_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

struct account;
struct agent_paths;
struct child_set;
struct cluster;
struct err;
struct doors;
struct leases;
struct log;
struct loop;
struct node;
struct queue;
struct reload;
struct service;
struct storage;
struct vitals;

enum service_limits {
	SERVICE_PAGE_JOBS = 100, /* of one ListReply */
	SERVICE_LIST_BYTES_MAX = 32 << 20,
	SERVICE_FINAL_MAX = 10000,     /* final jobs in one list */
	SERVICE_MACHINE_PENDING = 200, /* waiting jobs in one Machine */
	SERVICE_MACHINE_FINAL = 20,    /* jobs that ended lately in it */
	SERVICE_LOG_CHUNK = 32 << 10,
	SERVICE_ARENA_MAX = 8 << 20,  /* of one Machine or Job */
	SERVICE_SUBMIT_MAX = 3 << 20, /* bytes of a request that submits or changes a job */
	SERVICE_REQUEST_MAX = 16384,  /* bytes, of what neither submits nor changes a job */
	SERVICE_REPLY_MAX = 32 << 20, /* memory for the reply to one */
};
#define SERVICE_LATELY_NS                                                                          \
	INT64_C(3600000000000)			/* how long a final job is listed without `all`    \
						 */
#define SERVICE_STALL_NS UINT64_C(60000000000)	/* a stream whose reader does not read this long */
#define SERVICE_IDLE_NS	 UINT64_C(300000000000) /* a connection without calls */
#define SERVICE_STUCK_NS UINT64_C(30000000000)	/* one write: then the disk does not answer */
#define SERVICE_AGAIN_NS                                                                           \
	UINT64_C(20000000) /* until a queue that is asked too much is asked again */
#define SERVICE_FOLLOW_NS UINT64_C(40000000) /* between looks at a log that is followed */

struct service_options {
	struct loop *loop; /* borrowed, all of these */
	struct storage *storage;
	struct child_set *children;
	struct log *log;
	const struct agent_paths *paths;
	struct node *node;
	const struct doors *doors;
	const struct leases *leases;
	struct vitals *vitals;
	struct reload *reload;
	struct queue *queue;
	struct account *account;
	const struct cluster *cluster;
	int64_t started_unix_ns;
};

/* Answers on one more socket (given), too. 0 or -ENOMEM. */
int service_listen(struct service *service, int listen_fd, struct err *err);

/* Answers on `listen_fd` (given) from now on. -ENOMEM, ... */
int service_new(const struct service_options *options, int listen_fd, struct service **out,
		struct err *err);
/* Cuts off every call. After queue_close(). NULL is fine; returns NULL. */
struct service *service_free(struct service *service);

/* The queue's jobs have changed. */
void service_jobs_changed(struct service *service);
/* The machine has: a sample, another inventory or policy. */
void service_machine_changed(struct service *service);

/* No new calls; streams end at once, running calls are finished, at the latest after `deadline_ns`.
 * Then `done`. */
void service_stop(struct service *service, uint64_t deadline_ns, void (*done)(void *context),
		  void *context);

/* Whether somebody waits for an answer or watches, and when (loop time) the last call came. */
bool service_is_busy(const struct service *service);
uint64_t service_last_call_ns(const struct service *service);

/* Why jobs cannot be accepted because the disk does not answer; "" when it does. Borrowed. */
const char *service_storage_error(struct service *service);

#endif

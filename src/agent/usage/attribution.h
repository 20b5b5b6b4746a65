/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who uses the GPUs: which container, pod or job of ours each process on them belongs to, what each
 * of these was given, how busy it kept its device and how much memory it has there. Puts together
 * what the kubelet, the queue, the driver and /proc say, and counts over time; decides nothing. All
 * of it belongs to the loop's thread; directories are read on the storage thread.
 *
 * What is not known is left out and never made up: shares of a device whose driver does not tell
 * processes apart, the names of a container that no log file of the kubelet has.
 */
#ifndef SLUICE_AGENT_USAGE_ATTRIBUTION_H
#define SLUICE_AGENT_USAGE_ATTRIBUTION_H

#include <stdint.h>

struct attribution;
struct door_kubelet;
struct err;
struct leases;
struct log;
struct loop;
struct node;
struct queue;
struct storage;
struct view;

struct attribution_options {
	struct loop *loop;	      /* borrowed, all of these */
	struct storage *storage;      /* ends before attribution_free() */
	struct log *log;	      /* may be NULL */
	const struct node *node;      /* how devices are shared */
	const struct leases *leases;  /* since when pods hold what; may be NULL */
	struct door_kubelet *kubelet; /* NULL: no pods */
	struct queue *const *queue;   /* what it points to may be NULL: no jobs */
	const char *root;	      /* before /var/log of the kubelet; pci_root(); NULL: "" */
	const char *proc; /* NULL: "/proc", which has to be that of the host's PID namespace */
};

/* -ENOMEM. What cannot be watched or read is looked at again. */
int attribution_new(const struct attribution_options *options, struct attribution **out,
		    struct err *err);
/* Nothing is begun any more; what is under way on the storage thread ends. NULL is fine. */
void attribution_stop(struct attribution *attribution);
/* After the storage thread has ended. NULL is fine; returns NULL. */
struct attribution *attribution_free(struct attribution *attribution);

/*
 * Fills holder[], process[] and their counts, and of `node` the fields unattributed,
 * holders_lost and holders_dropped. There already: `view->snapshot`; of each gpu[] the mode and the
 * counters busy_ns and energy_mj (or absent); job[], from which users have their names. To be
 * called once with each snapshot; a second call with the same one counts nothing twice.
 * `max_holders`: 0 or more than VIEW_HOLDER_MAX: that many.
 */
void attribution_fill(struct attribution *attribution, uint32_t max_holders, struct view *view);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the GPUs may be used: what the probe tells over time, judged by hardware/health.h, and
 * what must not be forgotten when the agent is restarted. The one verdict that kubelet door, local
 * queue, commands and metrics show. All of it belongs to the loop's thread; its file is written on
 * the storage thread.
 *
 * An XID of class reset is over when a reset was seen and three good samples followed; of class
 * reboot with another boot id; of class inspect, and a failed remapping, only by vitals_clear().
 * What could not be asked is well again after three good samples. With `recover: manual` only
 * vitals_clear() ends anything.
 */
#ifndef SLUICE_AGENT_VITALS_H
#define SLUICE_AGENT_VITALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/health.h"

struct config;
struct err;
struct inventory;
struct log;
struct loop;
struct probe_event;
struct storage;
struct vitals;

struct vitals_options {
	struct loop *loop; /* borrowed, all of these */
	struct storage *storage;
	struct log *log;	     /* may be NULL */
	const char *state_dir;	     /* the file is `health` in it */
	const char *boot_id;	     /* NULL: the kernel's */
	const struct config *config; /* for vitals_new() only */
	/* The verdict on a GPU (`uuid`, `index`) is another, but for the first good one. Within the
	 * pass of the loop in which it became so. May be NULL. */
	void (*changed)(const char *uuid, uint32_t index, enum health_state before,
			enum health_state after, const char *why, void *context);
	void *context;
};

/* Reads the state file. One that is damaged is renamed aside, with a warning in the log, and
 * everything begins as unknown. -ENOMEM. */
int vitals_new(const struct vitals_options *options, struct vitals **out, struct err *err);
/* After the storage thread has ended. NULL is fine; returns NULL. */
struct vitals *vitals_free(struct vitals *vitals);
/* sluice.health and the variables DP_DISABLE_HEALTHCHECKS, DP_ENABLE_HEALTHCHECKS. */
void vitals_configure(struct vitals *vitals, const struct config *config);

/* From the node: every event of the probe, and every new sample. `inventory` or `snapshot` may be
 * NULL: there is no driver. After events vitals_sample() makes the verdicts anew. */
void vitals_event(struct vitals *vitals, const struct probe_event *event);
void vitals_sample(struct vitals *vitals, const struct inventory *inventory,
		   const struct snapshot *snapshot);

/*
 * Why each GPU, each MIG device of the inventory of the last vitals_sample() should not be used;
 * NULL when it may. What concerns a whole GPU concerns its MIG devices; what concerns one instance
 * only that. Degraded is no reason. Borrowed until the next call of vitals_sample(),
 * vitals_configure() or vitals_clear(). `*out_count`: how many; may be NULL.
 */
const char *const *vitals_gpu_unhealthy(const struct vitals *vitals, uint32_t *out_count);
const char *const *vitals_mig_unhealthy(const struct vitals *vitals, uint32_t *out_count);
/* Counts up whenever one of those is another. */
uint64_t vitals_generation(const struct vitals *vitals);

/* The verdict on a GPU that is or was here, by its place. False: there are not so many. */
struct vitals_view {
	char uuid[SNAPSHOT_TEXT_MAX], name[SNAPSHOT_TEXT_MAX], bus[SNAPSHOT_SHORT_MAX];
	uint32_t index;
	bool here; /* in the last inventory */
	struct health_verdict verdict;
	uint32_t xid_count;
	struct {
		struct health_event event;
		enum xid_class class_; /* by the policy of now */
	} xid[HEALTH_EVENT_MAX];
};
bool vitals_at(const struct vitals *vitals, size_t place, struct vitals_view *out);
/* What an XID means by the policy of now. */
enum xid_class vitals_class(const struct vitals *vitals, uint32_t xid);
/* Why the kernel log is not read; "" when it is, or nobody has said otherwise. */
const char *vitals_kernel_log_error(const struct vitals *vitals);

/* A person has looked: every mark of the GPU ("GPU-...", an index, a PCI address, or "all") is
 * forgotten. -ENOENT names what there is. `*out_count`: GPUs. */
int vitals_clear(struct vitals *vitals, const char *gpu, uint32_t *out_count, struct err *err);

#endif

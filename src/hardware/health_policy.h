/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an XID means on this machine: the table of xid.h, or what NVIDIA's device plugin makes of
 * it, changed by the configuration and by the plugin's two environment variables. Pure data and
 * functions; knows neither configuration nor environment.
 */
#ifndef SLUICE_HARDWARE_HEALTH_POLICY_H
#define SLUICE_HARDWARE_HEALTH_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/xid.h"

enum health_policy_limits {
	HEALTH_OVERRIDE_MAX = 256, /* codes with a class of their own */
};

enum health_base {
	HEALTH_BY_TABLE, /* the classes of xid.h and what refines them */
	HEALTH_AS_PEER,	 /* everything is unhealthy except 13, 31, 43, 45, 68 and 109 */
};

/* All zero: by the table, nothing else. */
struct health_policy {
	uint32_t base;	  /* enum health_base */
	bool manual;	  /* nothing becomes well by itself */
	uint64_t poll_ns; /* between samples that count towards being well again; 0: each counts */
	/* DP_DISABLE_HEALTHCHECKS=all, DP_ENABLE_HEALTHCHECKS=all */
	bool ignores_all, heeds_all;
	uint32_t override_count;
	struct {
		uint32_t xid;
		uint8_t class_;	     /* enum xid_class */
		bool by_environment; /* beats ignores_all */
	} override[HEALTH_OVERRIDE_MAX];
};

/* The class of a code. `policy` may be NULL: the table. */
enum xid_class health_policy_class(const struct health_policy *policy, uint32_t xid);
/* Whether the table decides about this code, so that what refines it counts (contained errors,
 * links that are up again). */
bool health_policy_is_table(const struct health_policy *policy, uint32_t xid);
/* The class of a code that somebody wants to be unhealthy: the table's, if that is one; else until
 * a reset. */
enum xid_class health_policy_fatal(uint32_t xid);
/* Gives a code a class. -E2BIG: too many have one. */
int health_policy_set(struct health_policy *policy, uint32_t xid, enum xid_class class_);

/*
 * The two variables of NVIDIA's device plugin; either may be NULL. `disable`: "all" or "xids",
 * alone or in the list, means that no XID is acted on; else a comma list of codes to ignore.
 * `enable`: codes to act on, or "all"; it beats `disable` and what is ignored otherwise, so that
 * DP_DISABLE_HEALTHCHECKS=all with DP_ENABLE_HEALTHCHECKS=79 watches 79 alone (in the plugin it
 * watches nothing, against its own comment). `bad` (may be NULL) is told of every entry that is no
 * code, which is left out.
 * https://github.com/NVIDIA/k8s-device-plugin/blob/main/internal/rm/health.go
 */
void health_policy_environment(struct health_policy *policy, const char *disable,
			       const char *enable, void (*bad)(const char *entry, void *context),
			       void *context);

#endif

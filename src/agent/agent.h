/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: wires hardware, policy, units and doors together and is the only code that sees every
 * part. One loop thread, one storage thread. It loads no NVML and never waits for a driver or a
 * disk; jobs live on without it.
 */
#ifndef SLUICE_AGENT_AGENT_H
#define SLUICE_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/choice.h"
#include "agent/paths.h"

struct config_overrides;
struct err;
struct log;

struct agent_options {
	struct agent_paths paths;
	const char *config;	   /* the file that was named; NULL: the usual places. Borrowed */
	struct choice_rules rules; /* with a directory: one of the files in it instead */
	const struct config_overrides *overrides; /* of the command line. Borrowed; may be NULL */
	bool strict;				  /* warnings about unknown keys are errors */
	const char *node_name; /* Kubernetes' name of this node; NULL: no label is looked at */
	const char *node_label;
	const char *namespace_, *pod; /* for labels by the API; NULL: the pod's own, none */
	const char *kubeconfig;	      /* NULL: the pod's service account, if it is in one */
	struct log *log;	      /* borrowed; may be NULL */
	const char *supervisor;	      /* NULL: beside this program, or as installed */
	uint64_t
	    idle_exit_ns; /* ends when nothing was asked and no job was there this long; 0: never */
	uint64_t probe_period_ns; /* 0: the probe's default */
	uint64_t probe_call_ns;	  /* when a driver call counts as hung; 0: the probe's default */
	/* The kubelet's; NULL: the usual one, "": register nowhere. Borrowed. */
	const char *kubelet_socket;
	int ready_fd; /* a byte is written there when it serves; -1: none */
};

#define AGENT_STOP_NS UINT64_C(5000000000) /* for calls that run when it is to stop */

/*
 * Runs until SIGTERM, SIGINT or SIGQUIT, or until it was idle long enough. -EBUSY: another has this
 * state or this socket (the text says which process); -EINVAL: the configuration, with its
 * position; -EUCLEAN: a damaged database; -EMEDIUMTYPE: a network file system; -EPERM: a directory
 * of somebody else's; -ENODEV: a GPU without a driver (nodriver.h); what queue_open() returns.
 */
int agent_run(const struct agent_options *options, struct err *err);

#endif

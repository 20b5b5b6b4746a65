/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kubelet is told of one resource and what a call for its devices is answered from: plain
 * data, made anew from inventory, policy and configuration and never changed by a call. It knows
 * nothing of sockets; who serves the resource makes it, and allocate.c and prefer.c read it.
 */
#ifndef SLUICE_DOORS_KUBELET_RESOURCE_H
#define SLUICE_DOORS_KUBELET_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

struct err;
struct inventory;
struct kubelet_pool;
struct minors;

enum resource_limits {
	RESOURCE_NAME_MAX = 256,    /* "nvidia.com/gpu"; a prefix may be long */
	RESOURCE_ENDPOINT_MAX = 80, /* "nvidia-" + 63 + ".sock" with its NUL */
	RESOURCE_ID_MAX = 64,	    /* of a device with its NUL: the kubelet's API allows 63 */
	RESOURCE_INDEX_MAX = 24,    /* "63:15" */
	RESOURCE_PATHS_MAX = 3,	    /* the GPU, its GPU instance, its compute instance */
	RESOURCE_PATH_MAX = 48,	    /* "/dev/nvidia-caps/nvidia-cap4294967295" */
	RESOURCE_REASON_MAX = GPU_REASON_MAX,
};

/* Nodes without which no GPU can be used: bits, in the order in which a reply names them. */
enum resource_control {
	RESOURCE_NVIDIACTL = 1,
	RESOURCE_UVM = 2,
	RESOURCE_UVM_TOOLS = 4,
	RESOURCE_MODESET = 8,
};
/* "/dev/nvidiactl", ... of one bit; NULL for anything else. */
const char *resource_control_path(enum resource_control control);

/* CDI kinds of NVIDIA beside GPUs: bits, in the order in which a reply names them. */
enum resource_cdi_mode {
	RESOURCE_CDI_GDRCOPY = 1,
	RESOURCE_CDI_GDS = 2,
	RESOURCE_CDI_MOFED = 4,
	RESOURCE_CDI_IMEX = 8, /* channel 0, which is named behind the GPUs */
};

/* What the CDI specifications of this machine have, whoever wrote them. */
struct resource_cdi {
	bool is_known;	/* they were looked at; until then all names are taken to be right */
	uint32_t modes; /* enum resource_cdi_mode bits */
	/* UUIDs of devices that none of them has by the name that containers are told. Borrowed. */
	const char (*missing)[GPU_UUID_MAX];
	uint32_t missing_count;
};

/* A GPU or MIG device as it is on the machine. All its replicas share one. */
struct kubelet_hardware {
	char uuid[GPU_UUID_MAX];	/* what a container is given: no replica number */
	char index[RESOURCE_INDEX_MAX]; /* "i", of a MIG device "i:j" */
	uint32_t path_count;
	char path[RESOURCE_PATHS_MAX][RESOURCE_PATH_MAX]; /* inside /: "/dev/nvidia0", ... */
	uint32_t gpu;	    /* physical GPU: place in inventory.gpus */
	uint32_t gpu_index; /* its NVML index i */
	uint32_t mig;	    /* j among the MIG devices of its GPU, or POLICY_WHOLE_GPU */
	uint32_t first;	    /* place of its first device in `devices`; replica n is n behind it */
	uint32_t replicas;  /* 1 when it is not shared */
	int32_t numa;	    /* GPU_NUMA_NONE: the kubelet is told nothing */
	bool healthy;
	char reason[RESOURCE_REASON_MAX]; /* why not; "" when healthy */
};

/* One device as it is advertised. */
struct kubelet_device {
	char id[RESOURCE_ID_MAX];		 /* "GPU-...", "MIG-...", of a replica with "::n" */
	const struct kubelet_hardware *hardware; /* borrowed: of the same resource */
	uint32_t replica;			 /* n; 0 when it is not shared */
};

/* What replies to Allocate look like; from the configuration and what the machine has. */
struct kubelet_settings {
	uint32_t list_strategy; /* enum config_list_strategy bits */
	bool index_ids;		/* deviceIDStrategy index */
	bool pass_device_specs;
	/* The reply carries CDI names and the annotation beside what list_strategy says: there is
	 * no NVIDIA runtime on the node that would read the environment. */
	bool also_cdi;
	/* The reply carries the device nodes, whatever list_strategy and pass_device_specs say: the
	 * node has neither CDI nor an NVIDIA runtime, and a pod would get nothing of its GPU. */
	bool also_nodes;
	bool gdrcopy, gds, mofed;
	bool alloc_env;	    /* SLUICE_ALLOC in the environment */
	uint32_t policy;    /* enum config_allocation */
	uint32_t control;   /* enum resource_control bits: nodes that are there */
	uint32_t cdi_modes; /* enum resource_cdi_mode bits: kinds whose CDI file holds something */
	char *cdi_vendor;   /* owned, as all texts: "k8s.device-plugin.nvidia.com" */
	char *cdi_annotation_prefix; /* "cdi.k8s.io/" */
	char *dev_root;		     /* before each host path; "" for / */
	char *imex_host_path;	     /* of IMEX channel 0 on the host; "" when none is handed out */
};

struct kubelet_resource {
	char name[RESOURCE_NAME_MAX];	      /* "nvidia.com/gpu" */
	char endpoint[RESOURCE_ENDPOINT_MAX]; /* of its socket; "": made from the name */
	/* Units that are all the same (pool.h). Then of what follows only device_count is of use:
	 * how many. Owned; NULL: GPUs. */
	struct kubelet_pool *pool;
	bool shared;   /* at least one device is a replica */
	bool partial;  /* at least one device is a replica or a MIG device */
	bool one_each; /* failRequestsGreaterThanOne, for requests of replicas */
	struct kubelet_settings settings;
	struct kubelet_hardware *hardware; /* owned; in the order of (i, j) */
	uint32_t hardware_count;
	struct kubelet_device *devices; /* owned; in the order of (i, j, n), that of every reply */
	uint32_t device_count;
	uint32_t *by_id; /* owned; places in `devices` in the order of strcmp of the ids */
	uint32_t per_gpu[GPU_MAX]; /* devices of this resource on each GPU of the inventory */
};

/* What of the machine decides beside inventory and configuration. All zero: nothing is there. */
struct resource_surroundings {
	const struct minors *minors; /* borrowed; NULL: /proc/driver/nvidia-caps is not there */
	uint32_t control;	     /* enum resource_control bits */
	struct resource_cdi cdi;
	bool also_cdi, also_nodes;
	const char *imex_host_path; /* borrowed; NULL or "": no channel, or not a device */
	/* Why GPU i of the inventory is unhealthy, beside what the inventory says of it; NULL or
	 * "": it is not. gpu_count entries, borrowed. NULL: nothing more is known. */
	const char *const *unhealthy;
	/* The same for MIG device i of the inventory, beside what its GPU says. */
	const char *const *mig_unhealthy;
};

/* The vendor of the CDI devices that a container is named: "k8s.device-plugin.nvidia.com" or what
 * the configuration says; "sluice.sim" of simulated GPUs unless it says something. Borrowed. */
const char *resource_cdi_vendor(const struct config *config, bool simulated);

/*
 * Makes the resource. A device whose GPU is not ok, or whose MIG capability nodes are not known,
 * is in it and unhealthy. -ENOMEM; -EINVAL: an id over the 63 characters that the kubelet's API
 * allows, or twice the same.
 */
int resource_new(const struct inventory *inventory, const struct policy *policy,
		 const struct policy_resource *of, const struct config *config,
		 const struct resource_surroundings *surroundings, struct kubelet_resource **out,
		 struct err *err);
struct kubelet_resource *resource_free(struct kubelet_resource *resource);
/* A deep copy. -ENOMEM. */
int resource_copy(const struct kubelet_resource *from, struct kubelet_resource **out,
		  struct err *err);
/* Whether replies name CDI devices. */
bool resource_names_cdi(const struct kubelet_settings *settings);
/* Every device that is healthy is not any more, and why. For one that nobody else sees yet. */
void resource_blame(struct kubelet_resource *resource, const char *reason);
/* The same resource without a device: what is said before its end. -ENOMEM. */
int resource_empty(const struct kubelet_resource *from, struct kubelet_resource **out,
		   struct err *err);
uint32_t resource_healthy(const struct kubelet_resource *resource); /* devices */

/* The device with this id, or NULL; a pool has none. Borrowed: valid as long as the resource. */
const struct kubelet_device *resource_find(const struct kubelet_resource *resource, const char *id);
/*
 * Whether the kubelet and containers would see no difference: same devices, health, NUMA nodes,
 * paths and settings.
 */
bool resource_is_same(const struct kubelet_resource *a, const struct kubelet_resource *b);
/* Whether the list of devices that ListAndWatch sends is the same. */
bool resource_list_is_same(const struct kubelet_resource *a, const struct kubelet_resource *b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one configuration file: NVIDIA's device-plugin file, every version of its schema, unchanged,
 * with a `sluice:` section of our own that NVIDIA's plugin ignores. Parsed once into a plain struct
 * whose values are valid; errors say FILE:LINE:COLUMN, the key, what was expected and what was
 * found. Knows nothing of GPUs that are really there: policy.c brings the two together.
 */
#ifndef SLUICE_POLICY_CONFIG_H
#define SLUICE_POLICY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"
#include "policy/policy_door.h"
#include "policy/rdma_config.h"
#include "policy/schema.h"

struct err;

enum config_limits {
	CONFIG_NAME_MAX = 64,	    /* a resource name with its NUL: Kubernetes allows 63 */
	CONFIG_PATTERN_MAX = 128,   /* of a GPU or MIG profile name */
	CONFIG_REF_MAX = 128,	    /* one device in a list */
	CONFIG_ENTRIES_MAX = 256,   /* of each list in the file */
	CONFIG_REPLICAS_MAX = 1024, /* of one device */
	CONFIG_WARNINGS_MAX = 64,
	CONFIG_TEXT_MAX = 4096, /* one text value */
	CONFIG_CODES_MAX = 64,	/* XIDs in one list */
	CONFIG_CODE_MAX = 9999, /* an XID */
	CONFIG_GROUP_MAX = 64,	/* the name of a group of users, with its NUL */
	CONFIG_GROUPS_MAX = 64, /* of them */
	CONFIG_VOLUME_MAX = 64, /* the name of a claim, with its NUL */
};

enum config_mig { CONFIG_MIG_NONE, CONFIG_MIG_SINGLE, CONFIG_MIG_MIXED };
enum config_list_strategy { /* bits */
			    CONFIG_LIST_ENVVAR = 1,
			    CONFIG_LIST_VOLUME_MOUNTS = 2,
			    CONFIG_LIST_CDI_ANNOTATIONS = 4,
			    CONFIG_LIST_CDI_CRI = 8,
};
enum config_allocation {
	CONFIG_DISTRIBUTED,
	CONFIG_PACKED,
	CONFIG_SPREAD,
	CONFIG_SPREAD_STRICT,
};

enum config_inject { CONFIG_INJECT_AUTO, CONFIG_INJECT_PEER };

/* Where a value came from, later ones win. */
enum config_source { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };

/* "this GPU" in a list. */
enum config_selector_kind {
	CONFIG_SELECT_INDEX,	 /* 3: NVML's index */
	CONFIG_SELECT_MIG_INDEX, /* "3:1" */
	CONFIG_SELECT_UUID,	 /* "GPU-...", "MIG-..." */
	CONFIG_SELECT_PCI,	 /* "0000:3b:00.0" */
	CONFIG_SELECT_NAME,	 /* "name:*A100*" */
	CONFIG_SELECT_NUMA,	 /* "numa:1" */
};

struct config_selector {
	enum config_selector_kind kind;
	uint32_t index, mig_index; /* INDEX, MIG_INDEX, NUMA */
	struct pci_address pci;
	char text[CONFIG_REF_MAX]; /* UUID or pattern; otherwise as it was written */
	uint32_t line, column;
};

struct config_selectors {
	struct config_selector *items; /* owned */
	size_t count;
};

/* resources.gpus, resources.mig: devices that match the pattern are offered under the name. */
struct config_rule {
	char pattern[CONFIG_PATTERN_MAX]; /* '*' stands for anything; the whole name must match */
	char name[CONFIG_NAME_MAX];	  /* with "nvidia.com/" */
	uint32_t line;
};

struct config_rules {
	struct config_rule *items; /* owned */
	size_t count;
};

enum config_devices { CONFIG_DEVICES_ALL, CONFIG_DEVICES_COUNT, CONFIG_DEVICES_LIST };

/* One entry of sharing.*.resources. */
struct config_share {
	char name[CONFIG_NAME_MAX];
	char rename[CONFIG_NAME_MAX]; /* "": by renameByDefault */
	uint32_t replicas;	      /* at least 2 */
	enum config_devices devices;
	uint32_t device_count;		     /* CONFIG_DEVICES_COUNT */
	struct config_selectors device_list; /* CONFIG_DEVICES_LIST */
	uint32_t line;
};

struct config_sharing {
	bool rename_by_default, one_each;
	struct config_share *items; /* owned */
	size_t count;
};

struct config_codes {
	uint32_t count;
	uint16_t code[CONFIG_CODES_MAX]; /* as they were written, none twice */
};

enum config_health_policy { CONFIG_HEALTH_TABLE, CONFIG_HEALTH_PEER };
enum config_recover { CONFIG_RECOVER_AUTO, CONFIG_RECOVER_MANUAL };

struct config_health {
	uint32_t policy;  /* enum config_health_policy */
	uint32_t recover; /* enum config_recover */
	uint64_t poll_ns;
	struct config_codes ignore, fatal; /* no code in both */
};

/* sluice.cdi.runtime: the runtime wrapper. Who may ask it for GPUs, and what it becomes. */
struct config_runtime {
	bool annotations, volume_mounts, unprivileged_envvar;
	char *swarm_variables, *runtimes; /* names with commas between them */
};

enum config_labels_mode {
	CONFIG_LABELS_AUTO,
	CONFIG_LABELS_FILE,
	CONFIG_LABELS_NODEFEATURE,
	CONFIG_LABELS_DIRECT,
};
enum config_on_exit { CONFIG_EXIT_KEEP, CONFIG_EXIT_REMOVE };

struct config_labels {
	uint32_t mode; /* enum config_labels_mode; AUTO yields to useNodeFeatureAPI */
	uint32_t mode_line, mode_column; /* where it stands in the file; 0: nowhere */
	uint32_t on_exit; /* enum config_on_exit; 'sluice labels': REMOVE while it is the default */
	uint64_t expiry_ns, keep_on_error_ns;
	bool present, extended;
};

enum config_validations {
	CONFIG_VALIDATIONS_AUTO,
	CONFIG_VALIDATIONS_ALWAYS,
	CONFIG_VALIDATIONS_NEVER,
};
enum config_deploy_labels { CONFIG_DEPLOY_OBEY, CONFIG_DEPLOY_IGNORE };

struct config_web {
	char *address;	  /* as address_parse() takes it, or "off" */
	char *token_file; /* "": none */
	char *hosts;	  /* names with commas between them */
};

enum config_metrics_set { CONFIG_METRICS_ALL, CONFIG_METRICS_NATIVE, CONFIG_METRICS_DCGM };
enum config_dcgm { CONFIG_DCGM_OLD, CONFIG_DCGM_NEW, CONFIG_DCGM_OFF };

struct config_metrics {
	uint32_t set, dcgm;   /* enum config_metrics_set, config_dcgm */
	uint32_t dcgm_shared; /* 1: split */
	bool container_energy;
	uint32_t max_container_series;
};

enum config_outsiders {
	CONFIG_OUTSIDERS_WAIT,
	CONFIG_OUTSIDERS_IGNORE,
	CONFIG_OUTSIDERS_SHARE,
};
enum config_order { CONFIG_ORDER_FIFO, CONFIG_ORDER_SHORTEST };

/* What the members of a group may have in place of what everybody may; 0: any number. */
struct config_group {
	char name[CONFIG_GROUP_MAX];
	uint32_t pending, gpus; /* what everybody may, where it is not said */
	uint32_t line, column;
};

/* What a claim of a job file is on this machine. */
struct config_volume {
	char name[CONFIG_VOLUME_MAX];
	char *path; /* owned; absolute */
	bool is_read_only;
};

/* sluice.jobs: how the owner of the machine wants its queue. */
struct config_jobs {
	bool enforce;
	char *enforce_group, *admin_group;  /* admin_group "": none */
	char *prefer;			    /* devices with commas between them */
	uint32_t busy_outsiders;	    /* enum config_outsiders */
	uint32_t minimum_isolation;	    /* which of its words in schema.def */
	uint32_t order;			    /* enum config_order */
	uint32_t limit_pending, limit_gpus; /* 0: any number */
	uint64_t half_life_ns;		    /* of usage; SCHEMA_FOREVER: it never fades */
	uint32_t weight_age, weight_size, weight_priority, weight_usage; /* points */
	uint64_t reserve_after_ns; /* SCHEMA_FOREVER: nothing is reserved */
	uint64_t default_time_ns;  /* SCHEMA_FOREVER: none */
	uint64_t max_time_ns;	   /* SCHEMA_FOREVER: none */
	uint64_t retention_ns;	   /* SCHEMA_FOREVER: for ever */
	uint32_t retention_jobs;
	uint64_t log_bytes;	     /* 0: no limit */
	uint32_t cpu_milli;	     /* 0: by the machine */
	uint64_t mem_bytes;	     /* 0: by the machine */
	struct config_group *groups; /* owned */
	size_t group_count;
	struct config_volume *volumes; /* owned */
	size_t volume_count;
};

/* Which devices a door may hand out. */
struct config_door {
	bool is_set; /* else: by what is on the machine */
	bool all;
	struct config_selectors devices; /* when not all; empty: none */
};

struct config_warning {
	uint32_t line, column; /* 0: not of the file */
	bool is_note;	       /* nothing is wrong with it here */
	char text[256];
};

struct config {
	uint32_t version;
	uint32_t mig_strategy; /* enum config_mig */
	bool fail_on_init_error, gdrcopy, gds, mofed, use_node_feature_api;
	char *mps_root, *driver_root, *dev_root; /* all texts owned */
	uint32_t discovery;
	bool pass_device_specs;
	uint32_t list_strategy; /* enum config_list_strategy bits */
	uint32_t id_strategy;	/* 0 uuid, 1 index */
	char *cdi_annotation_prefix, *ctk_path, *container_driver_root;
	uint32_t allocation_policy; /* enum config_allocation */
	bool gfd_oneshot, gfd_no_timestamp;
	uint64_t gfd_sleep_ns;
	char *gfd_output, *gfd_machine_type;
	bool imex_required;
	uint32_t imex_channel;	 /* 1: imex.channelIDs is [0] */
	uint32_t kubelet_inject; /* enum config_inject */
	/* Of simulated GPUs "sluice.sim" while source[SCHEMA_CDI_VENDOR] is CONFIG_DEFAULT. */
	char *cdi_vendor;
	bool cdi_write; /* the agent keeps specifications */
	struct config_runtime runtime;
	bool alloc_env; /* SLUICE_ALLOC in replies to the kubelet */
	struct config_health health;
	struct config_labels labels;
	uint32_t deploy_labels; /* enum config_deploy_labels */
	uint32_t validations;	/* enum config_validations */
	struct config_web web;
	struct config_metrics metrics;
	struct config_jobs jobs;
	char *rdma_file; /* of Mellanox's plugin; looked at when there is no `rdma` */

	struct config_rules gpu_rules, mig_rules;
	struct config_sharing time_slicing;
	struct config_selectors include, exclude;   /* sluice.devices */
	struct config_door doors[POLICY_DOOR_NONE]; /* sluice.doors.DOOR.devices */
	struct rdma_config rdma;		    /* sluice.rdma, or what that file says */

	uint8_t source[SCHEMA_COUNT]; /* enum config_source */
	uint32_t warning_count;	      /* all; the first CONFIG_WARNINGS_MAX are kept */
	struct config_warning warning[CONFIG_WARNINGS_MAX];
};

/* What the command line and the environment say, by setting; NULL: nothing. */
struct config_overrides {
	const char *flag[SCHEMA_COUNT];	       /* borrowed */
	const char *environment[SCHEMA_COUNT]; /* borrowed */
};

/*
 * Makes the effective configuration of `text` (a file's content; NULL: no file, defaults only), the
 * environment and the command line. `name` is what errors call the file. `strict`: warnings about
 * unknown keys are errors. -EINVAL, -E2BIG, -ENOMEM; the caller's running configuration is not
 * touched by a failure.
 */
int config_parse(const char *text, size_t length, const char *name,
		 const struct config_overrides *overrides, bool strict, struct config **out,
		 struct err *err);
struct config *config_free(struct config *config);

/*
 * The same of a file of Mellanox's k8s-rdma-shared-dev-plugin: nothing but `rdma`, with that
 * plugin's defaults, comes from the text. What it would refuse and we do not is a note.
 */
int config_parse_rdma(const char *text, size_t length, const char *name,
		      const struct config_overrides *overrides, bool strict, struct config **out,
		      struct err *err);

/* Whether the text is such a file rather than one of ours. */
bool config_is_rdma(const char *text, size_t length);

/* Reads the file and parses it. Errors of config_parse(), and -ENOENT, -EACCES, ... */
int config_load(const char *path, const struct config_overrides *overrides, bool strict,
		struct config **out, struct err *err);
/* The same of one of Mellanox's plugin, ... */
int config_load_rdma(const char *path, bool strict, struct config **out, struct err *err);
/* ... or of whatever it is. */
int config_load_any(const char *path, const struct config_overrides *overrides, bool strict,
		    struct config **out, struct err *err);

/* Fills the environment part from getenv(). */
void config_overrides_environment(struct config_overrides *overrides);

/* Whether `pattern` ('*' for anything) matches all of `text`. */
bool config_pattern_matches(const char *pattern, const char *text);

/* "default", "file", "environment", "flag". */
const char *config_source_to_string(uint32_t source);

#endif

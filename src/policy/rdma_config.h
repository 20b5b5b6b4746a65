/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the configuration says of RDMA adapters: the entries of a file of Mellanox's
 * k8s-rdma-shared-dev-plugin (https://github.com/Mellanox/k8s-rdma-shared-dev-plugin), accepted
 * unchanged, or the same keys below `sluice.rdma`. Plain data; config.h reads it. Knows nothing of
 * adapters that are really there: rdma.h brings the two together.
 */
#ifndef SLUICE_POLICY_RDMA_CONFIG_H
#define SLUICE_POLICY_RDMA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rdma_config_limits {
	RDMA_CONFIG_PREFIX_MAX = 192, /* with its NUL, as all names */
	RDMA_CONFIG_NAME_MAX = 64,
	RDMA_CONFIG_RESOURCE_MAX = RDMA_CONFIG_PREFIX_MAX + RDMA_CONFIG_NAME_MAX, /* "rdma/hca" */
	RDMA_CONFIG_WORD_MAX = 64,   /* in a selector */
	RDMA_CONFIG_WORDS_MAX = 256, /* of one selector */
	RDMA_CONFIG_UNITS_MAX = 16384,
	RDMA_CONFIG_DEPTH_MAX = 16, /* levels of a JSON file */
	RDMA_CONFIG_PERIOD_S = 60,
	RDMA_CONFIG_PERIOD_MAX_S = INT32_MAX,
};

/* Where Mellanox's plugin looks for its file. */
#define RDMA_CONFIG_PATH "/k8s-rdma-shared-dev-plugin/config.json"

enum rdma_config_selector {
	RDMA_SELECT_VENDOR,    /* "15b3" */
	RDMA_SELECT_DEVICE,    /* "1017" */
	RDMA_SELECT_DRIVER,    /* "mlx5_core" */
	RDMA_SELECT_INTERFACE, /* "ib0"; `devices` is another spelling */
	RDMA_SELECT_LINK,      /* "ether", "infiniband" */
	RDMA_SELECT_COUNT,
};
/* "vendors", "deviceIDs", "drivers", "ifNames", "linkTypes". */
const char *rdma_config_selector_to_string(enum rdma_config_selector selector);

enum rdma_config_health { RDMA_CONFIG_HEALTH_OFF, RDMA_CONFIG_HEALTH_PORT };

/* One of them must match; none: anything does. */
struct rdma_config_words {
	char (*items)[RDMA_CONFIG_WORD_MAX]; /* owned */
	size_t count;
};

struct rdma_config_entry {
	char prefix[RDMA_CONFIG_PREFIX_MAX]; /* "rdma" */
	char name[RDMA_CONFIG_NAME_MAX];
	uint32_t units;					       /* rdmaHcaMax */
	struct rdma_config_words selectors[RDMA_SELECT_COUNT]; /* all of them must match */
	uint32_t health;				       /* enum rdma_config_health */
	bool topology;		/* the kubelet is told where the adapters are */
	bool management;	/* umad and issm nodes are handed out */
	bool sets_link_up;	/* setLinkUp */
	bool takes_software;	/* softwareAdapters */
	uint32_t needs;		/* RDMA_KIND_BIT of each node that an adapter must have */
	bool memlock_warns;	/* memlockOnError: warn */
	uint64_t memlock_bytes; /* 0: left alone; UINT64_MAX: unlimited */
	uint32_t line;
};

struct rdma_config {
	bool is_set;			   /* there is a configList */
	uint32_t period_s;		   /* between looks at the adapters; 0: only once */
	struct rdma_config_entry *entries; /* owned */
	size_t count;
};

void rdma_config_done(struct rdma_config *config);
/* "rdma/hca". */
void rdma_config_name(const struct rdma_config_entry *entry, char out[RDMA_CONFIG_RESOURCE_MAX]);

#endif

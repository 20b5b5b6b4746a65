/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with this node, and what mends it: a table of checks, each of which looks at files
 * below a root and reports findings. Changes nothing, asks no driver and does no GPU work; a check
 * that may not look says so (unknown) instead of guessing. Called by `sluice doctor`.
 *
 * To add a check: a function in a file of this directory, declared in checks.h, and its row in
 * checks.c. It is a pure function of what is below the root wherever that is possible, so
 * that a test can plant each fault in a directory.
 */
#ifndef SLUICE_DOCTOR_DOCTOR_H
#define SLUICE_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/findings.h"
#include "doctor/rootfs.h"
#include "cdi/version.h"
#include "hardware/gpu.h"

struct buf;
struct err;
struct holders;
struct json_t;
struct rdma_inventory;

enum doctor_limits {
	DOCTOR_FINDINGS_MAX = 512, /* more are only counted */
	DOCTOR_GPUS_MAX = 256,
	DOCTOR_CHECKS_MAX = 64,
	DOCTOR_OBJECT_MAX = 160,
	DOCTOR_TEXT_MAX = 640, /* of what was found, of what is needed; longer ones are cut */
	DOCTOR_DO_MAX = 768,
	DOCTOR_WORD_MAX = 96,
	DOCTOR_COMMS_MAX = 131072, /* processes that are looked at */
	DOCTOR_ANSWERS_MAX = 16,   /* programs whose versions are kept */
};

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_INFO,	/* worth knowing, nothing to mend */
	DOCTOR_WARN,	/* it works, but not well, or not for long */
	DOCTOR_FAIL,	/* it does not work */
	DOCTOR_UNKNOWN, /* it cannot be told: this user may not look */
	DOCTOR_SKIP,	/* it does not concern this machine */
	DOCTOR_STATUS_COUNT,
};
/* "ok", "info", "warn", "fail", "unknown", "skip". */
const char *doctor_status_to_string(enum doctor_status status);

/* What the machine is to be good for: `--for`. Without it everything is looked at. */
enum doctor_purpose {
	DOCTOR_FOR_JOB = 1 << 0,	      /* jobs of this machine's own queue */
	DOCTOR_FOR_AGENT = 1 << 1,	      /* a node of a cluster */
	DOCTOR_FOR_DRIVER_CONTAINER = 1 << 2, /* a driver is to be built, loaded or replaced here */
	DOCTOR_FOR_RDMA = 1 << 3,
	DOCTOR_FOR_ALL = (1 << 4) - 1,
	DOCTOR_FOR_CLUSTER = 1 << 4, /* not this machine: what an API server says */
};

/* Texts are without a full stop. `object`, `found` and `need` make a sentence:
 * "GPU 0000:07:00.0: found the driver nouveau, need nvidia". */
struct doctor_finding {
	const char *id; /* borrowed: of the row */
	enum doctor_status status;
	char object[DOCTOR_OBJECT_MAX];
	char found[DOCTOR_TEXT_MAX];
	char need[DOCTOR_TEXT_MAX]; /* "": nothing more */
	char do_[DOCTOR_DO_MAX];    /* the exact commands, one a line; "": there are none */
	const char *why; /* borrowed; of the row unless doctor_why() gave another; NULL */
	const char *url; /* the same with doctor_url() */
};

struct doctor;

struct doctor_check {
	const char *id;	  /* the same in every release; a group, a dot and a name */
	const char *help; /* one line: what it looks at */
	const char *why;  /* why what it finds matters; a sentence */
	const char *url;  /* where it is explained; NULL */
	uint32_t purposes;
	bool needs_gpu; /* skipped, with that reason, on a machine without one */
	void (*run)(struct doctor *doctor);
};

/* The table, in the order in which the checks run and are printed. */
extern const struct doctor_check doctor_checks[];
extern const size_t doctor_check_count;

/* A function of NVIDIA's on the PCI bus that computes or shows. */
struct doctor_gpu {
	struct pci_address address;
	char bus[PCI_TEXT_MAX];	      /* "0000:07:00.0" */
	uint32_t device;	      /* PCI device id */
	int32_t numa_node;	      /* -1: not told */
	bool has_driver_link;	      /* `driver` was readable, or is known to be missing */
	char driver[DOCTOR_WORD_MAX]; /* "nvidia", "nouveau", "vfio-pci"; "": none */
	uint32_t minor;		      /* of /dev/nvidia<minor>; GPU_U32_UNKNOWN */
	char model[GPU_NAME_MAX];     /* "" when the driver does not tell */
};

/* What checks share, found once before the first runs. */
struct doctor_facts {
	struct doctor_gpu gpus[DOCTOR_GPUS_MAX];
	uint32_t gpu_count;
	bool pci_is_known;		      /* /sys/bus/pci could be looked at */
	char kernel[DOCTOR_WORD_MAX];	      /* `uname -r`; "": not known */
	char os_id[DOCTOR_WORD_MAX];	      /* of os-release: "debian", "rhcos"; "" */
	char os_like[DOCTOR_WORD_MAX];	      /* ID_LIKE */
	char os_version[DOCTOR_WORD_MAX];     /* VERSION_ID */
	char os_ostree[DOCTOR_WORD_MAX];      /* OSTREE_VERSION: of CoreOS */
	char os_name[DOCTOR_WORD_MAX];	      /* PRETTY_NAME */
	char module_version[GPU_VERSION_MAX]; /* of the loaded kernel module; "": none */
	char proc_version[DOCTOR_TEXT_MAX];   /* first line of /proc/driver/nvidia/version; "" */
	char driver_root[FILE_PATH_MAX];      /* "": the system itself; "/run/nvidia/driver" */
};

struct doctor_options {
	const char *root;   /* before /proc, /sys, /dev, /etc ...; "" */
	bool own_kernel;    /* rootfs.h */
	uint32_t purpose;   /* enum doctor_purpose; 0: everything */
	bool is_privileged; /* may look at everything */
	bool is_simulated;  /* the root is a simulated machine's */
	/* For driver.headers and driver.packages; buildneeds.h says what they are. */
	const char *kernel; /* another than the one that runs; NULL */
	uint32_t system;    /* enum buildneeds_system; BUILDNEEDS_OTHER: this machine's */
	const char *const *repositories; /* directories or addresses */
	size_t repository_count;
	/* What one holds, as sluice-packages prints it; NULL: they cannot be looked into. */
	int (*list_packages)(const char *location, const char *deb_arch,
			     const char *const *patterns, struct buf *out, struct err *err);
	/* The agent's configuration has labels go through the cluster's API: "direct",
	 * "nodefeature"; NULL: it does not, or is not known. */
	const char *labels_mode;
	/* What sluice-cluster found; NULL: no cluster is looked at. */
	int (*ask_cluster)(const void *context, struct buf *out, struct err *err);
	const void *context; /* of ask_cluster() */
	/* Which version a program of this machine is; NULL: they are not run, as below a root that
	 * is not this system's own. -ENOENT: it is not installed. */
	int (*ask_version)(const char *program, struct version *out, struct err *err);
};

/* What a program said of its version, or why it did not. */
struct doctor_answer {
	const char *program; /* borrowed: a literal */
	int rc;
	struct version version;
};

/* A process and what the kernel calls it. */
struct doctor_comm {
	uint32_t pid;
	char name[16];
};

struct doctor {
	struct doctor_options options;
	struct rootfs rootfs;
	struct doctor_facts facts;
	struct rdma_inventory *rdma; /* owned; shared.h */
	struct holders *holders;     /* the same */
	struct json_t *cluster;	   /* owned; what was found there; NULL: not asked, or no answer */
	int cluster_error;	   /* why not */
	struct doctor_comm *comms; /* owned; for doctor_process(); NULL: not looked at yet */
	uint32_t comm_count;
	size_t comm_room;
	struct doctor_answer answers[DOCTOR_ANSWERS_MAX]; /* each program is started once */
	uint32_t answer_count;
	/* The rest is for doctor.c. */
	const struct doctor_check *check; /* that runs */
	struct doctor_finding *findings;  /* owned */
	uint32_t count, lost;		  /* kept; not kept for want of room or memory */
	size_t room;
	struct doctor_finding spare; /* written where there is no room */
};

/* Opens the root and finds the facts. `options` are borrowed until doctor_free(). -ENOMEM; what
 * opening the root gave. */
int doctor_new(const struct doctor_options *options, struct doctor **out, struct err *err);
struct doctor *doctor_free(struct doctor *doctor);
static inline void doctor_cleanup(struct doctor **doctor)
{
	*doctor = doctor_free(*doctor);
}
#define _cleanup_doctor_ __attribute__((cleanup(doctor_cleanup)))

/*
 * Which checks a word means: an id, or a group ("driver", "driver.*"). Sets `marks` (of
 * doctor_check_count) and returns how many; 0: none. `*out_nearest` gets an id that resembles the
 * word, or NULL.
 */
size_t doctor_mark(const char *word, bool *marks, const char **out_nearest);
/* Runs those that are marked; `named`: somebody asked for them by name, so that they run on a
 * machine without GPUs as well. */
void doctor_run(struct doctor *doctor, const bool *marks, const bool *named);
/* How many findings have a status. */
uint32_t doctor_total(const struct doctor *doctor, enum doctor_status status);
/* POOR: warnings, or findings that were not kept; WRONG: failures. */
enum findings_exit doctor_exit(const struct doctor *doctor);

/* --- for checks ------------------------------------------------------------------------------ */

/*
 * A new finding of the check that runs, about an object: "module nouveau". What is set afterwards
 * goes to the one that is returned, which is never NULL and is good until the next.
 */
struct doctor_finding *doctor_add(struct doctor *doctor, enum doctor_status status,
				  const char *object, ...) __attribute__((format(printf, 3, 4)));
/* All return `finding`, so that they can be nested; a text that does not fit ends in "...". */
struct doctor_finding *doctor_found(struct doctor_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct doctor_finding *doctor_need(struct doctor_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct doctor_finding *doctor_do(struct doctor_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct doctor_finding *doctor_why(struct doctor_finding *finding, const char *why);
struct doctor_finding *doctor_url(struct doctor_finding *finding, const char *url);
/* The check does not concern this machine; a phrase. */
void doctor_skip(struct doctor *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* `path` could not be looked at: unknown, with `code` (-errno) and, where this user may not, the
 * advice to be root. */
void doctor_unreadable(struct doctor *doctor, const char *path, int code);

/* A daemon is not among the processes, and not all of those are seen: unknown. */
void doctor_unseen(struct doctor *doctor, const char *daemon);

bool doctor_is_for(const struct doctor *doctor, enum doctor_purpose purpose);
/* Whether vfio-pci has every GPU, so that nobody needs NVIDIA's driver here. */
bool doctor_is_passed_through(const struct doctor *doctor);
/* "debian", "rhel": the system itself, or what it says that it is like. */
bool doctor_os_is(const struct doctor *doctor, const char *id);
/* Red Hat's CoreOS or Fedora's, whose /usr and kernel arguments are another's. */
bool doctor_os_is_coreos(const struct doctor *doctor);
/* The version of a program (a literal): asked, or what dpkg's list of packages below the root says
 * of `package` (NULL: not looked for). -ENOENT: it is not installed; -ENODATA: it cannot be told.
 */
int doctor_version(struct doctor *doctor, const char *program, const char *const *packages,
		   struct version *out);
/* The first process of this name, of which the kernel keeps 15 bytes; 0: there is none. */
uint32_t doctor_process(struct doctor *doctor, const char *name);
/* Whether those of the whole machine are seen. A container has its own, and /proc may be mounted so
 * that it hides those of others (hidepid): the kernel's own are hidden as well then. */
bool doctor_sees_processes(struct doctor *doctor);
/* The first process that is `sluice agent`; 0: there is none. */
uint32_t doctor_agent(struct doctor *doctor);

#endif

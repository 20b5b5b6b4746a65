/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who puts GPUs into this node's containers: a kubelet's plugin only names them. With
 * `NVIDIA_VISIBLE_DEVICES` that is a runtime or hook of NVIDIA's; with CDI names the container
 * runtime itself. Where neither is there, a pod gets no GPU and nobody says so: then this does. It
 * asks the container runtime what it is and how it is configured (the Container Runtime Interface),
 * and looks at hook and CDI directories. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_DOORS_KUBELET_INJECTION_H
#define SLUICE_DOORS_KUBELET_INJECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"

struct err;
struct injection;
struct loop;

#define INJECTION_PERIOD_NS UINT64_C(60000000000)
#define INJECTION_SILENT_NS                                                                        \
	UINT64_C(1000000000) /* the same while a runtime is there that says nothing */
#define INJECTION_DEADLINE_NS UINT64_C(5000000000)

enum injection_limits {
	INJECTION_TEXT_MAX = 320,
	INJECTION_REPLY_MAX = 1 << 20, /* bytes */
	INJECTION_DIRECTORIES_MAX = 8, /* of CDI specifications */
	INJECTION_FILES_MAX = 256,     /* looked at in one of them */
};

enum injection_way {
	INJECTION_UNKNOWN, /* no container runtime answers */
	INJECTION_RUNTIME, /* NVIDIA's runtime or hook reads the environment */
	INJECTION_CDI,	   /* the runtime knows CDI, and a specification names our devices */
	INJECTION_NONE,	   /* nobody: a pod would get no GPU */
};
const char *injection_way_to_string(enum injection_way way);

/* What is known of a container runtime. */
struct injection_runtime {
	char name[64], version[64]; /* "containerd", "v1.7.2" */
	bool knows_config;	    /* it said how it is configured, and the next four are that */
	bool is_nvidia;		    /* its default runtime is NVIDIA's */
	bool cdi_is_told, cdi;	    /* whether CDI is on */
	uint32_t directory_count;   /* of CDI specifications; 0: the usual ones */
	char directory[INJECTION_DIRECTORIES_MAX][FILE_PATH_MAX / 8];
};

/*
 * Takes the "config" that containerd or CRI-O give with Status (JSON). -EINVAL for what is no JSON
 * or too large: then nothing in `out` has changed.
 */
int injection_config_parse(const char *text, size_t length, struct injection_runtime *out,
			   struct err *err);

/*
 * Decides. `hook`: the file of a hook of NVIDIA's, "" if there is none; `has_kind`: a CDI
 * specification provides `kind`. `why` gets the reason and, where something is missing, what to
 * enable. Pure.
 */
enum injection_way injection_judge(const struct injection_runtime *runtime, const char *hook,
				   const char *kind, bool has_kind, char why[INJECTION_TEXT_MAX]);

struct injection_options {
	struct loop *loop;    /* borrowed */
	const char *root;     /* before every path; "" or NULL: /. Borrowed */
	const char *endpoint; /* the runtime's socket, perhaps with "unix://"; NULL or "": the usual
				 places. Borrowed */
	const char *vendor; /* of the CDI kind VENDOR/gpu; borrowed until injection_set_vendor() */
	/* Way or reason are new. Not from within a function of this header. May be NULL. */
	void (*changed)(void *context);
	void *context;
};

/* Looks at once and again each INJECTION_PERIOD_NS. -ENOMEM. */
int injection_open(const struct injection_options *options, struct injection **out,
		   struct err *err);
/* NULL is fine; returns NULL. */
struct injection *injection_close(struct injection *injection);
/* Another kind is looked for from the next look on, which is soon. */
void injection_set_vendor(struct injection *injection, const char *vendor);
/* What it has seen may be another: looks again soon. */
void injection_look(struct injection *injection);
enum injection_way injection_now(const struct injection *injection);
/* Whether a runtime has a socket here, be it that it answers or not. */
bool injection_is_there(const struct injection *injection);
/* Whether a CDI specification provides our devices. */
bool injection_has_kind(const struct injection *injection);
/* One sentence. Borrowed until changed(). */
const char *injection_reason(const struct injection *injection);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process belongs to, as its /proc/PID/cgroup tells: a container, a pod, a job of ours or of
 * Slurm. Container runtimes name control groups after their containers, each in its own way; no
 * standard says how, so what is looked for are the ids themselves. Pure.
 *
 * Sources: cgroups(7); the names as containerd 1.6, CRI-O, Docker 20.10, podman 4.3, the kubelet
 * and Slurm 22 make them. tests/fixtures/cgroups.json says which of them were captured from a
 * running one.
 */
#ifndef SLUICE_HARDWARE_BELONGING_H
#define SLUICE_HARDWARE_BELONGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum belonging_limits {
	BELONGING_TEXT_MAX = 16384, /* of /proc/PID/cgroup that is read */
	BELONGING_ID_MAX = 65,	    /* 64 hexadecimal digits and NUL */
	BELONGING_POD_MAX = 37,	    /* a UUID, or the 32 digits of a static pod */
	BELONGING_WORD_MAX = 16,
};

struct belonging {
	char container[BELONGING_ID_MAX]; /* "": in none */
	char pod[BELONGING_POD_MAX];	  /* its UID as Kubernetes writes it, with '-'; "" */
	/* "containerd", "cri-o", "docker", "podman", "nerdctl", "kubernetes" (in a pod, by
	 * whichever runtime), "slurm", "sluice"; "" */
	char runtime[BELONGING_WORD_MAX];
	uint64_t job;	      /* of a queue of ours; 0: none */
	char job_instance[9]; /* the start of its instance, as launch_cgroup_name() has it; "" */
	uint64_t slurm_job;   /* 0: none */
};

/*
 * Reads the text: of cgroup v2 the line that begins with "0::", of v1 those of memory, pids,
 * devices and name=systemd. Where they differ, the first of these that tells a container counts,
 * then the first that tells a pod. Other lines are passed over, whatever is in them. True:
 * something is told.
 */
bool belonging_parse(const char *text, size_t length, struct belonging *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How NCCL's ranks reach each other, read from the lines that it writes with NCCL_DEBUG=INFO, and
 * whether that is what the machine could do: NCCL falls back silently from InfiniBand to Socket.
 * And whether /dev/shm has room for it. The parser is pure and takes anything.
 *
 * Sources: the texts of libnccl 2.8 to 2.21; https://github.com/areal-project/AReaL/issues/639,
 * https://github.com/NVIDIA/nccl/issues/290, /342, /525.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_NCCL_NCCL_TRANSPORT_H
#define SLUICE_BENCH_COLLECTIVES_NCCL_NCCL_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum nccl_transport_limits {
	NCCL_RANKS_MAX = 1024,
	NCCL_NETWORK_MAX = 32,
	NCCL_LOG_MAX = 16 << 20, /* bytes of the log that are read */
	NCCL_LINE_MAX = 4096,
	NCCL_PAIRS_SHOWN = 16,
	NCCL_TEXT_MAX = 256,
};

enum nccl_path {
	NCCL_PATH_P2P, /* the GPUs read each other's memory */
	NCCL_PATH_SHM, /* through memory of the host */
	NCCL_PATH_NET_IB,
	NCCL_PATH_NET_IB_GDRDMA, /* the adapter reads the GPU's memory */
	NCCL_PATH_NET_SOCKET,
	NCCL_PATH_NET_OTHER, /* a plugin's */
	NCCL_PATH_COUNT,
};

/* What one rank's log says; without pointers, so that ranks can hand it on. */
struct nccl_links {
	char network[NCCL_NETWORK_MAX]; /* of "Using network X"; "" */
	uint8_t path[NCCL_RANKS_MAX];	/* to that rank: bits 1 << enum nccl_path; 0: none seen */
};
/* Of lines that may be anything. Lines of other ranks than `rank` count for nothing. Pure. */
void nccl_links_parse(const char *text, size_t length, uint32_t rank, uint32_t ranks,
		      struct nccl_links *out);

/* All ranks' together. */
struct nccl_transport {
	uint32_t ranks;
	char network[NCCL_NETWORK_MAX]; /* the worst: Socket if one has that */
	uint8_t *path;			/* owned: [ranks][ranks], both directions alike */
	uint32_t pairs[NCCL_PATH_COUNT];
};
/* `links`: of each rank. `out` is initialised here. -ENOMEM. */
int nccl_transport_merge(const struct nccl_links *links, uint32_t ranks, struct nccl_transport *out,
			 struct err *err);
void nccl_transport_done(struct nccl_transport *transport);
/* One line a path: "network IB", "P2P: 28 pairs: 0-1 0-2 ...". -ENOSPC, -ENOMEM. */
int nccl_transport_print(const struct nccl_transport *transport, const char *prefix,
			 struct buf *out);

/* A finding for `checks` of sluice.result/1. */
struct nccl_check {
	bool is_slow;
	char value[NCCL_TEXT_MAX], reason[NCCL_TEXT_MAX], hint[2 * NCCL_TEXT_MAX];
};
/* Slow: a port of InfiniBand or RoCE below `root` ("" for this machine) is active, and NCCL has
 * taken Socket. -ENOMEM, -EIO: the adapters cannot be read. */
int nccl_transport_check(const char *root, const struct nccl_transport *transport,
			 struct nccl_check *out, struct err *err);

struct nccl_shm {
	uint64_t size_bytes, free_bytes, needed_bytes;
	bool is_low;
};
/* Whether `path` ("/dev/shm") has room for so many ranks of this machine: twice 10 MiB each, since
 * one of NCCL's segments has 9,637,888 bytes. -errno of statvfs. */
int nccl_shm_check(const char *path, uint32_t ranks, struct nccl_shm *out, struct err *err);
/* "/dev/shm has 64 MiB free of 64 MiB, NCCL may need 160 MiB for 8 ranks: ...". Returns `out`. */
const char *nccl_shm_describe(const char *path, uint32_t ranks, const struct nccl_shm *shm,
			      char out[2 * NCCL_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/nccl/nccl_transport.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/text.h"
#include "hardware/rdma.h"

#define MIB		 (UINT64_C(1) << 20)
#define SHM_PER_RANK	 (2 * 10 * MIB)
#define LINE_MARK	 " NCCL INFO "
#define NETWORK_MARK	 "Using network "
#define VIA_MARK	 " via "
#define CAP_IPC_LOCK_BIT 14

/* "P2P", "SHM", "NET/IB", "NET/IB/GDRDMA", "NET/Socket", "NET (plugin)". */
static const char *nccl_path_to_string(enum nccl_path path)
{
	static const char *const name[NCCL_PATH_COUNT] = {
	    [NCCL_PATH_P2P] = "P2P",
	    [NCCL_PATH_SHM] = "SHM",
	    [NCCL_PATH_NET_IB] = "NET/IB",
	    [NCCL_PATH_NET_IB_GDRDMA] = "NET/IB/GDRDMA",
	    [NCCL_PATH_NET_SOCKET] = "NET/Socket",
	    [NCCL_PATH_NET_OTHER] = "NET (plugin)",
	};
	return names_at(name, path, "?");
}

/* A piece of a line. */
struct transport_span {
	const char *at, *end;
};

static bool span_begins(struct transport_span span, const char *word)
{
	size_t length = strlen(word);
	return (size_t)(span.end - span.at) >= length && memcmp(span.at, word, length) == 0;
}

static const char *span_find(struct transport_span span, const char *word)
{
	return memmem(span.at, (size_t)(span.end - span.at), word, strlen(word));
}

/* "0[1a000]", "0": the number; what follows is what is left. */
static bool take_rank(struct transport_span *span, uint32_t *out)
{
	const char *at = span->at;
	uint64_t number;

	while (at < span->end && *at >= '0' && *at <= '9')
		at++;

	if (parse_u64_span(span->at, (size_t)(at - span->at), 0, UINT32_MAX, &number) < 0)
		return false;

	if (at < span->end && *at == '[') {
		at = memchr(at, ']', (size_t)(span->end - at));
		if (!at)
			return false;
		at++;
	}

	span->at = at;
	*out = (uint32_t)number;
	return true;
}

/* What stands behind " via ". */
static bool path_parse(struct transport_span how, enum nccl_path *out)
{
	if (span_begins(how, "P2P"))
		*out = NCCL_PATH_P2P;
	else if (span_begins(how, "SHM") || span_begins(how, "direct shared memory"))
		*out = NCCL_PATH_SHM;
	else if (span_begins(how, "NET/IB"))
		*out = span_find(how, "GDRDMA") ? NCCL_PATH_NET_IB_GDRDMA : NCCL_PATH_NET_IB;
	else if (span_begins(how, "NET/Socket"))
		*out = NCCL_PATH_NET_SOCKET;
	else if (span_begins(how, "NET/"))
		*out = NCCL_PATH_NET_OTHER;
	else
		return false;

	return true;
}

/* "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA", "Ring 00 : 1 -> 0 via P2P/IPC" */
static void connection_parse(struct transport_span line, uint32_t rank, uint32_t ranks,
			     struct nccl_links *out)
{
	const char *via = span_find(line, VIA_MARK), *colon = span_find(line, " : ");
	uint32_t from, to;
	enum nccl_path path;

	if (!via || !colon || colon > via)
		return;

	struct transport_span who = {colon + strlen(" : "), via};
	if (who.at > via || !take_rank(&who, &from) || !span_begins(who, " -> "))
		return;

	who.at += strlen(" -> ");
	if (!take_rank(&who, &to) || from >= ranks || to >= ranks || from == to ||
	    (from != rank && to != rank))
		return;
	if (path_parse((struct transport_span){via + strlen(VIA_MARK), line.end}, &path))
		out->path[from == rank ? to : from] |= (uint8_t)(1u << path);
}

static void network_parse(struct transport_span name, struct nccl_links *out)
{
	size_t length = 0;
	while (name.at + length < name.end && length < sizeof(out->network) - 1 &&
	       name.at[length] >= ' ' && name.at[length] <= '~')
		length++;
	memcpy(out->network, name.at, length);
	out->network[length] = '\0';
}

void nccl_links_parse(const char *text, size_t length, uint32_t rank, uint32_t ranks,
		      struct nccl_links *out)
{
	const char *end = text + length;
	struct nccl_links links = {0};

	if (ranks > NCCL_RANKS_MAX)
		ranks = NCCL_RANKS_MAX;

	for (const char *at = text; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct transport_span line = {at, newline ? newline : end};

		at = newline ? newline + 1 : end;
		const char *mark = span_find(line, LINE_MARK);
		if (!mark || line.end - line.at > NCCL_LINE_MAX)
			continue;

		line.at = mark + strlen(LINE_MARK);
		if (span_begins(line, NETWORK_MARK)) {
			line.at += strlen(NETWORK_MARK);
			network_parse(line, &links);
		} else {
			connection_parse(line, rank, ranks, &links);
		}
	}

	*out = links;
}

int nccl_transport_merge(const struct nccl_links *links, uint32_t ranks, struct nccl_transport *out,
			 struct err *err)
{
	struct nccl_transport transport = {.ranks = ranks};

	if (ranks < 1 || ranks > NCCL_RANKS_MAX)
		return err_set(err, -EINVAL, "%u ranks", ranks);

	transport.path = calloc((size_t)ranks * ranks, 1);
	if (!transport.path)
		return err_set(err, -ENOMEM, "no memory for the paths of %u ranks", ranks);

	for (uint32_t a = 0; a < ranks; a++) {
		/* bytes from another process: they need not end */
		if (links[a].network[0] &&
		    (!transport.network[0] || text_starts_with(links[a].network, "Socket")))
			(void)snprintf(transport.network, sizeof(transport.network), "%.*s",
				       NCCL_NETWORK_MAX - 1, links[a].network);

		for (uint32_t b = 0; b < ranks; b++)
			transport.path[(size_t)a * ranks + b] = links[a].path[b] | links[b].path[a];
	}

	for (uint32_t a = 0; a < ranks; a++) {
		for (uint32_t b = a + 1; b < ranks; b++) {
			for (uint32_t path = 0; path < NCCL_PATH_COUNT; path++)
				transport.pairs[path] +=
				    transport.path[(size_t)a * ranks + b] >> path & 1u;
		}
	}

	*out = transport;
	return 0;
}

void nccl_transport_done(struct nccl_transport *transport)
{
	free(transport->path);
	*transport = (struct nccl_transport){0};
}

int nccl_transport_print(const struct nccl_transport *transport, const char *prefix,
			 struct buf *out)
{
	uint32_t ranks = transport->ranks;
	int rc = buf_printf(out, "%snetwork %s\n", prefix,
			    transport->network[0] ? transport->network : "not named");

	for (uint32_t path = 0; path < NCCL_PATH_COUNT; path++) {
		uint32_t shown = 0;

		if (transport->pairs[path] == 0)
			continue;

		if (rc == 0)
			rc = buf_printf(out, "%s%s: %u pair%s:", prefix,
					nccl_path_to_string((enum nccl_path)path),
					transport->pairs[path],
					transport->pairs[path] == 1 ? "" : "s");

		for (uint32_t a = 0; a < ranks && rc == 0; a++) {
			for (uint32_t b = a + 1; b < ranks && rc == 0; b++) {
				if ((transport->path[(size_t)a * ranks + b] >> path & 1u) &&
				    shown++ < NCCL_PAIRS_SHOWN)
					rc = buf_printf(out, " %u-%u", a, b);
			}
		}

		if (rc == 0)
			rc = buf_add_text(out, shown > NCCL_PAIRS_SHOWN ? " ...\n" : "\n");
	}

	return rc;
}

/* An RDMA device with a port that is up, and whether its nodes can be opened by name. */
static const struct rdma_device *find_active(const struct rdma_inventory *inventory,
					     const struct rdma_port **out_port, bool *out_has_node)
{
	for (uint32_t i = 0; i < inventory->device_count; i++) {
		const struct rdma_device *device = &inventory->device[i];

		for (uint32_t k = 0; k < device->port_count; k++) {
			if (!rdma_port_is_up(&device->port[k]))
				continue;

			*out_port = &device->port[k];
			*out_has_node = false;
			for (uint32_t n = 0; n < device->node_count; n++) {
				const struct rdma_node *node = &device->node[n];
				if (node->kind == RDMA_UVERBS && rdma_node_is_usable(node))
					*out_has_node = true;
			}

			return device;
		}
	}

	return NULL;
}

/* Whether this process may lock memory whatever its limit. */
static bool has_ipc_lock(void)
{
	char line[128];
	uint64_t bits = 0;
	_cleanup_fclose_ FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (text_starts_with(line, "CapEff:\t"))
			(void)parse_hex_span(line + 8, strcspn(line + 8, "\n"), UINT64_MAX, &bits);
	}

	return bits >> CAP_IPC_LOCK_BIT & 1u;
}

static void find_hint(const struct rdma_device *device, bool has_node, struct nccl_check *out)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	char memlock[64] = "no limit";

	(void)getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur != RLIM_INFINITY)
		(void)snprintf(memlock, sizeof(memlock), "%" PRIu64 " KiB",
			       (uint64_t)limit.rlim_cur / 1024);

	if (!has_node)
		(void)snprintf(out->hint, sizeof(out->hint),
			       "the device node of %s is not here: give the container "
			       "/dev/infiniband, or ask for the RDMA resource",
			       device->name);
	else if (limit.rlim_cur != RLIM_INFINITY && !has_ipc_lock())
		(void)snprintf(out->hint, sizeof(out->hint),
			       "the process may lock %s (ulimit -l) and has no IPC_LOCK, which "
			       "RDMA needs: raise the limit of the container runtime (IPC_LOCK has "
			       "no effect for users other than root)",
			       memlock);
	else
		(void)snprintf(
		    out->hint, sizeof(out->hint),
		    "device nodes and locked memory (%s) are in order: is NCCL_IB_DISABLE "
		    "set, does NCCL_IB_HCA leave out %s, or is libibverbs.so.1 missing in "
		    "the container? NCCL_DEBUG=INFO says more",
		    memlock, device->name);
}

int nccl_transport_check(const char *root, const struct nccl_transport *transport,
			 struct nccl_check *out, struct err *err)
{
	const struct rdma_port *port = NULL;
	bool has_node = false;
	_cleanup_free_ struct rdma_inventory *inventory = calloc(1, sizeof(*inventory));
	struct nccl_check check = {0};

	if (!inventory)
		return err_set(err, -ENOMEM, "no memory for the list of adapters");

	int rc = rdma_read(root, inventory, err);
	if (rc < 0)
		return err_wrap(err, "comparing NCCL's network with the machine's");

	const struct rdma_device *device = find_active(inventory, &port, &has_node);
	bool is_socket = text_starts_with(transport->network, "Socket") ||
			 transport->pairs[NCCL_PATH_NET_SOCKET] > 0;

	(void)snprintf(check.value, sizeof(check.value), "%s",
		       transport->network[0] ? transport->network : "not named");
	check.is_slow = device && is_socket;
	if (check.is_slow) {
		(void)snprintf(check.reason, sizeof(check.reason),
			       "NCCL uses Socket although %s port %u (%s, %s) is active",
			       device->name, port->number,
			       rdma_link_layer_to_string(port->link_layer), port->rate_text);
		find_hint(device, has_node, &check);
	}

	*out = check;
	return 0;
}

int nccl_shm_check(const char *path, uint32_t ranks, struct nccl_shm *out, struct err *err)
{
	struct statvfs room;
	if (statvfs(path, &room) != 0)
		return err_set(err, -errno, "'%s': %s (NCCL's ranks of one machine meet there)",
			       path, err_describe(-errno));

	struct nccl_shm shm = {.size_bytes = (uint64_t)room.f_blocks * room.f_frsize,
			       .free_bytes = (uint64_t)room.f_bavail * room.f_frsize,
			       .needed_bytes = ranks * SHM_PER_RANK};
	shm.is_low = ranks > 1 && shm.free_bytes < shm.needed_bytes;
	*out = shm;

	return 0;
}

const char *nccl_shm_describe(const char *path, uint32_t ranks, const struct nccl_shm *shm,
			      char out[2 * NCCL_TEXT_MAX])
{
	(void)snprintf(out, (size_t)2 * NCCL_TEXT_MAX,
		       "%s has %" PRIu64 " MiB free of %" PRIu64 " MiB, NCCL may need %" PRIu64
		       " MiB for %u ranks: give the container more (--shm-size; in a pod an "
		       "emptyDir of medium Memory at /dev/shm)",
		       path, shm->free_bytes / MIB, shm->size_bytes / MIB, shm->needed_bytes / MIB,
		       ranks);
	return out;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lines as libnccl 2.3 to 2.21 write them. */
#include "bench/collectives/nccl/nccl_transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "unit/unit.h"

#define BIT(path) (1u << (path))
#define HEAD	  "node1:812:840 [0] NCCL INFO "

static struct nccl_links parse(const char *text, uint32_t rank, uint32_t ranks)
{
	struct nccl_links links;
	nccl_links_parse(text, strlen(text), rank, ranks, &links);
	return links;
}

static void every_way_is_known(void **state)
{
	(void)state;
	const struct nccl_links links =
	    parse(HEAD "Bootstrap : Using eth0:10.0.0.1<0>\n" HEAD "Using network IB\n" HEAD
		       "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n" HEAD
		       "Channel 00/0 : 0[1a000] -> 2[1b000] via P2P/CUMEM/read\n" HEAD
		       "Channel 00 : 0[0] -> 3[3] via SHM/direct/direct\n" HEAD
		       "Channel 00 : 0[1000] -> 4[2000] via direct shared memory\n" HEAD
		       "Channel 01/0 : 0[0] -> 5[0] [send] via NET/IB/0/GDRDMA\n" HEAD
		       "Channel 01/0 : 6[0] -> 0[0] [receive] via NET/IB/1(2)\n" HEAD
		       "Ring 00 : 0 -> 7 [send] via NET/Socket/0\n" HEAD
		       "Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA\n",
		  0, 16);
	assert_string_equal(links.network, "IB");
	assert_int_equal(links.path[0], 0);
	assert_int_equal(links.path[1], BIT(NCCL_PATH_P2P));
	assert_int_equal(links.path[2], BIT(NCCL_PATH_P2P));
	assert_int_equal(links.path[3], BIT(NCCL_PATH_SHM));
	assert_int_equal(links.path[4], BIT(NCCL_PATH_SHM));
	assert_int_equal(links.path[5], BIT(NCCL_PATH_NET_IB_GDRDMA));
	assert_int_equal(links.path[6], BIT(NCCL_PATH_NET_IB));
	assert_int_equal(links.path[7], BIT(NCCL_PATH_NET_SOCKET));
	assert_int_equal(links.path[8], BIT(NCCL_PATH_NET_OTHER));
}

static void what_is_not_ours_counts_for_nothing(void **state)
{
	(void)state;
	const struct nccl_links nothing = {0};
	static const char *const texts[] = {
	    "",
	    "\n\n",
	    HEAD,
	    HEAD "Channel 00/0 : 2[2] -> 3[3] via P2P/IPC\n",  /* others' */
	    HEAD "Channel 00/0 : 0[0] -> 16[0] via P2P/IPC\n", /* no such rank */
	    HEAD "Channel 00/0 : 0[0] -> 0[0] via P2P/IPC\n",
	    HEAD "Channel 00/0 : 0[0] -> 1[1 via P2P/IPC\n",
	    HEAD "Channel 00/0 : 0[0] - 1[1] via P2P/IPC\n",
	    HEAD "Channel 00/0 : 0[0] -> 1[1] via pigeon\n",
	    HEAD "Channel 00/0 : 0[0] -> 1[1] via \n",
	    HEAD " via P2P : 0[0] -> 1[1]\n",
	    HEAD "Channel : 99999999999999999999[0] -> 0[0] via P2P/IPC\n",
	    "NCCL WARN Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n",
	    "Using network IB\n",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct nccl_links links = parse(texts[i], 0, 16);
		assert_memory_equal(&links, &nothing, sizeof(links));
	}
}

static void a_line_cut_anywhere_does_no_harm(void **state)
{
	(void)state;
	const char *line = HEAD "Channel 00/0 : 0[1a000] -> 1[1b000] [send] via NET/IB/0/GDRDMA";
	for (size_t length = 0; length <= strlen(line); length++) {
		struct nccl_links links;
		char *copy = malloc(length + 1); /* a sanitizer sees a read behind it */
		assert_non_null(copy);
		memcpy(copy, line, length);
		char *exact = realloc(copy, length ? length : 1);
		nccl_links_parse(exact, length, 0, 2, &links);
		assert_true(links.path[1] == 0 || length >= strlen(line) - strlen("IB/0/GDRDMA"));
		free(exact);
	}
}

static struct nccl_links *links_of(const char *network, uint32_t ranks)
{
	struct nccl_links *links = calloc(ranks, sizeof(*links));
	assert_non_null(links);
	for (uint32_t rank = 0; rank < ranks; rank++)
		memcpy(links[rank].network, network, strlen(network));
	return links;
}

static void pairs_are_counted_once(void **state)
{
	(void)state;
	struct nccl_links *links = links_of("IB", 3);
	struct nccl_transport transport;
	struct buf text;
	buf_init(&text, 4096);
	links[0].path[1] = links[1].path[0] = BIT(NCCL_PATH_P2P);
	links[1].path[2] = BIT(NCCL_PATH_SHM); /* who sends writes it */
	memcpy(links[2].network, "Socket", 7);
	assert_int_equal(nccl_transport_merge(links, 3, &transport, NULL), 0);
	assert_int_equal(transport.pairs[NCCL_PATH_P2P], 1);
	assert_int_equal(transport.pairs[NCCL_PATH_SHM], 1);
	assert_string_equal(transport.network, "Socket");
	assert_int_equal(nccl_transport_print(&transport, "# ", &text), 0);
	assert_string_equal(buf_text(&text),
			    "# network Socket\n# P2P: 1 pair: 0-1\n# SHM: 1 pair: 1-2\n");
	buf_done(&text);
	nccl_transport_done(&transport);
	free(links);
	assert_int_equal(nccl_transport_merge(NULL, 0, &transport, NULL), -EINVAL);
}

static void write_below(const char *path, const char *text)
{
	char directory[512];
	(void)snprintf(directory, sizeof(directory), "%s/%s", unit_top, path);
	for (char *slash = directory + strlen(unit_top) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = '\0';
		(void)mkdir(directory, 0700);
		*slash = '/';
	}
	unit_write(directory, text);
}

/* One adapter with one port. */
static void make_adapter(const char *state_text)
{
	write_below("sys/class/infiniband/mlx5_0/node_guid", "b859:9f03:00d4:1a2c\n");
	write_below("sys/class/infiniband/mlx5_0/ports/1/state", state_text);
	write_below("sys/class/infiniband/mlx5_0/ports/1/phys_state", "5: LinkUp\n");
	write_below("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
	write_below("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
	write_below("sys/bus/pci/devices/0000:18:00.0/class", "0x020700\n");
	write_below("sys/bus/pci/devices/0000:18:00.0/infiniband/mlx5_0/node_guid", "");
}

static void socket_beside_an_active_port_is_slow(void **state)
{
	(void)state;
	struct nccl_transport transport = {.ranks = 1};
	struct nccl_check check;
	struct err err = {0};
	make_adapter("4: ACTIVE\n");
	memcpy(transport.network, "Socket", 7);
	assert_int_equal(nccl_transport_check(unit_top, &transport, &check, &err), 0);
	assert_true(check.is_slow);
	assert_string_equal(check.value, "Socket");
	assert_non_null(strstr(check.reason, "mlx5_0 port 1 (InfiniBand, 200 Gb/sec (4X HDR))"));
	assert_non_null(strstr(check.hint, "/dev/infiniband"));
	memcpy(transport.network, "IB", 3);
	assert_int_equal(nccl_transport_check(unit_top, &transport, &check, &err), 0);
	assert_false(check.is_slow);
	/* what a pair has taken counts as well */
	transport.pairs[NCCL_PATH_NET_SOCKET] = 1;
	assert_int_equal(nccl_transport_check(unit_top, &transport, &check, &err), 0);
	assert_true(check.is_slow);
}

static void socket_is_right_where_no_port_is_active(void **state)
{
	(void)state;
	struct nccl_transport transport = {.ranks = 1};
	struct nccl_check check;
	struct err err = {0};
	make_adapter("1: DOWN\n");
	memcpy(transport.network, "Socket", 7);
	assert_int_equal(nccl_transport_check(unit_top, &transport, &check, &err), 0);
	assert_false(check.is_slow);
}

static void room_for_the_ranks_is_looked_for(void **state)
{
	(void)state;
	struct nccl_shm shm = {.size_bytes = UINT64_C(64) << 20,
			       .free_bytes = UINT64_C(60) << 20,
			       .needed_bytes = UINT64_C(160) << 20};
	char text[2 * NCCL_TEXT_MAX];
	struct err err = {0};
	assert_non_null(
	    strstr(nccl_shm_describe("/dev/shm", 8, &shm, text),
		   "/dev/shm has 60 MiB free of 64 MiB, NCCL may need 160 MiB for 8 ranks"));
	assert_int_equal(nccl_shm_check("/no/such/place", 8, &shm, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/no/such/place"));
	assert_int_equal(nccl_shm_check(unit_top, 8, &shm, &err), 0);
	assert_true(shm.needed_bytes == UINT64_C(160) << 20);
	assert_int_equal(nccl_shm_check(unit_top, UINT32_MAX, &shm, &err), 0);
	assert_true(shm.is_low); /* 80 PiB */
	assert_int_equal(nccl_shm_check(unit_top, 1, &shm, &err), 0);
	assert_false(shm.is_low);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_way_is_known),
	    cmocka_unit_test(what_is_not_ours_counts_for_nothing),
	    cmocka_unit_test(a_line_cut_anywhere_does_no_harm),
	    cmocka_unit_test(pairs_are_counted_once),
	    cmocka_unit_test_setup_teardown(socket_beside_an_active_port_is_slow, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(socket_is_right_where_no_port_is_active, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(room_for_the_ranks_is_looked_for, unit_top_setup,
					    unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

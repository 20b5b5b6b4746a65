/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of peer.proto as rows of the gRPC layer's table: the server fills in its handlers,
 * the client calls by them.
 */
#ifndef TESTS_CONFORMANCE_GRPC_PEER_H
#define TESTS_CONFORMANCE_GRPC_PEER_H

struct wire_method;

enum peer_method {
	PEER_SAY,
	PEER_ECHO,
	PEER_COUNT,
	PEER_SUM,
	PEER_CHAT,
	PEER_FAIL,
	PEER_FAIL_LATE,
	PEER_SLOW,
	PEER_FACTS,
	PEER_METHODS,
};

/* Fills in `out`, of PEER_METHODS + 1 rows with the empty one that ends it. */
void peer_methods(struct wire_method *out);

#endif

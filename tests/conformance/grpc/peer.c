/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/grpc/peer.h"

#include <string.h>

#include "peer.pb-c.h"
#include "wire/server.h"

void peer_methods(struct wire_method *out)
{
	static const struct wire_method rows[PEER_METHODS + 1] = {
	    [PEER_SAY] = {.path = "/peer.v1.Peer/Say",
			  .request = &peer__v1__text__descriptor,
			  .reply = &peer__v1__text__descriptor},
	    [PEER_ECHO] = {.path = "/peer.v1.Peer/Echo",
			   .request = &peer__v1__blob__descriptor,
			   .reply = &peer__v1__blob__descriptor},
	    [PEER_COUNT] = {.path = "/peer.v1.Peer/Count",
			    .request = &peer__v1__count_request__descriptor,
			    .reply = &peer__v1__blob__descriptor,
			    .server_streams = true},
	    [PEER_SUM] = {.path = "/peer.v1.Peer/Sum",
			  .request = &peer__v1__number__descriptor,
			  .reply = &peer__v1__number__descriptor,
			  .client_streams = true},
	    [PEER_CHAT] = {.path = "/peer.v1.Peer/Chat",
			   .request = &peer__v1__text__descriptor,
			   .reply = &peer__v1__text__descriptor,
			   .client_streams = true,
			   .server_streams = true},
	    [PEER_FAIL] = {.path = "/peer.v1.Peer/Fail",
			   .request = &peer__v1__fail_request__descriptor,
			   .reply = &peer__v1__text__descriptor},
	    [PEER_FAIL_LATE] = {.path = "/peer.v1.Peer/FailLate",
				.request = &peer__v1__fail_request__descriptor,
				.reply = &peer__v1__text__descriptor,
				.server_streams = true},
	    [PEER_SLOW] = {.path = "/peer.v1.Peer/Slow",
			   .request = &peer__v1__slow_request__descriptor,
			   .reply = &peer__v1__text__descriptor},
	    [PEER_FACTS] = {.path = "/peer.v1.Peer/Facts",
			    .request = &peer__v1__nothing__descriptor,
			    .reply = &peer__v1__facts_reply__descriptor},
	};
	memcpy(out, rows, sizeof(rows));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The socket on which the web process serves: made by the agent, who may use any port and keeps it
 * while web processes come and go. */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_LISTEN_H
#define SLUICE_AGENT_WEB_DOOR_WEB_LISTEN_H

#include <stdbool.h>

#include "base/address.h"

struct err;

enum { WEB_LISTEN_BACKLOG = 128 };

/* A listening socket, owned by the caller. -EADDRINUSE: the port is taken; -EADDRNOTAVAIL,
 * -EACCES, ...: the text names the address. */
int web_listen(const struct address *address, struct err *err);
/* Where it listens: as text, with the port that it got. */
void web_listen_name(int fd, char out[ADDRESS_TEXT_MAX]);
/* Whether it still does: whoever has it can shut it down. */
bool web_listen_is_well(int fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may read: the name by which the server is called, and the token. Pure.
 */
#ifndef SLUICE_WEB_ACCESS_H
#define SLUICE_WEB_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

struct view;

/*
 * Whether a request for `host` ("gpu7:9400", "[::1]", "10.0.0.3:80") is meant for us. A page of
 * somebody else that has its name point here (DNS rebinding) says its own name; an address cannot
 * be made to point anywhere else. So: any IP address, loopback names, the machine's name, and what
 * the configuration lists; "*" there is any. `view` may be NULL.
 */
bool access_host_is_ours(const struct view *view, const char *host, size_t length);

/* Whether `authorization` ("Bearer TOKEN") has the token that the view asks for. Takes the same
 * time for every wrong token of a length. */
bool access_token_is_right(const struct view *view, const char *authorization, size_t length);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The negative control of the kill storm: in this build of sluice every token is always free, so
 * the storm's witness must find jobs that share a GPU. Linked with --wrap=token_take.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "doors/queue/token.h"

int __wrap_token_take(const struct token_place *place, const char *unit, unsigned slot,
		      const struct note *self, struct token *out, struct err *err);

int __wrap_token_take(const struct token_place *place, const char *unit, unsigned slot,
		      const struct note *self, struct token *out, struct err *err)
{
	/* A socket that listens, so that all else works, under a name of the kernel's choice. */
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	*out = TOKEN_NONE;
	out->socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)bind(out->socket_fd, (struct sockaddr *)&any, sizeof(any.sun_family));
	(void)listen(out->socket_fd, TOKEN_BACKLOG);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a service manager how we are, by the protocol of sd_notify(3): datagrams of "NAME=value"
 * lines to a unix socket. Spoken here so that no library of systemd's is needed; without a manager
 * every call does nothing. Knows nothing of what the service does.
 *
 * https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html, "Standalone
 * Implementations"
 */
#ifndef SLUICE_AGENT_NOTIFY_H
#define SLUICE_AGENT_NOTIFY_H

#include <stdint.h>

struct err;

enum notify_limits {
	NOTIFY_TEXT_MAX = 1024, /* bytes of a message; a longer status is cut */
};

struct notify {
	int fd;		      /* owned; connected, or -1: nobody to tell */
	uint64_t watchdog_ns; /* a sign of life is wanted at least this often; 0: none is */
};

#define NOTIFY_NONE ((struct notify){.fd = -1})

/* What systemd puts into our environment; NULL: not there. */
struct notify_environment {
	const char *socket;	   /* NOTIFY_SOCKET: a path, or "@name" of an abstract one */
	const char *watchdog_usec; /* WATCHDOG_USEC */
	const char *watchdog_pid;  /* WATCHDOG_PID: whom it is for; NULL: us */
};

/* 0, also when there is no manager; -EINVAL for a name or number that cannot be read (`out` then is
 * NOTIFY_NONE), -EAFNOSUPPORT for a kind of socket that we do not speak, or what connect(2) says.
 */
int notify_init(struct notify *out, const struct notify_environment *environment, struct err *err);
/* The same from the process's environment, from which the variables are removed: they are for this
 * process and not for those that it starts. Before any thread is started. */
int notify_take_environment(struct notify *out, struct err *err);
void notify_done(struct notify *notify);
#define _cleanup_notify_ __attribute__((cleanup(notify_done)))

/* All of these return 0 (also when there is nobody to tell) or -errno, which nothing depends on. */
int notify_ready(const struct notify *notify);
/* Before a configuration is read again; notify_ready() follows. `now_ns`: CLOCK_MONOTONIC. */
int notify_reloading(const struct notify *notify, uint64_t now_ns);
int notify_stopping(const struct notify *notify);
/* One line for people: `systemctl status`. */
int notify_status(const struct notify *notify, const char *text);
int notify_watchdog(const struct notify *notify);

#endif

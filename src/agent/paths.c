/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/paths.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"

#define PATHS_SYSTEM_RUNTIME "/run/sluice"
#define PATHS_SYSTEM_STATE   "/var/lib/sluice"
/* There while systemd is the first process; and where it notes that the service is enabled. */
#define PATHS_SYSTEMD	  "/run/systemd/system"
#define PATHS_SYSTEM_UNIT "/etc/systemd/system/multi-user.target.wants/sluice.service"
#define PATHS_SOCKET_NAME "agent.sock"
#define PATHS_CONFIG_NAME "sluice/config.yaml"

/* The value of a variable; NULL when it is not set or empty. */
static const char *paths_variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

static const char *paths_chosen(const char *given, const char *variable)
{
	return given && *given ? given : paths_variable(variable);
}

/* NULL: none was named, or just that it is to be this user's own. */
static const char *paths_socket(const char *given, bool *out_is_own)
{
	const char *socket = paths_chosen(given, "SLUICE_SOCKET");
	*out_is_own = socket && strcmp(socket, AGENT_PATHS_OWN) == 0;
	return *out_is_own ? NULL : socket;
}

/* An agent may leave the directory in which it was started: relative names are of that one. */
static int paths_absolute(const char *path, char out[FILE_PATH_MAX], struct err *err)
{
	if (path[0] == '/')
		return file_path(out, err, "%s", path);
	char here[FILE_PATH_MAX];
	if (!getcwd(here, sizeof(here)))
		return err_set(err, -errno, "cannot tell the current directory for '%s': %s", path,
			       err_describe(-errno));
	return file_path(out, err, "%s/%s", here, path);
}

/* $XDG_... is ignored where it is relative, as its specification says. */
static int paths_home(const char *variable, const char *below, char out[FILE_PATH_MAX],
		      struct err *err)
{
	const char *own = paths_variable(variable);
	if (own && own[0] == '/')
		return file_path(out, err, "%s/sluice", own);

	const char *home = paths_variable("HOME");
	if (!home || home[0] != '/') {
		const struct passwd *user = getpwuid(geteuid());
		home = user && user->pw_dir && user->pw_dir[0] == '/' ? user->pw_dir : NULL;
	}

	if (!home)
		return err_set(err, -ENOENT,
			       "there is no home directory for the agent's files: set HOME, or "
			       "SLUICE_STATE_DIR to a directory of your own");

	return file_path(out, err, "%s/%s/sluice", home, below);
}

/* After su, $XDG_RUNTIME_DIR still names the other user's. */
static bool paths_is_own(const char *directory)
{
	struct stat info;
	return stat(directory, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

static int paths_runtime(const char *state_dir, bool is_system, char out[FILE_PATH_MAX],
			 struct err *err)
{
	if (is_system)
		return file_path(out, err, "%s", PATHS_SYSTEM_RUNTIME);

	const char *session = paths_variable("XDG_RUNTIME_DIR");
	if (session && session[0] == '/' && paths_is_own(session))
		return file_path(out, err, "%s/sluice", session);

	int rc = file_path(out, err, "/run/user/%u", (unsigned)geteuid());
	if (rc == 0 && paths_is_own(out))
		return file_path(out, err, "/run/user/%u/sluice", (unsigned)geteuid());

	return file_path(out, err, "%s/run", state_dir);
}

/* `is_named`: the socket itself, and not the directory that it is in. */
static int paths_check_socket(const char *path, bool is_named, struct err *err)
{
	struct sockaddr_un address;
	if (strlen(path) >= sizeof(address.sun_path))
		return err_set(err, -ENAMETOOLONG,
			       "the socket's path is longer than %zu bytes: '%.100s...'; %s",
			       sizeof(address.sun_path) - 1, path,
			       is_named ? "name a socket in a directory with a shorter name"
					: "set SLUICE_RUNTIME_DIR to a directory with a shorter "
					  "name");

	return 0;
}

int agent_paths_places(const char *given, char out[AGENT_PATHS_PLACES][FILE_PATH_MAX],
		       bool *out_named, struct err *err)
{
	const char *chosen = paths_chosen(given, "SLUICE_CONFIG");
	if (!chosen)
		chosen = paths_variable("CONFIG_FILE");
	*out_named = chosen != NULL;

	if (chosen) {
		int rc = paths_absolute(chosen, out[0], err);
		return rc < 0 ? rc : 1;
	}

	const char *root = paths_variable("SLUICE_ROOT");
	int count = 0;

	if (geteuid() != 0 && !root) {
		char home[FILE_PATH_MAX];
		/* Somebody without a home has the machine's. */
		if (paths_home("XDG_CONFIG_HOME", ".config", home, NULL) == 0 &&
		    file_path(out[count], NULL, "%s/config.yaml", home) == 0)
			count++;
	}

	int rc = file_path(out[count], err, "%s/etc/" PATHS_CONFIG_NAME, root ? root : "");
	return rc < 0 ? rc : count + 1;
}

int agent_paths_config(const char *given, char out[FILE_PATH_MAX], struct err *err)
{
	char places[AGENT_PATHS_PLACES][FILE_PATH_MAX];
	bool is_named;
	int count = agent_paths_places(given, places, &is_named, err);
	if (count < 0)
		return count;

	out[0] = '\0';
	for (int i = 0; i < count; i++) {
		if (is_named || file_exists(places[i]))
			return file_path(out, err, "%s", places[i]);
	}

	return 0;
}

int agent_paths_find(const struct agent_paths_given *given, struct agent_paths *out,
		     struct err *err)
{
	struct agent_paths paths = {.is_system = geteuid() == 0};
	const char *state = paths_chosen(given->state_dir, "SLUICE_STATE_DIR");
	const char *runtime = paths_chosen(given->runtime_dir, "SLUICE_RUNTIME_DIR");
	bool is_own;
	const char *socket = paths_socket(given->socket, &is_own);
	int rc;

	if (state)
		rc = paths_absolute(state, paths.state_dir, err);
	else if (paths.is_system)
		rc = file_path(paths.state_dir, err, "%s", PATHS_SYSTEM_STATE);
	else
		rc = paths_home("XDG_STATE_HOME", ".local/state", paths.state_dir, err);

	if (rc == 0)
		rc = runtime
			 ? paths_absolute(runtime, paths.runtime_dir, err)
			 : paths_runtime(paths.state_dir, paths.is_system, paths.runtime_dir, err);

	if (rc == 0)
		rc = socket ? paths_absolute(socket, paths.socket, err)
			    : file_path(paths.socket, err, "%s/%s", paths.runtime_dir,
					PATHS_SOCKET_NAME);

	if (rc == 0)
		rc = paths_check_socket(paths.socket, socket != NULL, err);
	if (rc == 0)
		rc = agent_paths_config(given->config, paths.config, err);
	if (rc == 0)
		*out = paths;

	return rc;
}

/* Whether something listens there, whose name fits into an address: 0, -ECONNREFUSED (nothing, or
 * no such file) or -EACCES. */
static int paths_connect(const char *path, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, path, strlen(path));

	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "cannot make a socket: %s", err_describe(-errno));

	/* EAGAIN: so many are connecting that there is somebody to connect to. */
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN)
		return 0;

	int code = errno;
	if (code == EACCES || code == EPERM)
		return err_set(err, -EACCES, "may not connect to '%s': %s", path,
			       err_describe(-code));

	return err_set(err, -ECONNREFUSED, "no agent answers on '%s': %s", path,
		       err_describe(-code));
}

int agent_paths_client(const char *given, char out[FILE_PATH_MAX], struct err *err)
{
	bool is_own;
	const char *socket = paths_socket(given, &is_own);
	bool is_named = is_own || socket || paths_variable("SLUICE_RUNTIME_DIR");
	const struct agent_paths_given by_user = {.socket = given};
	struct agent_paths paths;
	char system[FILE_PATH_MAX] = PATHS_SYSTEM_RUNTIME "/" PATHS_SOCKET_NAME;

	if (!is_named && (paths_connect(system, NULL) == 0 || agent_paths_machine_has_agent())) {
		(void)file_path(out, NULL, "%s", system); /* short */
		return paths_connect(system, err);
	}

	int rc;

	if (socket) {
		/* Named outright: neither a home nor any other place is needed. */
		rc = paths_absolute(socket, out, err);
	} else {
		rc = agent_paths_find(&by_user, &paths, err);
		if (rc == 0)
			memcpy(out, paths.socket, sizeof(paths.socket));
	}

	if (rc == 0)
		rc = paths_check_socket(out, socket != NULL, err);

	return rc < 0 ? rc : paths_connect(out, err);
}

bool agent_paths_machine_has_agent(void)
{
	static const char *const chosen[] = {"SLUICE_SOCKET", "SLUICE_RUNTIME_DIR",
					     "SLUICE_STATE_DIR"};
	for (size_t i = 0; i < array_length(chosen); i++)
		if (paths_variable(chosen[i]))
			return false;

	/* In a container whose packages enable a unit nobody ever starts it: sd_booted(3). */
	if (file_exists(PATHS_SYSTEMD) && file_exists(PATHS_SYSTEM_UNIT))
		return true;

	/* One that root starts has the machine's queue. */
	return geteuid() != 0 && file_exists(PATHS_SYSTEM_STATE "/queue.db") &&
	       !file_exists(PATHS_SYSTEM_STATE "/" AGENT_PATHS_ON_DEMAND);
}

bool agent_paths_is_on_demand(void)
{
	const struct agent_paths_given given = {.socket = NULL};
	struct agent_paths paths;
	char path[FILE_PATH_MAX];

	return agent_paths_find(&given, &paths, NULL) == 0 &&
	       file_path(path, NULL, "%s/" AGENT_PATHS_ON_DEMAND, paths.state_dir) == 0 &&
	       file_exists(path);
}

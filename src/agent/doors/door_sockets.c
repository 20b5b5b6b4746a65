/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/doors/door_kubelet.h"
#include "agent/doors/door_rdma.h"
#include "agent/doors/doors.h"
#include "agent/paths.h"
#include "agent/socket_record.h"
#include "agent/uninstall.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"

#define DOOR_SOCKETS_SETTLED_NS                                                                    \
	UINT64_C(10000000000) /* from the start until all resources are served */

struct door_sockets {
	struct doors *doors;	      /* borrowed */
	struct socket_record *record; /* owned; NULL: there is no state */
	uint64_t open_ns;
};

int door_sockets_open(struct doors *doors, void **out, struct err *err)
{
	const struct doors_parts *parts = doors_parts(doors);
	const struct socket_record_options options = {
	    .storage = parts->storage,
	    .log = parts->log,
	    .state_dir = parts->paths ? parts->paths->state_dir : NULL,
	};

	struct door_sockets *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for the sockets of the kubelet");
	door->doors = doors;
	door->open_ns = parts->loop ? loop_now_ns(parts->loop) : 0;
	*out = door;

	return options.state_dir ? socket_record_new(&options, &door->record, err) : 0;
}

void door_sockets_update(void *context)
{
	const struct door_sockets *door = context;
	const struct door_kubelet *kubelet = doors_at(door->doors, DOOR_KUBELET);
	const char *socket = kubelet ? door_kubelet_socket(kubelet) : "";
	_cleanup_free_ char *directory = *socket ? door_kubelet_directory(socket) : NULL;
	if (!door->record || !directory)
		return;

	const struct kubelet *const served[] = {
	    door_kubelet_kubelet(kubelet), door_rdma_kubelet(doors_at(door->doors, DOOR_RDMA))};
	bool cleans =
	    loop_now_ns(doors_parts(door->doors)->loop) - door->open_ns > DOOR_SOCKETS_SETTLED_NS;
	socket_record_update(door->record, directory, served, 2, cleans);
}

void *door_sockets_free(void *context)
{
	struct door_sockets *door = context;
	if (!door)
		return NULL;
	(void)socket_record_free(door->record);
	free(door);
	return NULL;
}

static void door_sockets_on_removed(const char *path, void *context)
{
	uninstall_tell(context, "removed: '%s'", path);
}

/* Those of an agent that was killed: one that ends removes them. */
int door_sockets_cleanup(const struct uninstall_options *options, struct err *err)
{
	char path[FILE_PATH_MAX];
	const char *state_dir = options->paths->state_dir;
	int rc = socket_record_clean(state_dir, NULL, door_sockets_on_removed,
				     (void *)(uintptr_t)options, err);
	if (rc == 0 && file_path(path, NULL, "%s/" SOCKET_RECORD_NAME, state_dir) == 0)
		(void)unlink(path); /* it may never have been there */
	return rc;
}

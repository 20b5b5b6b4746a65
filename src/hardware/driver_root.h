/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a driver's library lies when the loader does not know: in a container that has the host's
 * files at /host, or on a machine whose driver came in a container. Looks at names only and knows
 * nothing of what the library does. Called by whoever loads it.
 */
#ifndef SLUICE_HARDWARE_DRIVER_ROOT_H
#define SLUICE_HARDWARE_DRIVER_ROOT_H

#include <stdbool.h>

#include "base/file.h"

/*
 * Looks for `name`, a plain file name, in the directories of libraries below /host,
 * /run/nvidia/driver and /driver-root, in this order; all three below `prefix` ("" for this
 * machine). These are the places at which NVIDIA's GPU operator and its device plugin mount a
 * driver: https://github.com/NVIDIA/gpu-operator, assets/state-device-plugin. Links are followed as
 * if the root were "/": Debian's lead through /etc/alternatives. `out` is the file's path without
 * links, untouched when there is none.
 */
bool driver_root_find(const char *prefix, const char *name, char out[FILE_PATH_MAX]);

#endif

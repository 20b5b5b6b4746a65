/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an agent that finds no driver ends, so that Kubernetes shows it, or waits for one:
 * failOnInitError. NVIDIA's plugin ends wherever NVML cannot be initialised; that puts nodes
 * without a GPU into a crash loop, and would take the local queue away from a workstation whose
 * driver is being updated. So: only where devices are for a kubelet, no local job is there, and the
 * PCI bus shows an NVIDIA GPU. Only at the start; what runs goes on without its driver.
 */
#ifndef SLUICE_AGENT_NODRIVER_H
#define SLUICE_AGENT_NODRIVER_H

#include <stdbool.h>

#include "hardware/gpu.h"

struct config;

/* Whether the configuration wants that. `has_kubelet`: its socket directory is there. */
bool nodriver_is_fatal(const struct config *config, bool has_kubelet, bool has_jobs);
/* Whether the PCI bus below `root` shows an NVIDIA GPU (a VGA or a 3D controller), and the first of
 * them. Reads files: for the storage thread. */
bool nodriver_find_gpu(const char *root, struct pci_address *out);

#endif

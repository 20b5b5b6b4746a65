/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the table, by the files that they are in. Each reports findings of its row. */
#ifndef SLUICE_DOCTOR_CHECKS_H
#define SLUICE_DOCTOR_CHECKS_H

struct doctor;

/* checks_gpu.c */
void check_gpu_pci(struct doctor *doctor);
void check_driver_bound(struct doctor *doctor);
void check_mem_numa(struct doctor *doctor);

/* checks_nouveau.c */
void check_driver_nouveau(struct doctor *doctor);

/* checks_driver.c */
void check_driver_loaded(struct doctor *doctor);
void check_driver_match(struct doctor *doctor);
void check_driver_modules(struct doctor *doctor);
void check_driver_flavour(struct doctor *doctor);
void check_driver_firmware(struct doctor *doctor);
void check_driver_persistence(struct doctor *doctor);
void check_driver_coherent(struct doctor *doctor);

/* checks_nodes.c */
void check_driver_nodes(struct doctor *doctor);
void check_driver_devchar(struct doctor *doctor);
void check_driver_refs(struct doctor *doctor);

/* checks_platform.c */
void check_driver_secureboot(struct doctor *doctor);
void check_driver_fabric(struct doctor *doctor);

/* checks_runtime.c */
void check_runtime_cdi(struct doctor *doctor);
void check_runtime_hook(struct doctor *doctor);
void check_runtime_version(struct doctor *doctor);

/* checks_kubelet.c */
void check_kubelet_sockets(struct doctor *doctor);
void check_kubelet_other(struct doctor *doctor);
void check_kubelet_allocatable(struct doctor *doctor);
void check_labels_clash(struct doctor *doctor);

/* checks_system.c */
void check_cgroup(struct doctor *doctor);
void check_loopback(struct doctor *doctor);
void check_selinux_mode(struct doctor *doctor);
void check_selinux_label(struct doctor *doctor);
void check_openshift_node(struct doctor *doctor);

/* checks_jobs.c */
void check_jobs_enforce(struct doctor *doctor);
void check_jobs_session(struct doctor *doctor);
void check_jobs_isolation(struct doctor *doctor);
void check_jobs_state(struct doctor *doctor);

/* checks_headers.c */
void check_driver_headers(struct doctor *doctor);
void check_driver_packages(struct doctor *doctor);

/* checks_rdma.c */
void check_rdma_modules(struct doctor *doctor);
void check_rdma_netns(struct doctor *doctor);
void check_rdma_device(struct doctor *doctor);
void check_rdma_port(struct doctor *doctor);

/* checks_gdr.c */
void check_gdr_path(struct doctor *doctor);
void check_gdr_modules(struct doctor *doctor);
void check_gdr_ofed(struct doctor *doctor);
void check_gdr_distance(struct doctor *doctor);
void check_gdr_acs(struct doctor *doctor);
void check_gdr_iommu(struct doctor *doctor);

/* checks_memory.c */
void check_rdma_memlock(struct doctor *doctor);
void check_memlock(struct doctor *doctor);
void check_shm(struct doctor *doctor);

/* checks_cluster.c */
void check_cluster_access(struct doctor *doctor);
void check_cluster_namespace(struct doctor *doctor);
void check_cluster_daemonset(struct doctor *doctor);
void check_cluster_operators(struct doctor *doctor);
void check_cluster_plugins(struct doctor *doctor);
void check_cluster_nodes(struct doctor *doctor);
void check_openshift_scc(struct doctor *doctor);
void check_openshift_toolkit(struct doctor *doctor);
void check_time(struct doctor *doctor);

#endif

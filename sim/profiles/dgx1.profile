# NVIDIA DGX-1 with eight V100 32 GB, linked as a cube mesh.
#
# Bus ids, NUMA nodes, NVLink and topology levels were used in trial runs of NVIDIA's device plugin.
# Nothing here has been compared with hardware by this project. Figures marked "unverified" are
# guesses from data sheets; only a capture of a real machine may take the mark away.

[machine]
name = dgx1
product = DGX-1 with V100-32
bus = 06 07 0a 0b 85 86 89 8a
numa = 0 0 0 0 1 1 1 1
numa_nodes = 2
cpus_per_node = 40
levels = pair 10, half 30, else 50
nics = 4
nic_rate = 100			# unverified

# GPU = the GPUs at the other ends of its links 0 to 5
[links]
0 = 1 2 3 3 4 4
1 = 0 2 2 3 5 5
2 = 0 1 1 3 3 6
3 = 0 0 1 2 2 7
4 = 0 0 5 6 7 7
5 = 1 1 4 6 6 7
6 = 2 4 5 5 7 7
7 = 3 4 4 5 6 6

[model v100-sxm2-32gb]
name = Tesla V100-SXM2-32GB
brand = tesla			# unverified
architecture = volta
compute_capability = 7.0
pci_device_id = 1DB510DE		# unverified
pci_subsystem_id = 124910DE	# unverified
vbios = 88.00.80.00.01		# unverified
part_number = 900-2G503-0010-000	# unverified
memory_mib = 32768
reserved_mib = 320		# unverified
bar1_mib = 32768		# unverified
memory_bus_bits = 4096
cores = 5120
sms = 80
pcie_gen = 3
pcie_width = 16
power_idle_w = 42		# unverified
power_min_w = 150		# unverified
power_max_w = 300		# unverified
gpu_max_c = 83			# unverified
slowdown_c = 87			# unverified
shutdown_c = 90			# unverified
mem_max_c = 85			# unverified
sm_idle_mhz = 135		# unverified
sm_max_mhz = 1530		# unverified
mem_max_mhz = 877		# unverified
video_max_mhz = 1372		# unverified
idle_pstate = 0
nvlinks = 6
nvlink_version = 2
ecc = yes
hbm = yes

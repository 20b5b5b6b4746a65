# NVIDIA DGX-2 with sixteen V100 32 GB behind twelve NVSwitches.
#
# Bus ids, NUMA nodes, NVLink and topology levels were used in trial runs of NVIDIA's device plugin.
# Nothing here has been compared with hardware by this project. Figures marked "unverified" are
# guesses from data sheets; only a capture of a real machine may take the mark away.

[machine]
name = dgx2
product = NVIDIA DGX-2
bus = 34 36 39 3b 57 59 5c 5e b7 b9 bc be e0 e2 e5 e7
numa = 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1
numa_nodes = 2
cpus_per_node = 48
levels = pair 10, quad 20, half 40, else 50
links = switches
switches = 12
switch_bus = c4			# the first is what peers have seen, the others are counted on: unverified
nics = 8
nic_rate = 100			# unverified

[model v100-sxm3-32gb]
name = Tesla V100-SXM3-32GB
brand = tesla			# unverified
architecture = volta
compute_capability = 7.0
pci_device_id = 1DB810DE		# unverified
pci_subsystem_id = 12DF10DE	# unverified
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
power_idle_w = 50		# unverified
power_min_w = 150		# unverified
power_max_w = 350		# unverified
gpu_max_c = 83			# unverified
slowdown_c = 87			# unverified
shutdown_c = 90			# unverified
mem_max_c = 85			# unverified
sm_idle_mhz = 135		# unverified
sm_max_mhz = 1597		# unverified
mem_max_mhz = 958		# unverified
video_max_mhz = 1372		# unverified
idle_pstate = 0
nvlinks = 6
nvlink_version = 2
ecc = yes
hbm = yes

# NVIDIA DGX A100 with eight 40 GB GPUs.
#
# Bus ids, NUMA nodes, NVLink and topology levels were used in trial runs of NVIDIA's device plugin;
# limits, clocks and thresholds agree with another simulator's profile; the MIG table is what a real
# A100 prints. Nothing here has been compared with hardware by this project. Guesses are marked
# "unverified".

[machine]
name = dgx-a100
product = DGXA100 920-23687-2530-000
driver = 580.105.08
cuda = 13000
bus = 07 0f 47 4e 87 90 b7 bd
numa = 3 3 1 1 7 7 5 5
numa_nodes = 8
cpus_per_node = 32
levels = pair 20, else 50
links = switches
switches = 6
switch_bus = c4			# c4 is real, the following five are counted on: unverified
nics = 10
nic_rate = 200			# unverified
nic_ethernet = 2		# unverified

[model a100-sxm4-40gb]
name = NVIDIA A100-SXM4-40GB
brand = nvidia
architecture = ampere
compute_capability = 8.0
pci_device_id = 20B010DE
pci_subsystem_id = 144E10DE	# unverified
vbios = 92.00.45.00.03		# unverified
part_number = 692-2G506-0200-002	# unverified
memory_mib = 40960
reserved_mib = 583
bar1_mib = 65536
memory_bus_bits = 5120
cores = 6912
sms = 108
pcie_gen = 4
pcie_width = 16
power_idle_w = 72
power_min_w = 100
power_max_w = 400
gpu_max_c = 83
slowdown_c = 87
shutdown_c = 92
mem_max_c = 95			# unverified
sm_idle_mhz = 210
sm_max_mhz = 1410
mem_max_mhz = 1215
video_max_mhz = 1290		# unverified
idle_pstate = 0
nvlinks = 12
nvlink_version = 3
ecc = yes
mig = yes
row_remapper = yes
hbm = yes

[mig a100-sxm4-40gb]
# NAME      index id   MiB  SM slices count CE DEC ENC JPG OFA placements
1g.5gb     =    0 19  4864  14      1     7  1   0   0   0   0 0-6:1
1g.5gb+me  =    7 20  4864  14      1     1  1   1   0   1   1 0-6:1
1g.10gb    =    9 15  9856  14      1     4  1   1   0   0   0 0,2,4,6:2
2g.10gb    =    1 14  9856  28      2     3  2   1   0   0   0 0,2,4:2
3g.20gb    =    2  9 19968  42      3     2  3   2   0   0   0 0,4:4
4g.20gb    =    3  5 19968  56      4     1  4   2   0   0   0 0:4
7g.40gb    =    4  0 40192  98      7     1  7   5   0   1   1 0:8

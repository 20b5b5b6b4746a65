# An HGX board with eight H100 80 GB behind four NVSwitches.
#
# Limits, clocks and thresholds agree with another simulator's profile; the MIG table is what a real
# H100 prints. Nothing here has been compared with hardware by this project. Figures marked
# "unverified" are guesses; only a capture of a real machine may take the mark away.

[machine]
name = hgx-h100
product = DGXH100		# unverified
bus = 1b 43 52 61 9d c3 d1 df	# unverified
numa = 0 0 0 0 1 1 1 1		# unverified
numa_nodes = 2
cpus_per_node = 112
levels = half 40, else 50	# unverified
links = switches
switches = 4
switch_bus = c4			# unverified
nics = 10
nic_rate = 400			# unverified
nic_ethernet = 2		# unverified

[model h100-sxm5-80gb]
name = NVIDIA H100 80GB HBM3
brand = nvidia
architecture = hopper
compute_capability = 9.0
pci_device_id = 233010DE
pci_subsystem_id = 16C110DE	# unverified
vbios = 96.00.74.00.01		# unverified
part_number = 692-2G520-0200-000	# unverified
memory_mib = 81559		# unverified
reserved_mib = 1024		# unverified
bar1_mib = 131072		# unverified
memory_bus_bits = 5120
cores = 16896
sms = 132
pcie_gen = 5
pcie_width = 16
power_idle_w = 95
power_min_w = 200
power_max_w = 700
gpu_max_c = 83
slowdown_c = 87
shutdown_c = 92
mem_max_c = 95			# unverified
sm_idle_mhz = 345
sm_max_mhz = 1980
mem_max_mhz = 1593		# unverified
video_max_mhz = 1545		# unverified
idle_pstate = 0
nvlinks = 18			# unverified
nvlink_version = 4
ecc = yes
mig = yes
gpm = yes
fabric = yes
row_remapper = yes
hbm = yes

# The memory sizes are computed from the gibibytes that nvidia-smi prints.
[mig h100-sxm5-80gb]
# NAME      index id   MiB  SM slices count CE DEC ENC JPG OFA placements
1g.10gb    =    0 19  9984  16      1     7  1   1   0   1   0 0-6:1
1g.10gb+me =    7 20  9984  16      1     1  1   1   0   1   1 0-6:1
1g.20gb    =    9 15 20096  26      1     4  1   1   0   1   0 0,2,4,6:2
2g.20gb    =    1 14 20096  32      2     3  2   2   0   2   0 0,2,4:2
3g.40gb    =    2  9 40448  60      3     2  3   3   0   3   0 0,4:4
4g.40gb    =    3  5 40448  64      4     1  4   4   0   4   0 0:4
7g.80gb    =    4  0 81152 132      7     1  8   7   0   7   1 0:8

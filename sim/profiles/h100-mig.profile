# One H100 80 GB, cut into seven 1g.
#
# The GPU is that of hgx-h100; what is said there about its figures holds here. The machine around it is
# invented.

[machine]
name = h100-mig
product = Simulated MIG server
bus = 07
numa = 0
cpus_per_node = 16
mig = single

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
ecc = yes
mig = yes
gpm = yes
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

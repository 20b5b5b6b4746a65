# A cloud machine with one T4.
#
# Limits, clocks and thresholds agree with another simulator's profile. Nothing here has been compared
# with hardware by this project. Figures marked "unverified" are guesses; only a capture of a real
# machine may take the mark away.

[machine]
name = t4x1
product = g4dn.xlarge		# unverified
bus = 00:1e
numa = -1
cpus_per_node = 4

[model t4]
name = Tesla T4
brand = tesla			# unverified
architecture = turing
compute_capability = 7.5
pci_device_id = 1EB810DE
pci_subsystem_id = 12A210DE	# unverified
vbios = 90.04.38.00.03		# unverified
part_number = 900-2G183-0000-001	# unverified
memory_mib = 15360
reserved_mib = 300
bar1_mib = 256
memory_bus_bits = 256
cores = 2560
sms = 40
pcie_gen = 3
pcie_width = 16
power_idle_w = 12
power_min_w = 60
power_max_w = 70
gpu_max_c = 89
slowdown_c = 93
shutdown_c = 96
sm_idle_mhz = 300
sm_max_mhz = 1590
mem_idle_mhz = 405		# unverified
mem_max_mhz = 5001
video_max_mhz = 1470		# unverified
idle_pstate = 8
ecc = yes

# A workstation with two consumer GPUs; the first drives a display.
#
# All of it is unverified: figures from data sheets and reviews, never compared with hardware. Only a
# capture of a real machine may take that away.

[machine]
name = workstation
product = System Product Name
bus = 01 41
numa = -1 -1
cpus_per_node = 32
levels = else 30

[gpu 0]
display = yes

[model rtx-4090]
name = NVIDIA GeForce RTX 4090
brand = geforce
architecture = ada
compute_capability = 8.9
pci_device_id = 268410DE
pci_subsystem_id = 167C10DE
vbios = 95.02.18.80.87
part_number = 900-1G136-2530-000
memory_mib = 24564
reserved_mib = 350
bar1_mib = 256
memory_bus_bits = 384
cores = 16384
sms = 128
pcie_gen = 4
pcie_width = 16
power_idle_w = 20
power_min_w = 150
power_max_w = 450
gpu_max_c = 84
slowdown_c = 90
shutdown_c = 95
sm_idle_mhz = 210
sm_max_mhz = 2520
mem_idle_mhz = 405
mem_max_mhz = 10501
video_max_mhz = 1965
idle_pstate = 8
fans = 1
display_class = yes

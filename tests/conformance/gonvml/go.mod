module sluice.dev/conformance/gonvml

go 1.19

require github.com/NVIDIA/go-nvml v0.13.0-1

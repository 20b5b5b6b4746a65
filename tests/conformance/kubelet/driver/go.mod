module sluice.dev/sluice/tests/conformance/kubelet/driver

go 1.19

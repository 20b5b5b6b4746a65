// What is imported here is required by newest/ and oldest/, each with its own release.
module sluice.dev/sluice/tests/conformance/kubelet/driver

go 1.19

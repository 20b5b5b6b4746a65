// Modules that are not built: the definitions of their kinds are applied to the cluster.
module sluice.dev/sluice/tests/cluster/go/crds

go 1.26.0

require github.com/kubeflow/mpi-operator v0.8.2

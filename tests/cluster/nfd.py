# SPDX-License-Identifier: Apache-2.0
"""Node feature discovery on the cluster: its master, and its worker on each node, started as programs of the machines."""

import programs
from place import PKI, wait

MODULE = "sigs.k8s.io/node-feature-discovery"
NAMESPACE = "node-feature-discovery"
WORKER = '{"core": {"sleepInterval": "2s", "labelSources": ["local", "pci"], "featureSources": ["local", "pci"]}}'
FIRST_PORT = 18080


class Discovery:
    def __init__(self, cluster):
        self.cluster = cluster

    def up(self):
        programs.build("nfd")
        cluster = self.cluster
        cluster.kubectl("apply", "--server-side", "-f", programs.source(MODULE, "nfd") / "deployment/base/nfd-crds/nfd-api-crds.yaml")
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        environment = ["env", f"KUBERNETES_NAMESPACE={NAMESPACE}", f"KUBECONFIG={PKI}/admin.conf"]
        some = cluster.nodes[0].name  # it wants to be on a node, whose old annotations it takes away
        cluster.control.start("nfd-master", *environment, f"NODE_NAME={some}", programs.program("nfd-master"), "-kubeconfig",
                              PKI / "admin.conf", "-port", FIRST_PORT)
        for node in cluster.nodes:
            node.start("nfd-worker", *environment, f"NODE_NAME={node.name}", programs.program("nfd-worker"), "-kubeconfig",
                       PKI / "admin.conf", "-options", WORKER, "-no-owner-refs", "-port", FIRST_PORT)
        wait("nfd-worker tells of every node", 60, lambda: len(self.features()) >= len(cluster.nodes), every=0.5)

    def features(self, namespace=NAMESPACE):
        return [one["metadata"]["name"] for one in self.cluster.get("nodefeatures.nfd.k8s-sigs.io", namespace=namespace)]

    def down(self):
        for node in self.cluster.nodes:
            node.stop("nfd-worker")
        self.cluster.control.stop("nfd-master")
        for name in ("nodefeatures", "nodefeaturerules", "nodefeaturegroups"):
            self.cluster.kubectl("delete", "crd", f"{name}.nfd.k8s-sigs.io", "--ignore-not-found")
        self.cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")

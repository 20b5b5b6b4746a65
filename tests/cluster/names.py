# SPDX-License-Identifier: Apache-2.0
"""CoreDNS, by which pods find Services and each other. It runs beside the API server, on the address that the Service
kube-dns has: without a kube-proxy nothing turns that address into the one of a pod."""

import programs
from control import DNS_ADDRESS, DOMAIN, SERVICE_ADDRESS, certificate
from place import CONF, PKI, wait

USER = "system:coredns"
COREFILE = f"""{DOMAIN}:53 in-addr.arpa:53 {{
    bind {DNS_ADDRESS}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {PKI}/coredns.conf
        ttl 1
    }}
}}
"""
# The rights that the manifest of CoreDNS gives it.
RULES = [{"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
         {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]
RBAC = "rbac.authorization.k8s.io"
OBJECTS = [
    {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": USER}, "rules": RULES},
    {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": USER},
     "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": USER},
     "subjects": [{"apiGroup": RBAC, "kind": "User", "name": USER}]},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
     "spec": {"clusterIP": DNS_ADDRESS, "ports": [{"name": "dns", "port": 53, "protocol": "UDP"},
                                                  {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]}},
]


class Names:
    def __init__(self, cluster):
        self.cluster = cluster

    def up(self):
        programs.build("coredns")
        control = self.cluster.control
        if not (PKI / "coredns.crt").exists():
            certificate("coredns", f"/CN={USER}")
        CONF.mkdir(parents=True, exist_ok=True)
        (CONF / "Corefile").write_text(COREFILE)
        self.cluster.apply({"apiVersion": "v1", "kind": "List", "items": OBJECTS}, namespace="kube-system")
        control.run("ip", "addr", "replace", f"{DNS_ADDRESS}/32", "dev", "lo")
        control.start("coredns", programs.program("coredns"), "-conf", CONF / "Corefile")
        wait(f"CoreDNS answers at {DNS_ADDRESS}", 60, self.answers, every=0.5)

    def answers(self):
        """Whether it knows the Service that every cluster has."""
        return self.cluster.control.run("sh", "-c", f"busybox nslookup -type=a kubernetes.default.svc.{DOMAIN} {DNS_ADDRESS} || true").count(SERVICE_ADDRESS)

    def down(self):
        control = self.cluster.control
        control.stop("coredns")
        self.cluster.kubectl("delete", "service", "kube-dns", "-n", "kube-system", "--ignore-not-found")
        self.cluster.kubectl("delete", f"clusterrole/{USER}", f"clusterrolebinding/{USER}", "--ignore-not-found")

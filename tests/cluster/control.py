# SPDX-License-Identifier: Apache-2.0
"""The control plane: certificates, etcd, API server, controllers, scheduler, in a space of their own."""

import os
import signal
import subprocess

from place import BASE, PKI, Failure, run, wait
from programs import program
from space import NETWORK, SERVICES, Space

SERVICE_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"
DOMAIN = "cluster.local"
PODS = "10.244.0.0/16"
PROGRAMS = ("coredns", "scheduler", "controller-manager", "apiserver", "etcd")


def certificate(name, subject, alternative=""):
    run("openssl", "genrsa", "-out", PKI / f"{name}.key", "2048")
    run("openssl", "req", "-new", "-key", PKI / f"{name}.key", "-subj", subject, "-out", PKI / f"{name}.csr")
    extension = "extendedKeyUsage=serverAuth,clientAuth\n" + (f"subjectAltName={alternative}\n" if alternative else "")
    (PKI / f"{name}.ext").write_text(extension)
    run("openssl", "x509", "-req", "-in", PKI / f"{name}.csr", "-CA", PKI / "ca.crt", "-CAkey", PKI / "ca.key",
        "-CAcreateserial", "-days", "3650", "-extfile", PKI / f"{name}.ext", "-out", PKI / f"{name}.crt")
    (PKI / f"{name}.conf").write_text(f"""apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://{NETWORK}.1:443", certificate-authority: {PKI}/ca.crt}}}}]
users: [{{name: u, user: {{client-certificate: {PKI}/{name}.crt, client-key: {PKI}/{name}.key}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
""")


def certificates():
    if (PKI / "apiserver.crt").exists():
        return
    PKI.mkdir(parents=True, exist_ok=True)
    os.chmod(PKI, 0o700)
    run("openssl", "genrsa", "-out", PKI / "ca.key", "2048")
    run("openssl", "req", "-x509", "-new", "-key", PKI / "ca.key", "-subj", "/CN=kubernetes", "-days", "3650", "-out",
        PKI / "ca.crt")
    run("openssl", "genrsa", "-out", PKI / "sa.key", "2048")
    certificate("admin", "/O=system:masters/CN=admin")
    certificate("controller-manager", "/CN=system:kube-controller-manager")
    certificate("scheduler", "/CN=system:kube-scheduler")
    certificate("kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client")
    certificate("apiserver", "/CN=kube-apiserver", f"IP:{NETWORK}.1,IP:{SERVICE_ADDRESS},IP:127.0.0.1,DNS:localhost,"
                "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc")


class Control(Space):
    def __init__(self):
        super().__init__("control", 1)

    def up(self, *init, **_):
        certificates()
        super().up(*init)
        run("ip", "-n", self.netns, "addr", "replace", f"{SERVICE_ADDRESS}/32", "dev", "lo")
        self.start("etcd", program("etcd"), "--data-dir", BASE / "etcd", "--listen-client-urls", "http://127.0.0.1:2379",
                   "--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380",
                   "--unsafe-no-fsync", "--log-level", "warn")
        self.start("apiserver", program("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--secure-port=443",
                   f"--advertise-address={self.address}", f"--tls-cert-file={PKI}/apiserver.crt",
                   f"--tls-private-key-file={PKI}/apiserver.key", f"--client-ca-file={PKI}/ca.crt",
                   f"--service-account-key-file={PKI}/sa.key", f"--service-account-signing-key-file={PKI}/sa.key",
                   "--service-account-issuer=https://kubernetes.default.svc", f"--service-cluster-ip-range={SERVICES}",
                   "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction,PodSecurity",
                   f"--kubelet-client-certificate={PKI}/kubelet-client.crt",
                   f"--kubelet-client-key={PKI}/kubelet-client.key", f"--kubelet-certificate-authority={PKI}/ca.crt",
                   "--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true",
                   "--enable-aggregator-routing=true", "--event-ttl=1h")
        wait("the API server", 120, lambda: self.answers("/readyz"))
        self.start("controller-manager", program("kube-controller-manager"),
                   f"--kubeconfig={PKI}/controller-manager.conf", f"--authentication-kubeconfig={PKI}/controller-manager.conf",
                   f"--authorization-kubeconfig={PKI}/controller-manager.conf",
                   f"--service-account-private-key-file={PKI}/sa.key", f"--root-ca-file={PKI}/ca.crt",
                   "--use-service-account-credentials", f"--cluster-cidr={PODS}", "--leader-elect=false",
                   "--node-monitor-grace-period=20s", "--controllers=*")
        self.start("scheduler", program("kube-scheduler"), f"--kubeconfig={PKI}/scheduler.conf",
                   f"--authentication-kubeconfig={PKI}/scheduler.conf",
                   f"--authorization-kubeconfig={PKI}/scheduler.conf", "--leader-elect=false")

    def answers(self, path):
        try:
            return self.kubectl("get", "--raw", path).strip() == "ok"
        except Failure:
            return False

    def kubectl(self, *arguments, **options):
        return self.run(program("kubectl"), f"--kubeconfig={PKI}/admin.conf", *arguments, **options)

    def kubectl_shown(self, *arguments):
        """The same for a person: this terminal's input and output; the exit status."""
        return subprocess.run(self.inside(str(program("kubectl")), f"--kubeconfig={PKI}/admin.conf", *arguments),
                              check=False).returncode

    def down(self):
        for name in PROGRAMS:
            self.stop(name, signal.SIGKILL)
        super().down()

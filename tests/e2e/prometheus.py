# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus (Debian's) of a test's own, which scrapes services of simulated machines each second."""

import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from conftest import DEADLINE_S, wait_until

PROGRAM = shutil.which("prometheus")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def metrics_address(machine):
    """Where the service of that machine serves its metrics."""
    status = machine.run("sluice", "agent", "status", "--output", "json").ok().json
    return status["web"]["address"]


class Prometheus:
    def __init__(self, directory, targets, rules=None, interval="1s"):
        """`targets`: {instance: "address:port"}; `rules`: text of a rule file."""
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        files = []
        if rules:
            (directory / "rules.yaml").write_text(rules, encoding="utf-8")
            files = ["rules.yaml"]
        configuration = {
            "global": {"scrape_interval": interval, "scrape_timeout": "1s", "evaluation_interval": interval},
            "rule_files": files,
            "scrape_configs": [{
                "job_name": "sluice", "honor_labels": True,
                "static_configs": [{"targets": [address], "labels": {"instance": instance}}
                                   for instance, address in targets.items()]}],
        }
        # a JSON file is a YAML file
        (directory / "prometheus.yaml").write_text(json.dumps(configuration), encoding="utf-8")
        self.log = directory / "prometheus.err"
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(
                [PROGRAM, f"--config.file={directory / 'prometheus.yaml'}", f"--storage.tsdb.path={directory / 'data'}",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn", "--storage.tsdb.retention.time=1d"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "GOMAXPROCS": "1"})
        wait_until(self.ready, what="Prometheus")

    def ready(self):
        assert self.child.poll() is None, self.log.read_text(errors="replace")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=DEADLINE_S) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def ask(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=DEADLINE_S) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode(errors='replace')}") from error

    def query(self, expression):
        """[(labels, value)] of an expression now."""
        return [(one["metric"], float(one["value"][1])) for one in self.ask("query", query=expression)["result"]]

    def firing(self):
        """{name: [alert]} of what fires now."""
        found = {}
        for alert in self.ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert)
        return found

    def stop(self):
        self.child.terminate()
        self.child.wait(timeout=DEADLINE_S)

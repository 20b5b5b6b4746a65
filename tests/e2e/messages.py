# SPDX-License-Identifier: Apache-2.0
"""The messages of one of our .proto files, for gRPC by hand."""

import importlib
import subprocess
import sys
import tempfile

import pytest

from conftest import DEADLINE_S, ROOT

grpc = pytest.importorskip("grpc", reason="needs python3-grpcio")
pytest.importorskip("grpc_tools", reason="needs python3-grpc-tools")


def messages(name):
    """The module with the classes of proto/NAME.proto, made from that file, and with those of job.proto if it
    imports them."""
    with tempfile.TemporaryDirectory(prefix="sluice-proto-") as directory:
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}",
                        f"--python_out={directory}", *{str(ROOT / "proto" / f"{one}.proto") for one in (name, "job")}],
                       check=True, timeout=DEADLINE_S)
        sys.path.insert(0, directory)
        module = importlib.import_module(f"{name}_pb2")
        if hasattr(module, "job__pb2"):
            for one in module.job__pb2.DESCRIPTOR.message_types_by_name:
                setattr(module, one, getattr(module.job__pb2, one))
        sys.path.remove(directory)
    return module

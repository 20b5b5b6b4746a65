# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the kubelet's side of the device plugin API, by proto/deviceplugin.proto alone: it
takes registrations, calls back before it answers them, as the kubelet does, and keeps the lists that
it is sent. It may die at any step. How it behaves is that of kubernetes' pkg/kubelet/cm/devicemanager;
the conformance tests run that code itself."""

import os
import pathlib
import stat
import threading
import time
from concurrent import futures

import pytest

from conftest import DEADLINE_S, wait_until
from messages import grpc, messages

pb = messages("deviceplugin")

# Where it may die.
STEPS = ("register", "dialled", "options", "watching", "listed", "answered")


class Died(Exception):
    """The kubelet has died at the step that was asked for."""


class Endpoint:
    """What the kubelet keeps of one plugin: a connection and a stream."""

    def __init__(self, kubelet, path, resource):
        self.kubelet, self.resource = kubelet, resource
        self.channel = grpc.insecure_channel(f"unix:{path}", options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)])
        self.lists = []
        self.ended = threading.Event()
        self.stream = None

    def call(self, method, request, reply, timeout=DEADLINE_S):
        return self.channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=reply.FromString)(request, timeout=timeout)

    def watch(self):
        self.stream = self.channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.ListAndWatchResponse.FromString)(pb.Empty())
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for reply in self.stream:
                self.lists.append([(device.ID, device.health) for device in reply.devices])
                self.kubelet.reach("listed", quiet=True)
        except grpc.RpcError:
            pass
        self.ended.set()
        self.kubelet.stream_ended(self)

    @property
    def devices(self):
        """The last list, {id: health}; None before the first."""
        return dict(self.lists[-1]) if self.lists else None

    def allocate(self, *ids):
        request = pb.AllocateRequest()
        request.container_requests.add().devices_ids.extend(ids)
        return self.call("Allocate", request, pb.AllocateResponse).container_responses[0]

    def close(self):
        if self.stream:
            self.stream.cancel()
        self.channel.close()


class Plugin:
    """Another device plugin on the same resource and socket, which registers once and then only
    serves."""

    def __init__(self, directory, *devices):
        self.directory, self.devices = pathlib.Path(directory), devices
        self.over = threading.Event()
        (self.directory / "nvidia-gpu.sock").unlink(missing_ok=True)
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "v1beta1.DevicePlugin", {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                    lambda request, context: pb.DevicePluginOptions(),
                    request_deserializer=pb.Empty.FromString,
                    response_serializer=lambda m: m.SerializeToString()),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._watch, request_deserializer=pb.Empty.FromString,
                    response_serializer=lambda m: m.SerializeToString())}),))
        # grpc removes what it has bound at its end; what is removed is for stop() to say
        self.server.add_insecure_port(f"unix:{self.directory / 'bound.sock'}")
        self.server.start()
        (self.directory / "bound.sock").rename(self.directory / "nvidia-gpu.sock")

    def _watch(self, _request, _context):
        reply = pb.ListAndWatchResponse()
        for device in self.devices:
            reply.devices.add(ID=device, health="Healthy")
        yield reply
        self.over.wait()

    def register(self):
        with grpc.insecure_channel(f"unix:{self.directory / 'kubelet.sock'}", options=[
                ("grpc.use_local_subchannel_pool", 1)]) as channel:
            channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=pb.Empty.FromString)(pb.RegisterRequest(
                    version="v1beta1", endpoint="nvidia-gpu.sock",
                    resource_name="nvidia.com/gpu"), timeout=DEADLINE_S)

    def stop(self, unlink=True):
        """As NVIDIA's plugin: the socket goes, whoever's it is by now."""
        self.over.set()
        if unlink:
            (self.directory / "nvidia-gpu.sock").unlink(missing_ok=True)
        self.server.stop(None).wait()


class Kubelet:
    """Lives between start() and die(). `careless`: the end of an old stream takes a newer
    registration of the same resource with it, as in kubelets before kubernetes PR 135437; "deaf":
    so that the newer stream stays open and nobody listens to it, as in 1.25."""

    def __init__(self, directory, careless=False):
        self.directory = pathlib.Path(directory)
        self.socket = self.directory / "kubelet.sock"
        self.careless = careless
        self.lock = threading.Lock()
        self.endpoints = {}
        self.requests = []  # (time, resource)
        self.server = None
        self.die_at = None
        self.started, self.starts = 0.0, 0

    def start(self, die_at=None):
        """As the kubelet: all sockets go, then its own comes."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in sockets(self.directory):
            (self.directory / name).unlink(missing_ok=True)
        self.endpoints, self.requests, self.die_at = {}, [], die_at
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "v1beta1.Registration", {"Register": grpc.unary_unary_rpc_method_handler(
                self._register, request_deserializer=pb.RegisterRequest.FromString,
                response_serializer=lambda m: m.SerializeToString())}),))
        self.server = server
        # grpc removes the name that it has bound, some time after its end: not the next one's
        self.starts += 1
        bound = self.directory / f"bound-{self.starts}"
        server.add_insecure_port(f"unix:{bound}")
        self.started = time.monotonic()
        os.link(bound, self.socket)
        bound.unlink()
        server.start()
        return self

    def die(self, only=None):
        """All connections break; the socket's file stays, as the kubelet's does. `only`: if it is
        still that server."""
        with self.lock:
            if only and self.server is not only:
                return
            server, self.server = self.server, None
            endpoints, self.endpoints = self.endpoints, {}
        for endpoint in endpoints.values():
            endpoint.close()
        if server:
            server.stop(None)

    def reach(self, step, quiet=False):
        if self.die_at != step:
            return
        self.die_at = None
        if self.server:
            threading.Thread(target=self.die, args=(self.server,), daemon=True).start()
        if not quiet:
            raise Died(step)

    def _register(self, request, context):
        self.requests.append((time.monotonic(), request.resource_name))
        self.reach("register")
        if request.version != "v1beta1" or "/" not in request.resource_name:
            context.abort(grpc.StatusCode.UNKNOWN,
                          f'the ResourceName "{request.resource_name}" is invalid')
        endpoint = Endpoint(self, self.directory / request.endpoint, request.resource_name)
        try:
            grpc.channel_ready_future(endpoint.channel).result(timeout=10)
            self.reach("dialled")
            endpoint.call("GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions)
            self.reach("options")
        except (grpc.RpcError, grpc.FutureTimeoutError, Died):
            endpoint.close()
            raise
        with self.lock:
            alive = self.server is not None
            if alive:
                self.endpoints[request.resource_name] = endpoint
        if not alive:
            endpoint.close()
            raise Died("meanwhile")
        endpoint.watch()
        self.reach("watching")
        self.reach("answered", quiet=True)
        return pb.Empty()

    def stream_ended(self, endpoint):
        with self.lock:
            now = self.endpoints.get(endpoint.resource)
            if now is endpoint or (now and self.careless):
                del self.endpoints[endpoint.resource]
            else:
                now = None
        if now and now is not endpoint and self.careless != "deaf":
            now.close()

    def resource(self, name="nvidia.com/gpu"):
        """The endpoint of a resource while its stream is open, else None."""
        endpoint = self.endpoints.get(name)
        return endpoint if endpoint and not endpoint.ended.is_set() else None

    def devices(self, name="nvidia.com/gpu"):
        endpoint = self.resource(name)
        return endpoint.devices if endpoint else None

    def wait(self, devices, name="nvidia.com/gpu", deadline_s=DEADLINE_S):
        """Until the resource has that many devices, all healthy; its endpoint."""
        def has():
            now = self.devices(name)
            return now is not None and len(now) == devices and set(now.values()) <= {"Healthy"}
        wait_until(has, deadline_s, f"{devices} devices of {name}")
        return self.resource(name)

    def settled(self, devices, quiet_s=0.3):
        """The same, once it stays so."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            endpoint = self.wait(devices)
            if not endpoint.ended.wait(quiet_s):
                return endpoint
        raise AssertionError(f"it does not come to rest in {DEADLINE_S} s")


@pytest.fixture
def small_node(machine):
    """A machine of one GPU with a kubelet and, once small_node.serve() is called, its service.
    `others` are stopped at the end."""
    machine.start("t4x1")
    machine.kubelet = Kubelet(machine.path("/var/lib/kubelet/device-plugins")).start()
    machine.others = []

    def serve(*options):
        machine.agent(*options)
        return machine.kubelet.wait(1)

    machine.serve = serve
    yield machine
    machine.kubelet.die()
    for other in machine.others:
        other.stop(None).wait()


def serve_on(socket, service, methods):
    """A gRPC server on a unix socket whose methods take and return bytes."""
    socket.parent.mkdir(parents=True, exist_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {
        name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def field(number, data):
    """A length-delimited field of protobuf."""
    def varint(value):
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
        return bytes(out)
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def sockets(directory):
    """The names of the sockets in a directory, which may come and go meanwhile."""
    names = []
    for name in sorted(os.listdir(directory)):
        try:
            if stat.S_ISSOCK(os.lstat(pathlib.Path(directory) / name).st_mode):
                names.append(name)
        except FileNotFoundError:
            pass
    return names

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the kubelet's side of the device plugin API, as small as a scenario needs it: takes registrations, keeps their
lists open and allocates unit 0 of each resource whenever all of its units have become healthy. A line for each of these goes to
standard output. The messages are read by their numbers (api.proto of k8s.io/kubelet), so that no code is made of them."""

import pathlib
import threading
from concurrent import futures

import grpc

DIRECTORY = pathlib.Path("/var/lib/kubelet/device-plugins")


def fields(data):
    """The length-delimited fields of a message, as {number: [bytes]}."""
    found, at = {}, 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            found.setdefault(key >> 3, []).append(data[at:at + value])
            at += value
    return found


def text(message, number):
    return message.get(number, [b""])[0].decode()


def say(*words):
    print(*words, flush=True)


def allocate(channel, resource):
    request = b"\x0a\x03\x0a\x010"  # one container, which takes the unit "0"
    answer = fields(channel.unary_unary("/v1beta1.DevicePlugin/Allocate")(request, timeout=30))
    container = fields(answer[1][0])
    devices = [fields(one) for one in container.get(3, [])]
    names = [text(one, 2) for one in devices] + [text(fields(one), 1) for one in container.get(5, [])]
    say(resource, "allocated", *names)


def follow(endpoint, resource):
    channel = grpc.insecure_channel(f"unix:{DIRECTORY / endpoint}")
    was_well = False
    try:
        for reply in channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b""):
            health = [text(fields(one), 2) for one in fields(reply).get(1, [])]
            well = health.count("Healthy")
            say(resource, "healthy", well, "of", len(health))
            if health and well == len(health) and not was_well:
                allocate(channel, resource)
            was_well = well == len(health)
    except grpc.RpcError as error:
        say(resource, "ended", error.code())


def register(request, _context):
    message = fields(request)
    endpoint, resource = text(message, 2), text(message, 3)
    say(resource, "registered", endpoint)
    threading.Thread(target=follow, args=(endpoint, resource), daemon=True).start()
    return b""


def main():
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
        "v1beta1.Registration", {"Register": grpc.unary_unary_rpc_method_handler(register)}),))
    server.add_insecure_port(f"unix:{DIRECTORY / 'kubelet.sock'}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()

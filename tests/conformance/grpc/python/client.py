# SPDX-License-Identifier: Apache-2.0
"""Cases of python3-grpcio against a server of peer.proto: client.py DESCRIPTORS SOCKET SERVER-PID.
Prints "ok NAME" or "FAIL NAME: why" for each. The last one sends the server SIGTERM."""

import concurrent.futures
import os
import signal
import sys
import time

import grpc

import peer

TEXT = "Grüße, 世界 😀"
STATUS_TEXT = "100 % falsch: größer\n末\tEnde "
WAIT = 20  # seconds, for anything


class Problem(Exception):
    pass


def expect(wanted, found, what):
    if wanted != found:
        raise Problem(f"{what}: {found!r} instead of {wanted!r}")


def expect_status(wanted, function):
    try:
        function()
    except grpc.RpcError as error:
        if error.code() != wanted:
            raise Problem(f"{error.code()} ({error.details()}) instead of {wanted}") from error
        return error.details()
    raise Problem(f"no error instead of {wanted}")


class Client:
    def __init__(self, descriptors, path, options=()):
        self.messages = peer.Messages(descriptors)
        self.target = f"unix:{path}"
        # calls of their own connection, not of one that another channel of this process has
        options = [("grpc.use_local_subchannel_pool", 1), *options]
        self.channel = grpc.insecure_channel(self.target, options=options)

    def method(self, name, path=None, serializer=None):
        request, reply, client_streams, server_streams = peer.METHODS[name]
        kind = f"{'stream' if client_streams else 'unary'}_{'stream' if server_streams else 'unary'}"
        return getattr(self.channel, kind)(
            path or peer.SERVICE + name,
            request_serializer=serializer or getattr(self.messages, request).SerializeToString,
            response_deserializer=getattr(self.messages, reply).FromString)

    def say(self, text, **options):
        reply = self.method("Say")(self.messages.Text(text=text), timeout=WAIT, **options)
        expect(text, reply.text, "text")

    def count(self, count, size=100, **options):
        return self.method("Count")(self.messages.CountRequest(count=count, size=size), timeout=WAIT, **options)

    def facts(self):
        facts = self.method("Facts")(self.messages.Nothing(), timeout=WAIT)
        return facts.running, facts.cancelled

    def expect_facts(self, running, cancelled):
        deadline = time.monotonic() + WAIT
        while (found := self.facts()) != (running, cancelled):
            if time.monotonic() > deadline:
                raise Problem(f"(running, cancelled) at the server: {found} instead of {(running, cancelled)}")


def case_unary(client):
    client.say(TEXT)


def case_empty_message(client):
    client.say("")


def case_many_calls(client):
    for _ in range(1000):
        client.say("again")


def case_parallel_calls(client):
    calls = [client.method("Say").future(client.messages.Text(text=str(i)), timeout=WAIT) for i in range(300)]
    for i, call in enumerate(calls):
        expect(str(i), call.result().text, "text")


def case_several_connections(client):
    others = [Client(sys.argv[1], sys.argv[2]) for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda other: [other.say("one of many") for _ in range(20)], others))
    for other in others:
        other.channel.close()


def case_stream(client):
    expect(list(range(1000)), [blob.index for blob in client.count(1000)], "indices")


def case_empty_stream(client):
    expect([], list(client.count(0)), "messages")


def case_slow_reader(client):
    """12 MB wait for a reader that calls something else between any two messages."""
    for index, blob in enumerate(client.count(120, 100000)):
        expect((index, 100000), (blob.index, len(blob.data)), "message")
        client.say("meanwhile")


def case_client_stream(client):
    numbers = (client.messages.Number(value=value) for value in range(-500, 2001))
    expect(sum(range(-500, 2001)), client.method("Sum")(numbers, timeout=WAIT).value, "sum")


def case_empty_client_stream(client):
    expect(0, client.method("Sum")(iter(()), timeout=WAIT).value, "sum")


def case_both_stream(client):
    """Each text is sent only after the answer to the one before."""
    replies = []

    def texts():
        for i in range(100):
            yield client.messages.Text(text=f"{i} {TEXT}")
            deadline = time.monotonic() + WAIT
            while len(replies) <= i and time.monotonic() < deadline:
                time.sleep(0.0005)

    for reply in client.method("Chat")(texts(), timeout=2 * WAIT):
        replies.append(reply.text)
    expect([f"{i} {TEXT}" for i in range(100)], replies, "texts")


def case_every_status(client):
    for code in range(1, 17):
        text = expect_status(peer.STATUSES[code], lambda code=code: client.method("Fail")(
            client.messages.FailRequest(code=code, message=STATUS_TEXT), timeout=WAIT))
        expect(STATUS_TEXT, text, "its message")


def case_status_after_messages(client):
    got = []
    request = client.messages.FailRequest(code=9, message=TEXT, after=3)
    text = expect_status(grpc.StatusCode.FAILED_PRECONDITION,
                         lambda: got.extend(client.method("FailLate")(request, timeout=WAIT)))
    expect((3, TEXT), (len(got), text), "messages and text")


def case_deadline(client):
    running, cancelled = client.facts()
    begin = time.monotonic()
    expect_status(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: client.method("Slow")(
        client.messages.SlowRequest(milliseconds=60000), timeout=0.2))
    if not 0.15 < time.monotonic() - begin < 10:
        raise Problem(f"the deadline of 0.2 s came after {time.monotonic() - begin:.1f} s")
    client.expect_facts(running, cancelled + 1)


def case_cancel(client):
    running, cancelled = client.facts()
    call = client.method("Slow").future(client.messages.SlowRequest(milliseconds=60000))
    client.expect_facts(running + 1, cancelled)
    call.cancel()
    client.expect_facts(running, cancelled + 1)


def case_cancel_a_stream(client):
    running, cancelled = client.facts()
    call = client.count(100000000, 1000)
    for _ in range(10):
        next(call)
    call.cancel()
    client.expect_facts(running, cancelled + 1)


def case_large_message(client):
    data = bytes(i & 255 for i in range(4000)) * 1000
    reply = client.method("Echo")(client.messages.Blob(data=data, index=7), timeout=WAIT)
    expect(True, reply.data == data, "the same bytes")


def case_message_over_the_cap(client):
    for size in (4 << 20, 8 << 20):
        expect_status(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda size=size: client.method("Echo")(
            client.messages.Blob(data=bytes(size)), timeout=WAIT))
    client.say("afterwards")


def case_unknown_method(client):
    for path in ("/peer.v1.Peer/Missing", "/peer.v1.Missing/Say", "/missing"):
        expect_status(grpc.StatusCode.UNIMPLEMENTED, lambda path=path: client.method("Say", path)(
            client.messages.Text(), timeout=WAIT))
    client.say("afterwards")


def case_compressed_request(client):
    expect_status(grpc.StatusCode.UNIMPLEMENTED, lambda: client.method("Say")(
        client.messages.Text(text="x" * 10000), timeout=WAIT, compression=grpc.Compression.Gzip))
    client.say("afterwards")


def case_garbage(client):
    for garbage in (b"\xff\xff\xff", b"\x0a\x05abc", b"\x0a\x02\xc0\x80", b"\x0a\x01\x00", b"\x08\x01"):
        expect_status(grpc.StatusCode.INTERNAL, lambda garbage=garbage: client.method(
            "Say", serializer=lambda _: garbage)(None, timeout=WAIT))
    client.say("afterwards")


def case_authority_is_the_socket_path(client):
    other = Client(sys.argv[1], sys.argv[2], [("grpc.default_authority", sys.argv[2])])
    other.say(TEXT)
    other.channel.close()


def case_headers(client):
    client.say(TEXT, metadata=(("x-name", "value"), ("x-bytes-bin", bytes(range(256)))))


def case_headers_over_the_cap(client):
    try:
        client.say("large", metadata=(("x-large", "v" * 60000),))
    except grpc.RpcError:
        client.say("afterwards")
        return
    raise Problem("60 kB of headers were taken")


def case_shutdown(client):
    running, cancelled = client.facts()
    call = client.method("Slow").future(client.messages.SlowRequest(milliseconds=1000), timeout=WAIT)
    client.expect_facts(running + 1, cancelled)
    os.kill(int(sys.argv[3]), signal.SIGTERM)
    expect("at last", call.result().text, "the running call")
    expect_status(grpc.StatusCode.UNAVAILABLE, lambda: [client.say("later") for _ in range(100000)])


def main():
    for name, case in list(globals().items()):
        if not name.startswith("case_"):
            continue
        title = name[len("case_"):].replace("_", " ")
        try:
            case(client)
            print(f"ok {title}", flush=True)
        except (Problem, grpc.RpcError) as error:
            print(f"FAIL {title}: {' '.join(str(error).split())}", flush=True)


if __name__ == "__main__":
    client = Client(sys.argv[1], sys.argv[2])
    main()

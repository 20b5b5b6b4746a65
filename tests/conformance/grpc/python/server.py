# SPDX-License-Identifier: Apache-2.0
"""The service of peer.proto on python3-grpcio: server.py DESCRIPTORS SOCKET. Says "ready" when it
listens; SIGTERM finishes what runs and ends it."""

import concurrent.futures
import signal
import sys
import threading

import grpc

import peer


class Peer:
    def __init__(self, messages):
        self.messages = messages
        self.lock = threading.Lock()
        self.running = self.cancelled = 0

    def say(self, request, context):
        return request

    echo = say

    def count(self, request, context):
        done = False

        def ended():
            with self.lock:
                self.running -= 1
                self.cancelled += not done

        with self.lock:
            self.running += 1
        context.add_callback(ended)
        data = bytes(request.size)
        for index in range(request.count):
            if not context.is_active():
                return
            yield self.messages.Blob(data=data, index=index)
        done = True

    def sum(self, requests, context):
        return self.messages.Number(value=sum(request.value for request in requests))

    def chat(self, requests, context):
        yield from requests

    def fail(self, request, context):
        context.abort(peer.STATUSES[request.code], request.message)

    def faillate(self, request, context):
        for _ in range(request.after):
            yield self.messages.Text(text="before")
        context.abort(peer.STATUSES[request.code], request.message)

    def slow(self, request, context):
        over = threading.Event()
        with self.lock:
            self.running += 1
        context.add_callback(over.set)
        cancelled = over.wait(request.milliseconds / 1000)
        with self.lock:
            self.running -= 1
            self.cancelled += cancelled
        return self.messages.Text(text="at last")

    def facts(self, request, context):
        with self.lock:
            return self.messages.FactsReply(running=self.running, cancelled=self.cancelled)


def main():
    descriptors, path = sys.argv[1:]
    messages = peer.Messages(descriptors)
    service = Peer(messages)

    handlers = {}
    for name, (request, reply, client_streams, server_streams) in peer.METHODS.items():
        kind = f"{'stream' if client_streams else 'unary'}_{'stream' if server_streams else 'unary'}"
        handlers[name] = getattr(grpc, f"{kind}_rpc_method_handler")(
            getattr(service, name.lower()),
            request_deserializer=getattr(messages, request).FromString,
            response_serializer=getattr(messages, reply).SerializeToString)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(32),
                         options=[("grpc.max_receive_message_length", peer.RECEIVE_MAX)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("peer.v1.Peer", handlers),))
    server.add_insecure_port(f"unix:{path}")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server.start()
    print("ready", flush=True)
    while not ended.wait(0.05):  # a wait without end would keep the handler of the signal waiting
        pass
    server.stop(30).wait()


if __name__ == "__main__":
    main()

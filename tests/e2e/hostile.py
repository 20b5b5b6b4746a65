# SPDX-License-Identifier: Apache-2.0
"""A client of the agent that keeps to no manners: HTTP/2 frames by hand, from any user id, that opens a window of no
bytes, sends half of a request, or reads nothing. Nothing of a gRPC library is in it."""

import os
import select
import socket
import struct
import subprocess
import sys

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    """A field that no table keeps, without Huffman's code (RFC 7541, 6.2.2); names and values below 127 bytes."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def grpc_frame(message, length=None):
    return struct.pack(">BI", 0, len(message) if length is None else length) + message


class Hostile:
    """One connection. `uid`: who the kernel says is at this end; takes root. None: as this process is."""

    def __init__(self, path, uid, window=None):
        self.socket = socket.socket(socket.AF_UNIX)
        if uid is None:
            self.socket.connect(str(path))
        else:
            os.seteuid(uid)
            try:
                self.socket.connect(str(path))
            finally:
                os.seteuid(0)
        settings = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.next = 1
        self.seen = b""
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def send(self, data):
        """False: the agent has closed it, or takes no more."""
        self.socket.settimeout(10)
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def call(self, path, message=b"", length=None, end=True):
        """Begins a call with this message, whose head says `length`; not `end`: more seems to follow."""
        stream = self.next
        self.next += 2
        fields = b"".join(header(*field) for field in (
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", b"localhost"),
            (b"content-type", b"application/grpc"), (b"te", b"trailers")))
        out = frame(HEADERS, END_HEADERS, stream, fields)
        body = grpc_frame(message, length)
        for at in range(0, len(body), 16384):
            last = at + 16384 >= len(body)
            out += frame(DATA, END_STREAM if end and last else 0, stream, body[at:at + 16384])
        return self.send(out)

    def drain(self, wait_s=0.0):
        """What came by now; `seen` has all of it. None: the agent has closed it."""
        self.socket.setblocking(False)
        while select.select([self.socket], [], [], wait_s)[0]:
            try:
                data = self.socket.recv(1 << 16)
            except OSError:
                return None
            if not data:
                return None
            self.seen += data
            wait_s = 0.0
        return self.seen

    def is_open(self, wait_s=0.0):
        return self.drain(wait_s) is not None

    def ended(self):
        """How many of its calls the agent has ended."""
        self.drain()
        count, at = 0, 0
        while at + 9 <= len(self.seen):
            length = int.from_bytes(self.seen[at:at + 3], "big")
            kind, flags = self.seen[at + 3:at + 5]
            count += kind == RST_STREAM or (kind == HEADERS and flags & END_STREAM != 0)
            at += 9 + length
        return count

    def close(self):
        self.socket.close()


def submit_all(path, uid, requests):
    """Sends all of these SubmitRequests, by a process of that user, and waits for the answers."""
    lines = "".join(request.SerializeToString().hex() + "\n" for request in requests)
    subprocess.run([sys.executable, __file__, str(path)], input=lines, text=True, check=True, timeout=120, cwd="/",
                   user=uid, group=uid, extra_groups=[])


def main():
    requests = [bytes.fromhex(line) for line in sys.stdin.read().split()]
    while requests:
        some, requests = requests[:90], requests[90:]
        peer = Hostile(sys.argv[1], None)
        for request in some:
            peer.call("/sluice.v1.Queue/Submit", request)
        while peer.ended() < len(some):
            if not peer.is_open(10):
                sys.exit("the agent closed the connection")
        peer.close()


if __name__ == "__main__":
    main()

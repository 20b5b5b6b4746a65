# SPDX-License-Identifier: Apache-2.0
"""The messages of peer.proto, from the descriptor set that the harness made of it."""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RECEIVE_MAX = 4100000  # bytes of a message; grpc-peer-client knows it
SERVICE = "/peer.v1.Peer/"
# name: (request, reply, the client streams, the server streams)
METHODS = {
    "Say": ("Text", "Text", False, False),
    "Echo": ("Blob", "Blob", False, False),
    "Count": ("CountRequest", "Blob", False, True),
    "Sum": ("Number", "Number", True, False),
    "Chat": ("Text", "Text", True, True),
    "Fail": ("FailRequest", "Text", False, False),
    "FailLate": ("FailRequest", "Text", False, True),
    "Slow": ("SlowRequest", "Text", False, False),
    "Facts": ("Nothing", "FactsReply", False, False),
}
STATUSES = {code.value[0]: code for code in grpc.StatusCode}


class Messages:
    """messages.Text and so on: the classes."""

    def __init__(self, descriptor_set):
        pool = descriptor_pool.DescriptorPool()
        files = descriptor_pb2.FileDescriptorSet()
        with open(descriptor_set, "rb") as file:
            files.ParseFromString(file.read())
        for file in files.file:
            pool.Add(file)
            for message in file.message_type:
                descriptor = pool.FindMessageTypeByName(f"{file.package}.{message.name}")
                if hasattr(message_factory, "GetMessageClass"):
                    made = message_factory.GetMessageClass(descriptor)
                else:  # before 4.22
                    made = message_factory.MessageFactory(pool).GetPrototype(descriptor)
                setattr(self, message.name, made)

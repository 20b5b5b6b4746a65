// SPDX-License-Identifier: Apache-2.0

// A peer of peer.proto on grpc-go:
//
//	peer server DESCRIPTORS SOCKET
//	peer client DESCRIPTORS SOCKET SERVER-PID
//
// The client prints "ok NAME" or "FAIL NAME: why" for each case.
package main

import (
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const service = "peer.v1.Peer"

var methods protoreflect.MethodDescriptors

// The service as the harness has described it; nothing is generated.
func load(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(data, set); err != nil {
		return err
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return err
	}
	found, err := files.FindDescriptorByName(service)
	if err != nil {
		return err
	}
	methods = found.(protoreflect.ServiceDescriptor).Methods()
	return nil
}

type message struct{ *dynamicpb.Message }

func request(method string) message {
	return message{dynamicpb.NewMessage(methods.ByName(protoreflect.Name(method)).Input())}
}

func reply(method string) message {
	return message{dynamicpb.NewMessage(methods.ByName(protoreflect.Name(method)).Output())}
}

func (m message) field(name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func (m message) set(name string, value interface{}) message {
	m.Set(m.field(name), protoreflect.ValueOf(value))
	return m
}

func (m message) text(name string) string   { return m.Get(m.field(name)).String() }
func (m message) bytes(name string) []byte  { return m.Get(m.field(name)).Bytes() }
func (m message) integer(name string) int64 { return m.Get(m.field(name)).Int() }
func (m message) number(name string) uint32 { return uint32(m.Get(m.field(name)).Uint()) }

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: peer server|client DESCRIPTORS SOCKET [SERVER-PID]")
		os.Exit(64)
	}
	if err := load(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	if os.Args[1] == "server" {
		serve(os.Args[3])
	} else {
		ask(os.Args[3], os.Args[4])
	}
}

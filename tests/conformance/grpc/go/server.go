// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bytes of a message; grpc-peer-client knows it.
const receiveMax = 4100000

type peer struct{ running, cancelled int32 }

// Takes part of a call away: it is over.
func (p *peer) over(cancelled bool) {
	atomic.AddInt32(&p.running, -1)
	if cancelled {
		atomic.AddInt32(&p.cancelled, 1)
	}
}

func (p *peer) unary(method string, ctx context.Context, in message) (message, error) {
	out := reply(method)
	switch method {
	case "Say", "Echo":
		return in, nil
	case "Fail":
		return out, status.Error(codes.Code(in.number("code")), in.text("message"))
	case "Slow":
		atomic.AddInt32(&p.running, 1)
		select {
		case <-ctx.Done():
			p.over(true)
		case <-time.After(time.Duration(in.number("milliseconds")) * time.Millisecond):
			p.over(false)
		}
		return out.set("text", "at last"), nil
	}
	return out.set("running", uint32(atomic.LoadInt32(&p.running))).
		set("cancelled", uint32(atomic.LoadInt32(&p.cancelled))), nil
}

func (p *peer) count(stream grpc.ServerStream) error {
	in := request("Count")
	if err := stream.RecvMsg(in.Message); err != nil {
		return err
	}
	atomic.AddInt32(&p.running, 1)
	out := reply("Count").set("data", make([]byte, in.number("size")))
	for i := uint32(0); i < in.number("count"); i++ {
		if err := stream.SendMsg(out.set("index", i).Message); err != nil {
			p.over(true)
			return err
		}
	}
	p.over(false)
	return nil
}

func (p *peer) failLate(stream grpc.ServerStream) error {
	in := request("FailLate")
	if err := stream.RecvMsg(in.Message); err != nil {
		return err
	}
	for i := uint32(0); i < in.number("after"); i++ {
		if err := stream.SendMsg(reply("FailLate").set("text", "before").Message); err != nil {
			return err
		}
	}
	return status.Error(codes.Code(in.number("code")), in.text("message"))
}

func (p *peer) sum(stream grpc.ServerStream) error {
	sum := int64(0)
	for {
		in := request("Sum")
		err := stream.RecvMsg(in.Message)
		if errors.Is(err, io.EOF) {
			return stream.SendMsg(reply("Sum").set("value", sum).Message)
		}
		if err != nil {
			return err
		}
		sum += in.integer("value")
	}
}

func (p *peer) chat(stream grpc.ServerStream) error {
	for {
		in := request("Chat")
		err := stream.RecvMsg(in.Message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = stream.SendMsg(in.Message)
		}
		if err != nil {
			return err
		}
	}
}

func (p *peer) description() *grpc.ServiceDesc {
	out := &grpc.ServiceDesc{ServiceName: service, HandlerType: (*interface{})(nil)}
	streams := map[string]func(grpc.ServerStream) error{
		"Count": p.count, "Sum": p.sum, "Chat": p.chat, "FailLate": p.failLate}
	for i := 0; i < methods.Len(); i++ {
		method := methods.Get(i)
		name := string(method.Name())
		if handler, found := streams[name]; found {
			out.Streams = append(out.Streams, grpc.StreamDesc{StreamName: name,
				ServerStreams: method.IsStreamingServer(), ClientStreams: method.IsStreamingClient(),
				Handler: func(_ interface{}, stream grpc.ServerStream) error { return handler(stream) }})
			continue
		}
		out.Methods = append(out.Methods, grpc.MethodDesc{MethodName: name,
			Handler: func(_ interface{}, ctx context.Context, decode func(interface{}) error,
				_ grpc.UnaryServerInterceptor) (interface{}, error) {
				in := request(name)
				if err := decode(in.Message); err != nil {
					return nil, err
				}
				answer, err := p.unary(name, ctx, in)
				return answer.Message, err
			}})
	}
	return out
}

func serve(path string) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(receiveMax))
	server.RegisterService((&peer{}).description(), nil)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		server.GracefulStop()
	}()
	fmt.Println("ready")
	if err := server.Serve(listener); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

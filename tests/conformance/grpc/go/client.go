// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	text       = "Grüße, 世界 😀"
	statusText = "100 % falsch: größer\n末\tEnde "
	wait       = 20 * time.Second // for anything
)

type client struct {
	connection *grpc.ClientConn
	path       string
	server     int
}

func dial(path string, options ...grpc.DialOption) *grpc.ClientConn {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	connection, err := grpc.NewClient("unix:"+path, options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	return connection
}

func until(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	_ = cancel // when it is over
	return ctx
}

func (c *client) call(ctx context.Context, method string, in message, options ...grpc.CallOption) (message, error) {
	out := reply(method)
	return out, c.connection.Invoke(ctx, "/"+service+"/"+method, in.Message, out.Message, options...)
}

func (c *client) stream(ctx context.Context, method string) (grpc.ClientStream, error) {
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	return c.connection.NewStream(ctx, description, "/"+service+"/"+method)
}

// A stream of replies to one message.
func (c *client) ask(ctx context.Context, method string, in message) (grpc.ClientStream, error) {
	stream, err := c.stream(ctx, method)
	if err == nil {
		err = stream.SendMsg(in.Message)
	}
	if err == nil {
		err = stream.CloseSend()
	}
	return stream, err
}

func (c *client) say(said string, options ...grpc.CallOption) error {
	out, err := c.call(until(wait), "Say", request("Say").set("text", said), options...)
	if err == nil && out.text("text") != said {
		return fmt.Errorf("said %q, heard %q", said, out.text("text"))
	}
	return err
}

func (c *client) facts() (uint32, uint32, error) {
	out, err := c.call(until(wait), "Facts", request("Facts"))
	return out.number("running"), out.number("cancelled"), err
}

func (c *client) expectFacts(running, cancelled uint32) error {
	for begin := time.Now(); ; {
		r, d, err := c.facts()
		if err != nil || (r == running && d == cancelled) {
			return err
		}
		if time.Since(begin) > wait {
			return fmt.Errorf("%d calls run at the server and %d were cancelled, instead of %d and %d",
				r, d, running, cancelled)
		}
	}
}

func expectStatus(wanted codes.Code, err error) error {
	if status.Code(err) != wanted {
		return fmt.Errorf("%v (%v) instead of %v", status.Code(err), err, wanted)
	}
	return nil
}

func count(n, size uint32) message {
	return request("Count").set("count", n).set("size", size)
}

func (c *client) expectCount(n, size uint32, between func() error) error {
	stream, err := c.ask(until(wait), "Count", count(n, size))
	if err != nil {
		return err
	}
	for i := uint32(0); ; i++ {
		out := reply("Count")
		err := stream.RecvMsg(out.Message)
		if errors.Is(err, io.EOF) && i == n {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d messages: %w", i, err)
		}
		if out.number("index") != i || len(out.bytes("data")) != int(size) {
			return fmt.Errorf("message %d: index %d, %d bytes", i, out.number("index"), len(out.bytes("data")))
		}
		if err := between(); err != nil {
			return err
		}
	}
}

func nothing() error { return nil }

// Bytes that are no message.
type garbage struct{}

func (garbage) Marshal(v interface{}) ([]byte, error) {
	if data, is := v.([]byte); is {
		return data, nil
	}
	return nil, errors.New("not bytes")
}
func (garbage) Unmarshal([]byte, interface{}) error { return nil }
func (garbage) Name() string                        { return "proto" }

type testCase struct {
	name string
	run  func(c *client) error
}

var cases = []testCase{
	{"unary", func(c *client) error { return c.say(text) }},
	{"empty message", func(c *client) error { return c.say("") }},
	{"many calls", func(c *client) error {
		for i := 0; i < 1000; i++ {
			if err := c.say("again"); err != nil {
				return err
			}
		}
		return nil
	}},
	{"parallel calls", func(c *client) error {
		return parallel(300, func(i int) error { return c.say(strconv.Itoa(i)) })
	}},
	{"several connections", func(c *client) error {
		return parallel(20, func(int) error {
			other := &client{connection: dial(c.path)}
			defer other.connection.Close()
			for i := 0; i < 20; i++ {
				if err := other.say("one of many"); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"stream", func(c *client) error { return c.expectCount(1000, 100, nothing) }},
	{"empty stream", func(c *client) error { return c.expectCount(0, 0, nothing) }},
	{"slow reader", func(c *client) error {
		return c.expectCount(120, 100000, func() error { return c.say("meanwhile") })
	}},
	{"client stream", func(c *client) error { return c.expectSum(2500) }},
	{"empty client stream", func(c *client) error { return c.expectSum(0) }},
	{"both stream", caseBothStream},
	{"every status", func(c *client) error {
		for code := uint32(1); code <= 16; code++ {
			_, err := c.call(until(wait), "Fail", request("Fail").set("code", code).set("message", statusText))
			if err := expectStatus(codes.Code(code), err); err != nil {
				return err
			}
			if found := status.Convert(err).Message(); found != statusText {
				return fmt.Errorf("status %d came with %q", code, found)
			}
		}
		return nil
	}},
	{"status after messages", func(c *client) error {
		in := request("FailLate").set("code", uint32(9)).set("message", text).set("after", uint32(3))
		stream, err := c.ask(until(wait), "FailLate", in)
		got := 0
		for ; err == nil; got++ {
			err = stream.RecvMsg(reply("FailLate").Message)
		}
		if got != 4 || status.Convert(err).Message() != text {
			return fmt.Errorf("%d messages, then %v", got-1, err)
		}
		return expectStatus(codes.FailedPrecondition, err)
	}},
	{"deadline", func(c *client) error {
		running, cancelled, err := c.facts()
		if err != nil {
			return err
		}
		begin := time.Now()
		_, err = c.call(until(200*time.Millisecond), "Slow", request("Slow").set("milliseconds", uint32(60000)))
		if took := time.Since(begin); took < 150*time.Millisecond || took > 10*time.Second {
			return fmt.Errorf("the deadline of 200 ms came after %v", took)
		}
		if err := expectStatus(codes.DeadlineExceeded, err); err != nil {
			return err
		}
		return c.expectFacts(running, cancelled+1)
	}},
	{"cancel", func(c *client) error {
		return c.expectCancelled(func(ctx context.Context) error {
			_, err := c.call(ctx, "Slow", request("Slow").set("milliseconds", uint32(60000)))
			return err
		})
	}},
	{"cancel a stream", func(c *client) error {
		return c.expectCancelled(func(ctx context.Context) error {
			stream, err := c.ask(ctx, "Count", count(100000000, 1000))
			for i := 0; i < 10 && err == nil; i++ {
				err = stream.RecvMsg(reply("Count").Message)
			}
			<-ctx.Done()
			return ctx.Err()
		})
	}},
	{"large message", func(c *client) error {
		data := bytes.Repeat([]byte("0123456789"), 400000)
		out, err := c.call(until(wait), "Echo", request("Echo").set("data", data))
		if err == nil && !bytes.Equal(out.bytes("data"), data) {
			return errors.New("other bytes came back")
		}
		return err
	}},
	{"message over the cap", func(c *client) error {
		for _, size := range []int{4 << 20, 8 << 20} {
			_, err := c.call(until(wait), "Echo", request("Echo").set("data", make([]byte, size)))
			if err := expectStatus(codes.ResourceExhausted, err); err != nil {
				return err
			}
		}
		return c.say("afterwards")
	}},
	{"unknown method", func(c *client) error {
		for _, path := range []string{"/peer.v1.Peer/Missing", "/peer.v1.Missing/Say", "/missing"} {
			err := c.connection.Invoke(until(wait), path, request("Say").Message, reply("Say").Message)
			if err := expectStatus(codes.Unimplemented, err); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return c.say("afterwards")
	}},
	{"compressed request", func(c *client) error {
		err := c.say(strings.Repeat("x", 10000), grpc.UseCompressor(gzip.Name))
		if err := expectStatus(codes.Unimplemented, err); err != nil {
			return err
		}
		return c.say("afterwards")
	}},
	{"garbage", func(c *client) error {
		for _, data := range []string{"\xff\xff\xff", "\x0a\x05abc", "\x0a\x02\xc0\x80", "\x0a\x01\x00", "\x08\x01"} {
			err := c.connection.Invoke(until(wait), "/"+service+"/Say", []byte(data), nil, grpc.ForceCodec(garbage{}))
			if err := expectStatus(codes.Internal, err); err != nil {
				return fmt.Errorf("%q: %w", data, err)
			}
		}
		return c.say("afterwards")
	}},
	{"authority is the socket path", func(c *client) error {
		other := &client{connection: dial(c.path, grpc.WithAuthority(c.path))}
		defer other.connection.Close()
		return other.say(text)
	}},
	{"headers", func(c *client) error {
		ctx := metadata.AppendToOutgoingContext(until(wait), "x-name", "value", "x-bytes-bin", "\x00\xff\x80")
		_, err := c.call(ctx, "Say", request("Say"))
		return err
	}},
	{"headers over the cap", func(c *client) error {
		ctx := metadata.AppendToOutgoingContext(until(wait), "x-large", strings.Repeat("v", 60000))
		if _, err := c.call(ctx, "Say", request("Say")); err == nil {
			return errors.New("60 kB of headers were taken")
		}
		return c.say("afterwards")
	}},
	{"shutdown", caseShutdown},
}

func parallel(n int, do func(i int) error) error {
	var all sync.WaitGroup
	problems := make(chan error, n)
	for i := 0; i < n; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			problems <- do(i)
		}(i)
	}
	all.Wait()
	close(problems)
	for problem := range problems {
		if problem != nil {
			return problem
		}
	}
	return nil
}

func (c *client) expectSum(n int64) error {
	stream, err := c.stream(until(wait), "Sum")
	if err != nil {
		return err
	}
	for i := int64(1); i <= n; i++ {
		if err := stream.SendMsg(request("Sum").set("value", i-500).Message); err != nil {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	out := reply("Sum")
	err = stream.RecvMsg(out.Message)
	if wanted := n*(n+1)/2 - 500*n; err == nil && out.integer("value") != wanted {
		return fmt.Errorf("sum %d instead of %d", out.integer("value"), wanted)
	}
	return err
}

// Each text is sent only after the answer to the one before.
func caseBothStream(c *client) error {
	stream, err := c.stream(until(wait), "Chat")
	for i := 0; i < 100 && err == nil; i++ {
		said := fmt.Sprintf("%d %s", i, text)
		if err = stream.SendMsg(request("Chat").set("text", said).Message); err != nil {
			break
		}
		out := reply("Chat")
		if err = stream.RecvMsg(out.Message); err == nil && out.text("text") != said {
			err = fmt.Errorf("said %q, heard %q", said, out.text("text"))
		}
	}
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(reply("Chat").Message); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream did not end: %w", err)
	}
	return nil
}

// Cancels the call as soon as it runs at the server.
func (c *client) expectCancelled(call func(ctx context.Context) error) error {
	running, cancelled, err := c.facts()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- call(ctx) }()
	if err := c.expectFacts(running+1, cancelled); err != nil {
		return err
	}
	cancel()
	if err := <-ended; err == nil {
		return errors.New("no error though the call was cancelled")
	}
	return c.expectFacts(running, cancelled+1)
}

// The last one: a running call is finished, a later one is not taken.
func caseShutdown(c *client) error {
	running, cancelled, err := c.facts()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		out, err := c.call(until(wait), "Slow", request("Slow").set("milliseconds", uint32(1000)))
		if err == nil && out.text("text") != "at last" {
			err = fmt.Errorf("the reply was %q", out.text("text"))
		}
		ended <- err
	}()
	if err := c.expectFacts(running+1, cancelled); err != nil {
		return err
	}
	if err := syscall.Kill(c.server, syscall.SIGTERM); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("the running call: %w", err)
	}
	for begin := time.Now(); ; {
		if err := c.say("later"); err != nil {
			return expectStatus(codes.Unavailable, err)
		}
		if time.Since(begin) > wait {
			return errors.New("calls are still answered")
		}
	}
}

func ask(path, pid string) {
	server, err := strconv.Atoi(pid)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(64)
	}
	c := &client{connection: dial(path), path: path, server: server}
	for _, one := range cases {
		if err := one.run(c); err != nil {
			fmt.Printf("FAIL %s: %s\n", one.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Printf("ok %s\n", one.name)
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubelet that does anything: calls with any content, broken frames, connections that end, while
 * the devices change. The input is a list of steps: what (a byte), length (two bytes), content.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/loop.h"
#include "doors/kubelet/plugin.h"
#include "doors/kubelet/resource.h"
#include "tests/fuzz/devices.h"
#include "units/allocator.h"

enum {
	FUZZ_STEPS = 64,
	FUZZ_BODY_MAX = 4096,
	FUZZ_METHODS = 5,
	FUZZ_PASSES = 1000,
	FUZZ_OUTPUT_MAX = 8 << 20,
};

enum fuzz_step {
	FUZZ_CALL = FUZZ_METHODS, /* below: one of the methods, the request being whole */
	FUZZ_FRAME,		  /* type, flags, stream, content */
	FUZZ_BYTES,
	FUZZ_UPDATE,
	FUZZ_FLUSH,
	FUZZ_WAIT,
	FUZZ_HANG_UP,
	FUZZ_CONNECT,
	FUZZ_READ,
	FUZZ_KINDS,
};

struct fuzz {
	struct loop *loop;
	struct allocator *allocator;
	struct plugin *plugin;
	struct sockaddr_un address;
	int fd; /* -1: not connected */
	int32_t stream;
	struct buf out;
	const uint8_t *at, *end;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add(struct fuzz *fuzz, const void *data, size_t length)
{
	if (buf_add(&fuzz->out, data, length) < 0)
		abort();
}

static void add_frame(struct fuzz *fuzz, uint8_t type, uint8_t flags, int32_t stream,
		      const void *data, size_t length)
{
	const uint8_t head[] = {(uint8_t)(length >> 16),
				(uint8_t)(length >> 8),
				(uint8_t)length,
				type,
				flags,
				(uint8_t)(stream >> 24),
				(uint8_t)(stream >> 16),
				(uint8_t)(stream >> 8),
				(uint8_t)stream};
	add(fuzz, head, sizeof(head));
	add(fuzz, data, length);
}

static void add_field(struct buf *block, const char *name, const char *value)
{
	const uint8_t lengths[2] = {(uint8_t)strlen(name), (uint8_t)strlen(value)};
	if (buf_add(block, "", 1) < 0 || buf_add(block, &lengths[0], 1) < 0 ||
	    buf_add_text(block, name) < 0 || buf_add(block, &lengths[1], 1) < 0 ||
	    buf_add_text(block, value) < 0)
		abort();
}

static void add_call(struct fuzz *fuzz, const char *path)
{
	_cleanup_buf_ struct buf block;
	buf_init(&block, 1000);
	add_field(&block, ":method", "POST");
	add_field(&block, ":path", path);
	add_field(&block, "content-type", "application/grpc");
	fuzz->stream += 2;
	add_frame(fuzz, 1, 4, fuzz->stream, block.data, block.length);
}

static void add_request(struct fuzz *fuzz, unsigned method, const uint8_t *body, size_t length)
{
	static const char *const methods[FUZZ_METHODS] = {
	    "/v1beta1.DevicePlugin/Allocate",
	    "/v1beta1.DevicePlugin/GetPreferredAllocation",
	    "/v1beta1.DevicePlugin/ListAndWatch",
	    "/v1beta1.DevicePlugin/GetDevicePluginOptions",
	    "/v1beta1.DevicePlugin/PreStartContainer",
	};
	uint8_t frame[5 + FUZZ_BODY_MAX] = {0, 0, 0, (uint8_t)(length >> 8), (uint8_t)length};
	memcpy(frame + 5, body, length);
	add_call(fuzz, methods[method]);
	add_frame(fuzz, 0, 1, fuzz->stream, frame, 5 + length);
}

static void disconnect(struct fuzz *fuzz)
{
	if (fuzz->fd >= 0)
		(void)close(fuzz->fd);
	fuzz->fd = -1;
	buf_clear(&fuzz->out);
}

static void reconnect(struct fuzz *fuzz)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	disconnect(fuzz);
	fuzz->stream = -1;
	fuzz->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fuzz->fd < 0 ||
	    connect(fuzz->fd, (const struct sockaddr *)&fuzz->address, sizeof(fuzz->address)) < 0)
		abort();
	add(fuzz, preface, sizeof(preface));
}

static void pass(struct fuzz *fuzz)
{
	if (fuzz->fd >= 0 && fuzz->out.length > 0) {
		ssize_t sent = send(fuzz->fd, fuzz->out.data, fuzz->out.length, MSG_NOSIGNAL);
		if (sent > 0)
			buf_consume(&fuzz->out, (size_t)sent);
		else if (errno != EAGAIN)
			disconnect(fuzz);
	}
	if (loop_pass(fuzz->loop, 0, NULL) < 0)
		abort();
}

static void read_all(struct fuzz *fuzz)
{
	uint8_t data[4096];
	for (unsigned i = 0; fuzz->fd >= 0 && i < FUZZ_PASSES; i++) {
		pass(fuzz);
		if (fuzz->fd >= 0 && recv(fuzz->fd, data, sizeof(data), 0) <= 0)
			return;
	}
}

static void do_step(struct fuzz *fuzz, unsigned what, const uint8_t *body, size_t length)
{
	uint8_t first = length > 0 ? body[0] : 0, second = length > 1 ? body[1] : 0;
	switch (what) {
	case FUZZ_CALL:
		add_call(fuzz, "/v1beta1.DevicePlugin/Allocate");
		return;
	case FUZZ_FRAME:
		if (length >= 3)
			add_frame(fuzz, body[0] % 10, body[1], body[2] % 8, body + 3, length - 3);
		return;
	case FUZZ_BYTES:
		add(fuzz, body, length);
		return;
	case FUZZ_UPDATE:
		plugin_update(fuzz->plugin, devices_make(first, second),
			      second & 16 ? NULL : fuzz->allocator);
		return;
	case FUZZ_FLUSH:
		plugin_flush(fuzz->plugin);
		return;
	case FUZZ_WAIT:
		if (loop_advance(fuzz->loop, first & 1 ? PLUGIN_COALESCE_NS : 2 * PLUGIN_CLOSE_NS,
				 NULL) < 0)
			abort();
		return;
	case FUZZ_HANG_UP:
		plugin_hang_up(fuzz->plugin, NULL, NULL);
		return;
	case FUZZ_CONNECT:
		reconnect(fuzz);
		return;
	case FUZZ_READ:
		read_all(fuzz);
		return;
	default:
		add_request(fuzz, what, body, length);
	}
}

static void run(struct fuzz *fuzz)
{
	struct plugin_counts counts;
	reconnect(fuzz);
	for (unsigned i = 0; i < FUZZ_STEPS && fuzz->end - fuzz->at >= 3; i++) {
		unsigned what = fuzz->at[0] % FUZZ_KINDS;
		size_t length = (size_t)fuzz->at[1] << 8 | fuzz->at[2];
		fuzz->at += 3;
		if (length > (size_t)(fuzz->end - fuzz->at))
			length = (size_t)(fuzz->end - fuzz->at);
		if (length > FUZZ_BODY_MAX)
			length = FUZZ_BODY_MAX;
		do_step(fuzz, what, fuzz->at, length);
		fuzz->at += length;
		pass(fuzz);
		plugin_count(fuzz->plugin, &counts);
		if (counts.streams > PLUGIN_STREAMS_MAX || counts.output_bytes > FUZZ_OUTPUT_MAX)
			abort();
	}
	/* Nothing is left of who went away. */
	disconnect(fuzz);
	for (unsigned i = 0; i < FUZZ_PASSES; i++) {
		plugin_count(fuzz->plugin, &counts);
		if (counts.connections == 0)
			break;
		pass(fuzz);
	}
	if (counts.connections > 0 || counts.streams > 0 || plugin_is_attached(fuzz->plugin))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	char directory[] = "/tmp/sluice-plugin-fuzz-XXXXXX";
	struct fuzz fuzz = {.address.sun_family = AF_UNIX, .fd = -1};
	bool taken_over;
	if (!mkdtemp(directory))
		abort();
	(void)snprintf(fuzz.address.sun_path, sizeof(fuzz.address.sun_path), "%s/nvidia-gpu.sock",
		       directory);
	fuzz.loop = loop_new(LOOP_FAKE, NULL);
	fuzz.allocator = devices_allocator();
	fuzz.at = data + 1;
	fuzz.end = data + size;
	buf_init(&fuzz.out, FUZZ_OUTPUT_MAX);
	const struct plugin_options options = {
	    .loop = fuzz.loop, .directory = directory, .resource = "nvidia.com/gpu"};
	if (!fuzz.loop || plugin_open(&options, devices_make(data[0], 0), fuzz.allocator,
				      &fuzz.plugin, &taken_over, NULL) < 0)
		abort();
	run(&fuzz);
	(void)plugin_close(fuzz.plugin);
	(void)loop_free(fuzz.loop);
	(void)allocator_free(fuzz.allocator);
	buf_done(&fuzz.out);
	if (rmdir(directory) < 0)
		abort();
	return 0;
}

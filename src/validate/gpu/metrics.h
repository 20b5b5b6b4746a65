/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the exporter of a running service tells the truth about a GPU: brings the GPU to levels
 * that are known, and compares what the exporter says meanwhile. Memory in use by taking and giving
 * back a known amount; utilisation by a kernel that runs all the time. Knows nothing of the service
 * but its address and the names of its metrics.
 */
#ifndef SLUICE_VALIDATE_GPU_METRICS_H
#define SLUICE_VALIDATE_GPU_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct checks_sink;
struct driver;
struct driver_device;
struct err;

#define METRICS_ADDRESS "127.0.0.1:9400"
enum metrics_text_limits { METRICS_TEXT_MAX = 16 << 20, METRICS_NUMBER_MAX = 64 };

/* The value of the series `name` of that GPU in a Prometheus exposition. False: there is none, or
 * it is no decimal number. Pure; takes anything. */
bool metrics_find(const char *text, size_t length, const char *name, const char *uuid, double *out);
/* What it answers to GET /metrics, without the head. -ECONNREFUSED and the like: nobody is there;
 * -EPROTO: it answers otherwise than with 200; -ETIMEDOUT; -EINVAL: the address. */
int metrics_fetch(const char *address, uint64_t timeout_ns, struct buf *out, struct err *err);

/* The check "metrics" of this GPU. */
void metrics_check(const struct driver *driver, const struct driver_device *device,
		   const char *address, uint64_t place, const struct checks_sink *sink);

#endif

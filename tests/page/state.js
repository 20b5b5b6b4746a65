/* SPDX-License-Identifier: Apache-2.0 */
/* A state as /api/v1/state has it, with whatever names and sizes a case wants. */
"use strict";

const GIB = 2 ** 30;
const XID_ADVICE = "Take the machine out of use and reset or replace the GPU.";

function unixNow() {
  return Math.floor(Date.now() / 1000);
}

function values(index, step) {
  const load = (index * 13 + step * 7) % 100;
  return {
    utilization_gpu_percent: load, utilization_memory_percent: Math.floor(load / 2),
    memory_total_bytes: 40 * GIB, memory_used_bytes: Math.floor(load / 100 * 40 * GIB),
    temperature_celsius: 30 + Math.floor(load / 2), temperature_memory_celsius: 40 + Math.floor(load / 2),
    power_mw: 60000 + load * 3400, power_limit_mw: 400000, clock_sm_mhz: 1410, clock_memory_mhz: 1215,
  };
}

function makeGpu(index) {
  return {
    index, uuid: "GPU-51ce51ce-0000-0000-0000-" + String(index).padStart(12, "0"), name: "NVIDIA A100-SXM4-40GB",
    health: "healthy", state: "ok", reasons: [], throttle: index % 3 === 1 ? ["sw_power_cap"] : ["idle"], values: values(index, 0), mig: [],
  };
}

/* `options`: gpus, holders, name(i), mig. */
function makeState(options) {
  const now = unixNow(), name = options.name || ((i) => "trainer-" + i);
  const gpus = Array.from({ length: options.gpus }, (_, i) => makeGpu(i));
  if (options.mig) {
    gpus[0].mig = [0, 1, 2].map((i) => ({ uuid: "MIG-51ce51ce-" + i, profile: "1g.5gb", gi: 7 + i, ci: 0,
      memory_total_bytes: 5 * GIB, memory_used_bytes: GIB, activity: { gr_engine: 0.4 } }));
  }
  if (options.sick) {
    gpus[1].health = "unhealthy";
    gpus[1].reasons = [{ cause: "xid", health: "unhealthy", xid: 48, text: name(1), advice: name(2) }];
    gpus[2].health = "degraded";
    gpus[2].reasons = [{ cause: "remap", health: "degraded", text: "Rows wait to be remapped.", advice: "Reset the GPU when it is idle." }];
    gpus[3].values = {}; /* lost: nothing is known */
    gpus[3].health = "unknown";
    gpus[3].state = "lost";
  }
  return {
    schema: 1, sequence: 1, time_unix: now, age_seconds: 0.4, stale: false, simulated: true,
    node: { host: options.host || "node-a", version: "0.1.0", driver: "535.230.02", nvml: "12.535.230.02", cuda: "12.2", ready: true,
      has_queue: true, has_kubelet: true, started_unix: now - 12000, uptime_seconds: 12000, boot_unix: now - 400000,
      ...(options.problem ? { problem: options.problem } : {}) },
    gpus,
    holders: Array.from({ length: options.holders }, (_, i) => (i % 2 ? {
      gpu: i % options.gpus, mode: "exclusive", allocated: i % 3 > 0, job: i, job_name: name(i), user: name(i + 1), since_unix: now - 60 * i,
      processes: 1, busy_ratio: 0.4, busy_seconds: 30, memory_bytes: GIB,
    } : {
      gpu: i % options.gpus, mode: "timeslice", slot: i, allocated: true, namespace: "research", pod: name(i), container: name(i + 2),
      resource: "nvidia.com/gpu", processes: 2,
    })),
    jobs: Array.from({ length: 3 }, (_, i) => ({ id: 17 + i, name: name(i), user: name(i + 3), state: i ? "pending" : "running",
      reason: name(i + 4), submitted_unix: now - 100, gpus: 2 })),
    jobs_pending: 2, jobs_running: 1, jobs_ended: 40,
    events: [{ id: 1, time_unix: now - 200, kind: "health", source: "poll", health: "degraded", uuid: gpus.length ? gpus[0].uuid : "", text: name(5), advice: name(6) }],
    adapters: [{ name: name(7), port: 1, net: name(8), resource: "rdma/hca", layer: "InfiniBand", state: "active", health: "healthy", rate_bits: 2e11, reason: "" }],
    resources: [{ name: "nvidia.com/gpu", units: 8, healthy: 8, allocated: 3, allocations: 12, refused: 0, registered: true }],
  };
}

function xidEvent(state, gpu) {
  return { id: state.events.length + 1, time_unix: unixNow(), kind: "xid", source: "nvml", health: "unhealthy", xid: 79, uuid: state.gpus[gpu].uuid,
    text: "The GPU has fallen off the bus.", advice: XID_ADVICE };
}

/* 1,000 names that would do something if they were taken for markup, or for anything but text. */
function hostileName(i) {
  const forms = [
    "<script>document.title='taken'</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "'--><b>", "&lt;b&gt;&amp;",
    "\u202etxt.exe\u202c", "\u2067\u05d0\u05d1\u05d2 abc", "\u{1f600}\u{1f468}\u200d\u{1f469}\u200d\u{1f467}", "x".repeat(253), "\ufffd\ufffd invalid",
    "javascript:alert(1)", "{{7*7}}${7*7}", "</title></style></bdi><h1>", "a\tb\u0007c", "__proto__", "constructor", "Z\u0351\u0329\u0333algo", "null",
  ];
  return (forms[i % forms.length] + i).slice(-253);
}

module.exports = { makeState, values, xidEvent, hostileName, unixNow, XID_ADVICE };

# SPDX-License-Identifier: Apache-2.0
"""Waits for events through nvidia-ml-py: read_events.py COUNT TIMEOUT_MS. A line {"ready": true}
when it listens, then a line of JSON per event, as `gonvml events` prints them."""

import json
import sys

import pynvml as nvml


def main():
    count, timeout_ms = int(sys.argv[1]), int(sys.argv[2])
    nvml.nvmlInit()
    events = nvml.nvmlEventSetCreate()
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            types = nvml.nvmlDeviceGetSupportedEventTypes(handle)
        except nvml.NVMLError:
            continue  # a lost GPU has no events to wait for
        nvml.nvmlDeviceRegisterEvents(handle, types, events)
    print(json.dumps({"ready": True}), flush=True)
    for _ in range(count):
        event = nvml.nvmlEventSetWait(events, timeout_ms)
        uuid = nvml.nvmlDeviceGetUUID(event.device)
        uuid = uuid.decode() if isinstance(uuid, bytes) else uuid
        print(json.dumps({"uuid": uuid, "type": event.eventType, "data": event.eventData,
                          "gi": event.gpuInstanceId, "ci": event.computeInstanceId}), flush=True)
    nvml.nvmlEventSetFree(events)
    nvml.nvmlShutdown()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A program that looks at a machine through NVML only: one JSON request a line, one answer a line.

    {"do": "init"}                      -> {"code": 0}
    {"do": "read", "gpu": 0}            -> readings; those that failed have their code in "codes"
    {"do": "fields", "gpu": 0, "ids": []} -> {"230": 1, ...}; null where NVML gives none
    {"do": "events", "timeout_ms": 0}   -> events since the last question
    {"do": "call", "name": "nvmlInit_v2"} -> {"code": 0}: a function without arguments
"""

import ctypes
import json
import struct
import sys

FIELD = struct.Struct("=IIqqIi8s")
FORMATS = {0: "=d", 1: "=I4x", 2: "=Q", 3: "=Q", 4: "=q", 5: "=i4x", 6: "=H6x"}
TYPES = 0x1 | 0x2 | 0x8 | 0x100 | 0x200 | 0x400 | 0x800 | 0x4000 | 0x8000


class Observer:
    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.events = ctypes.c_void_p()
        self.handles = {}

    def init(self, _):
        code = self.nvml.nvmlInit_v2()
        count = ctypes.c_uint()
        if code != 0:
            return {"code": code}
        self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        self.nvml.nvmlEventSetCreate(ctypes.byref(self.events))
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                self.handles[index] = handle
                supported = ctypes.c_ulonglong()
                self.nvml.nvmlDeviceGetSupportedEventTypes(handle, ctypes.byref(supported))
                self.nvml.nvmlDeviceRegisterEvents(
                    handle, ctypes.c_ulonglong(TYPES & supported.value), self.events)
        return {"code": 0, "count": count.value}

    def shutdown(self, _):
        self.nvml.nvmlEventSetFree(self.events)
        self.handles = {}
        return {"code": self.nvml.nvmlShutdown()}

    def call(self, request):
        return {"code": getattr(self.nvml, request["name"])()}

    def read(self, request):
        handle, answer, codes = self.handles[request["gpu"]], {}, {}

        def number(name, function, *before, kind=ctypes.c_uint):
            value = kind()
            code = getattr(self.nvml, function)(handle, *before, ctypes.byref(value))
            codes[name] = code
            if code == 0:
                answer[name] = value.value

        def pair(name, function):
            values = ctypes.c_uint(), ctypes.c_uint()
            code = getattr(self.nvml, function)(handle, *map(ctypes.byref, values))
            codes[name] = code
            if code == 0:
                answer[name] = [value.value for value in values]

        number("power_mw", "nvmlDeviceGetPowerUsage")
        number("temperature_c", "nvmlDeviceGetTemperature", 0)
        number("sm_mhz", "nvmlDeviceGetClockInfo", 1)
        number("reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        number("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration")
        number("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth")
        number("energy_mj", "nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong)
        pair("ecc_mode", "nvmlDeviceGetEccMode")
        pair("mig_mode", "nvmlDeviceGetMigMode")
        answer["links"] = []
        for link in range(18):
            state = ctypes.c_uint()
            if self.nvml.nvmlDeviceGetNvLinkState(handle, link, ctypes.byref(state)) == 0:
                answer["links"].append(state.value)
        remapped = [ctypes.c_uint() for _ in range(4)]
        codes["remapped"] = self.nvml.nvmlDeviceGetRemappedRows(
            handle, *map(ctypes.byref, remapped))
        answer["remapped"] = [value.value for value in remapped]
        answer["codes"] = codes
        return answer

    def fields(self, request):
        ids = request["ids"]
        values = ctypes.create_string_buffer(FIELD.size * len(ids))
        for i, field in enumerate(ids):
            FIELD.pack_into(values, i * FIELD.size, field, 0xFFFFFFFF if field in (138, 139) else 0,
                            0, 0, 0, 0, b"")
        self.nvml.nvmlDeviceGetFieldValues(self.handles[request["gpu"]], len(ids), values)
        answer = {}
        for i, field in enumerate(ids):
            _, _, _, _, kind, code, raw = FIELD.unpack_from(values, i * FIELD.size)
            answer[str(field)] = struct.unpack(FORMATS[kind], raw)[0] if code == 0 else None
        return answer

    def events_(self, request):
        found, data = [], ctypes.create_string_buffer(32)
        names = {handle.value: index for index, handle in self.handles.items()}
        while self.nvml.nvmlEventSetWait_v2(self.events, data, request.get("timeout_ms", 0)) == 0:
            device, kind, value, gi, ci = struct.unpack("=QQQII", data.raw)
            found.append({"gpu": names.get(device), "type": kind, "data": value, "gi": gi, "ci": ci})
        return found


def main():
    observer = Observer()
    for line in sys.stdin:
        request = json.loads(line)
        name = request["do"]
        print(json.dumps(getattr(observer, "events_" if name == "events" else name)(request)),
              flush=True)


main()

/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/xid.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/names.h"

struct xid_range {
	uint16_t first, last;
	uint8_t class_; /* enum xid_class */
};

/* Ordered. 43 (catalog: ignore) and 45 (own workflow) are app; 48, 74 and 144-150 (own workflows)
 * are reset; 159 ("check UVM") is info; codes from 162 on have no bucket in that version of the
 * catalog, so their classes are guesses. 109: the catalog says reset, NVIDIA's device plugin says
 * app; the recovery action decides, and without it app. */
static const struct xid_range ranges[] = {
    {8, 8, XID_APP},	     {11, 11, XID_APP},	    {13, 13, XID_APP},
    {14, 14, XID_INFO},	     {25, 25, XID_APP},	    {31, 32, XID_APP},
    {37, 38, XID_INFO},	     {39, 41, XID_APP},	    {43, 43, XID_APP},
    {44, 44, XID_INFO},	     {45, 45, XID_APP},	    {46, 46, XID_RESET},
    {48, 48, XID_RESET},     {54, 54, XID_INSPECT}, {60, 60, XID_APP},
    {62, 62, XID_RESET},     {63, 63, XID_INFO},    {64, 64, XID_RESET},
    {66, 67, XID_INFO},	     {68, 72, XID_APP},	    {74, 74, XID_RESET},
    {75, 77, XID_APP},	     {78, 78, XID_INSPECT}, {79, 79, XID_REBOOT},
    {80, 80, XID_APP},	     {82, 86, XID_APP},	    {88, 89, XID_APP},
    {92, 93, XID_INFO},	     {94, 94, XID_APP},	    {95, 95, XID_RESET},
    {96, 105, XID_APP},	     {106, 108, XID_INFO},  {109, 109, XID_APP},
    {110, 110, XID_RESET},   {119, 120, XID_RESET}, {121, 121, XID_INFO},
    {126, 135, XID_APP},     {136, 136, XID_RESET}, {137, 137, XID_INFO},
    {139, 139, XID_APP},     {140, 140, XID_RESET}, {141, 141, XID_INFO},
    {142, 142, XID_INSPECT}, {143, 150, XID_RESET}, {151, 151, XID_REBOOT},
    {152, 154, XID_INFO},    {155, 156, XID_RESET}, {157, 157, XID_INFO},
    {158, 158, XID_RESET},   {159, 166, XID_INFO},  {167, 170, XID_INSPECT},
    {171, 172, XID_INFO}, /* they only refine a 48 that comes with them */
};

struct xid_text {
	uint16_t xid;
	const char *name;
};

static const struct xid_text texts[] = {
    {8, "a channel timed out"},
    {13, "an exception in a kernel of a job"},
    {31, "a job touched memory that is not its own"},
    {32, "a corrupted push buffer"},
    {38, "a driver firmware error"},
    {43, "a job's channel was stopped"},
    {45, "work of a job was cleaned up"},
    {46, "the GPU stopped processing"},
    {48, "an uncorrectable memory error"},
    {54, "auxiliary power is not connected"},
    {62, "an internal microcontroller halted"},
    {63, "a memory row was remapped or a page retired"},
    {64, "remapping a memory row failed"},
    {68, "a video processor exception"},
    {69, "a graphics engine class error"},
    {74, "an NVLink error"},
    {78, "a virtual GPU could not start"},
    {79, "the GPU has fallen off the bus"},
    {92, "many corrected memory errors"},
    {94, "a contained memory error"},
    {95, "an uncontained memory error"},
    {109, "a context switch timed out"},
    {110, "a security fault"},
    {119, "the GPU's system processor did not answer"},
    {120, "an error of the GPU's system processor"},
    {121, "a chip-to-chip link error"},
    {136, "a link training error"},
    {137, "a remote GPU's NVLink fault"},
    {140, "an unrecovered memory error"},
    {143, "the GPU could not be initialised"},
    {144, "an NVLink error"},
    {145, "an NVLink error"},
    {146, "an NVLink error"},
    {147, "an NVLink error"},
    {148, "an NVLink error"},
    {149, "an NVLink error"},
    {150, "an NVLink error"},
    {151, "a key rotation error"},
    {154, "the recovery action changed"},
    {XID_UNKNOWN, "an error that the driver does not name"},
};

enum xid_class xid_class_of(uint32_t xid)
{
	for (size_t i = 0; i < array_length(ranges); i++) {
		if (xid >= ranges[i].first && xid <= ranges[i].last)
			return ranges[i].class_;
	}
	return XID_INSPECT;
}

const char *xid_name(uint32_t xid)
{
	for (size_t i = 0; i < array_length(texts); i++) {
		if (texts[i].xid == xid)
			return texts[i].name;
	}
	return "";
}

static const char *const class_names[XID_CLASS_COUNT] = {
    [XID_IGNORE] = "ignore", [XID_INFO] = "info",     [XID_APP] = "app",
    [XID_RESET] = "reset",   [XID_REBOOT] = "reboot", [XID_INSPECT] = "inspect",
};

const char *xid_class_to_string(uint32_t class_)
{
	return names_at(class_names, class_, "unknown");
}

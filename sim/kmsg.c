/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/trees_pci.h"
#include "sim/trees_plan.h"

enum kmsg_limits {
	KMSG_RECORD_MAX = 2048,
	KMSG_TEXT_MAX = 900, /* the kernel's own limit is LOG_LINE_MAX, 1024 with the prefix */
	KMSG_FLOOD_MAX = 1000000,
	USEC_PER_TICK = 100000,
};

const char *sim_kmsg_form_to_string(enum sim_kmsg_form form)
{
	switch (form) {
	case SIM_KMSG_NEW:
		return "new";
	case SIM_KMSG_OLD:
		return "old";
	case SIM_KMSG_MIG:
		return "mig";
	case SIM_KMSG_THREELINE:
		return "threeline";
	case SIM_KMSG_NVLINK5:
		return "nvlink5";
	case SIM_KMSG_FORM_COUNT:
		break;
	}

	return "?";
}

/* Opens ROOT/NAME for appending; it must be the plain file that the trees made. */
static int stream_open(const char *root, const char *name, int flags, struct sim_error *error)
{
	char path[SIM_PATH_MAX + 16];
	(void)snprintf(path, sizeof(path), "%s/%s", root, name);

	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags);
	struct stat status;

	if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))) {
		(void)close(fd);
		fd = -1;
		errno = EINVAL;
	}

	if (fd < 0)
		return sim_fail(error, SIM_EXIT_FAILED, "cannot write '%s': %s; was it removed?",
				path, strerror(errno));

	return fd;
}

static int stream_append(const char *root, const char *name, const void *record, size_t length,
			 struct sim_error *error)
{
	if (root[0] == '\0')
		return 0;

	int fd = stream_open(root, name, 0, error);
	if (fd < 0)
		return -1;

	ssize_t written;
	do {
		written = write(fd, record, length); /* one write, one record */
	} while (written < 0 && errno == EINTR);
	int code = errno;

	(void)close(fd);
	if (written == (ssize_t)length)
		return 0;

	return sim_fail(error, SIM_EXIT_FAILED, "cannot write '%s/%s': %s", root, name,
			written < 0 ? strerror(code) : "no room");
}

/* The uevents of a change that nobody can see yet; a process makes one change at a time. */
static struct held_uevents {
	bool is_on;
	char root[SIM_PATH_MAX];
	char *bytes;
	size_t length;
} held;

void sim_kmsg_hold_uevents(void)
{
	sim_kmsg_drop_uevents();
	held.is_on = true;
}

void sim_kmsg_drop_uevents(void)
{
	free(held.bytes);
	held = (struct held_uevents){.is_on = false};
}

int sim_kmsg_send_uevents(struct sim_error *error)
{
	int rc =
	    held.length ? stream_append(held.root, "uevent", held.bytes, held.length, error) : 0;
	sim_kmsg_drop_uevents();
	return rc;
}

static int uevent_append(const struct sim_machine *machine, const char *record, size_t length,
			 struct sim_error *error)
{
	if (!held.is_on)
		return stream_append(machine->root, "uevent", record, length, error);

	char *bytes = realloc(held.bytes, held.length + length);
	if (!bytes)
		return sim_fail(error, SIM_EXIT_FAILED, "a uevent cannot be kept: no memory");

	memcpy(bytes + held.length, record, length);
	held.bytes = bytes;
	held.length += length;
	memcpy(held.root, machine->root, sizeof(held.root));

	return 0;
}

static size_t escape(char *out, size_t size, const char *text)
{
	size_t length = 0;

	for (const char *c = text; *c && length + 5 < size; c++) {
		unsigned char byte = (unsigned char)*c;
		if (byte < ' ' || byte >= 127 || byte == '\\')
			length += (size_t)snprintf(out + length, size - length, "\\x%02x", byte);
		else
			out[length++] = *c;
	}

	out[length] = '\0';
	return length;
}

/* Readers compare the stamps with CLOCK_MONOTONIC, as the kernel's own are; on a virtual clock the
 * machine's time is the only one there is. */
static unsigned long long kmsg_stamp_usec(const struct sim_machine *machine)
{
	struct timespec now;

	if (machine->clock == SIM_CLOCK_REAL && clock_gettime(CLOCK_MONOTONIC, &now) == 0)
		return (unsigned long long)now.tv_sec * 1000000 +
		       (unsigned long long)now.tv_nsec / 1000;
	return (unsigned long long)machine->tick * USEC_PER_TICK;
}

int sim_kmsg_line(struct sim_machine *machine, uint32_t priority, const char *device,
		  struct sim_error *error, const char *format, ...)
{
	char text[KMSG_TEXT_MAX], escaped[KMSG_TEXT_MAX], record[KMSG_RECORD_MAX];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	(void)escape(escaped, sizeof(escaped), text);

	int length =
	    snprintf(record, sizeof(record), "%u,%llu,%llu,-;%s\n", priority,
		     (unsigned long long)machine->kmsg_seq, kmsg_stamp_usec(machine), escaped);

	if (device)
		length += snprintf(record + length, sizeof(record) - (size_t)length,
				   " SUBSYSTEM=pci\n DEVICE=%s\n", device);
	if (stream_append(machine->root, "kmsg", record, (size_t)length, error) != 0)
		return -1;

	machine->kmsg_seq++;
	return 0;
}

static const char *xid_text(uint32_t xid)
{
	static const struct {
		uint32_t xid;
		const char *text;
	} known[] = {
	    {13, "Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address"},
	    {31, "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_0 "
		 "faulted @ 0x7f_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"},
	    {43, "Ch 00000008"},
	    {45, "Ch 00000008, errorString CTX SWITCH TIMEOUT"},
	    {48, "An uncorrectable double bit error (DBE) has been detected on GPU in the "
		 "framebuffer at partition 0, subpartition 0."},
	    {61, "Internal micro-controller breakpoint/warning"},
	    {62, "Internal micro-controller halt"},
	    {63, "Row Remapper: New row marked for remapping, reset gpu to activate."},
	    {64, "Row Remapper: Failed to write pending remapping entry."},
	    {74, "NVLink: fatal error detected on link 0 (0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"},
	    {79, "GPU has fallen off the bus."},
	    {92, "High single-bit ECC error rate"},
	    {94, "Contained: CE User Channel (0x9). RST: No, D-RST: No"},
	    {95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"},
	    {109, "Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x2c004"},
	    {119, "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function "
		  "76 (GSP_RM_CONTROL) (0x20800a4c 0x4)."},
	    {120, "GSP task exception: uninterpreted cause (0x2) @ pc:0x60002f4"},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (known[i].xid == xid)
			return known[i].text;
	}

	return "simulated";
}

/* "pid=7, name=python, " as the driver writes it; the process need not exist. */
static void xid_process(char out[96], uint32_t pid)
{
	char path[40], name[32] = "";

	if (pid == 0) {
		(void)snprintf(out, 96, "pid='<unknown>', name=<unknown>, ");
		return;
	}

	(void)snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, name, sizeof(name) - 1) : 0;

	if (fd >= 0)
		(void)close(fd);
	if (length > 0)
		name[length - 1] = '\0'; /* its line end */
	(void)snprintf(out, 96, "pid=%u, name=%s, ", pid, length > 1 ? name : "<unknown>");
}

static int xid_three_lines(struct sim_machine *machine, const struct sim_gpu *gpu,
			   uint32_t priority, struct sim_error *error)
{
	uint32_t id = sim_model_of(machine, gpu)->pci_device_id;
	if (sim_kmsg_line(machine, priority, NULL, error, "NVRM: The NVIDIA GPU " SIM_BDF_FORMAT,
			  SIM_BDF_ARGS(gpu)) != 0 ||
	    sim_kmsg_line(machine, priority, NULL, error,
			  "NVRM: (PCI ID: %04x:%04x) installed in this system has", id & 0xffff,
			  id >> 16) != 0)
		return -1;

	return sim_kmsg_line(machine, priority, NULL, error,
			     "NVRM: fallen off the bus and is not responding to commands.");
}

static int xid_nvlink5(struct sim_machine *machine, const struct sim_kmsg_xid *xid,
		       uint32_t priority, struct sim_error *error)
{
	static const char *const unit[] = {"SAW_MVB",	 "RLW_RXPIPE", "TLW_RX", "TREX",
					   "NVLPW_CTRL", "NETIR",      "MSE"};
	const struct sim_gpu *gpu = &machine->gpu[xid->gpu];
	char link[16];

	(void)snprintf(link, sizeof(link), xid->link < 0 ? "%d" : "%02d", xid->link);
	return sim_kmsg_line(machine, priority, NULL, error,
			     "NVRM: Xid (PCI:%04x:%02x:%02x): %u, %-10s  %-8s XC0 i0 Link %s "
			     "(0x00000004 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
			     SIM_BDF_ARGS(gpu), xid->xid, unit[xid->xid - 144],
			     xid->nonfatal ? "Nonfatal" : "Fatal", link);
}

static int xid_check(const struct sim_kmsg_xid *xid, struct sim_error *error)
{
	if (xid->form == SIM_KMSG_THREELINE && xid->xid != 79)
		return sim_fail(error, SIM_EXIT_INPUT,
				"form threeline is for XID 79 only, not for %u", xid->xid);
	if (xid->form == SIM_KMSG_NVLINK5 && (xid->xid < 144 || xid->xid > 150))
		return sim_fail(error, SIM_EXIT_INPUT,
				"form nvlink5 is for XIDs 144 to 150 only, not for %u", xid->xid);
	return 0;
}

int sim_kmsg_xid(struct sim_machine *machine, const struct sim_kmsg_xid *xid,
		 struct sim_error *error)
{
	const struct sim_gpu *gpu = &machine->gpu[xid->gpu];
	uint32_t priority = xid->forged ? SIM_KMSG_FORGED : SIM_KMSG_WARNING;
	const char *text = xid->text ? xid->text : xid_text(xid->xid);
	char process[96], instance[24] = "";

	if (xid_check(xid, error) != 0)
		return -1;
	if (xid->form == SIM_KMSG_THREELINE)
		return xid_three_lines(machine, gpu, priority, error);
	if (xid->form == SIM_KMSG_NVLINK5)
		return xid_nvlink5(machine, xid, priority, error);
	if (xid->form == SIM_KMSG_OLD && xid->xid == 79)
		return sim_kmsg_line(machine, priority, NULL, error,
				     "NVRM: GPU %02x:%02x.0: GPU has fallen off the bus.",
				     gpu->pci_bus, gpu->pci_device);

	if (xid->form == SIM_KMSG_OLD)
		return sim_kmsg_line(machine, priority, NULL, error,
				     "NVRM: Xid (%04x:%02x:%02x): %u, %s", SIM_BDF_ARGS(gpu),
				     xid->xid, text);

	xid_process(process, xid->pid);
	if (xid->form == SIM_KMSG_MIG && xid->gi != SIM_WHOLE_GPU)
		(void)snprintf(instance, sizeof(instance), " GPU-I:%02u", xid->gi);
	if (sim_kmsg_line(machine, priority, NULL, error,
			  "NVRM: Xid (PCI:%04x:%02x:%02x%s): %u, %s%s", SIM_BDF_ARGS(gpu), instance,
			  xid->xid, process, text) != 0)
		return -1;

	if (xid->xid != 79)
		return 0;

	return sim_kmsg_line(machine, priority, NULL, error,
			     "NVRM: GPU " SIM_BDF_FORMAT ": GPU has fallen off the bus.",
			     SIM_BDF_ARGS(gpu));
}

int sim_kmsg_flood(struct sim_machine *machine, uint32_t count, struct sim_error *error)
{
	if (count > KMSG_FLOOD_MAX)
		return sim_fail(error, SIM_EXIT_INPUT, "a flood has at most %d records",
				KMSG_FLOOD_MAX);
	if (machine->root[0] == '\0')
		return 0;

	int fd = stream_open(machine->root, "kmsg", 0, error);
	if (fd < 0)
		return -1;

	for (uint32_t i = 0; i < count; i++) {
		char record[128];
		int length = snprintf(record, sizeof(record),
				      "%d,%llu,%llu,-;simulated: record %u of %u of a flood\n",
				      SIM_KMSG_INFO, (unsigned long long)machine->kmsg_seq,
				      kmsg_stamp_usec(machine), i + 1, count);
		if (write(fd, record, (size_t)length) != (ssize_t)length) {
			(void)close(fd);
			return sim_fail(error, SIM_EXIT_FAILED, "cannot write '%s/kmsg': %s",
					machine->root, strerror(errno));
		}

		machine->kmsg_seq++;
	}

	(void)close(fd);
	return 0;
}

int sim_kmsg_overwrite(struct sim_machine *machine, uint32_t lost, struct sim_error *error)
{
	machine->kmsg_seq += lost;
	if (machine->root[0] == '\0')
		return 0;

	int fd = stream_open(machine->root, "kmsg", O_TRUNC, error);
	if (fd < 0)
		return -1;

	(void)close(fd);
	return sim_kmsg_line(machine, SIM_KMSG_INFO, NULL, error,
			     "simulated: %u records were overwritten", lost);
}

/* Where a function lies, as a uevent names it: "/devices/pci0000:00/...". */
static int device_path(const struct sim_machine *machine, enum sim_pci_kind kind, uint32_t index,
		       char out[SIM_PATH_MAX], struct sim_error *error)
{
	struct sim_pci *pci = malloc(sizeof(*pci));

	out[0] = '\0';
	if (!pci || sim_pci_layout(machine, pci, error) != 0) {
		free(pci);
		return pci ? -1 : sim_fail(error, SIM_EXIT_FAILED, "out of memory");
	}

	for (uint32_t i = 0; i < pci->count; i++) {
		const struct sim_pci_function *function = &pci->function[i];
		if (function->kind == kind && function->index == index)
			(void)snprintf(out, SIM_PATH_MAX, "%s", function->path + strlen("sys"));
	}

	free(pci);
	return 0;
}

int sim_kmsg_uevent(struct sim_machine *machine, uint32_t gpu_index, const char *action,
		    struct sim_error *error)
{
	const struct sim_gpu *gpu = &machine->gpu[gpu_index];
	const struct sim_model *model = sim_model_of(machine, gpu);
	char record[2048], path[SIM_PATH_MAX];
	int length = -1;

	if (device_path(machine, SIM_PCI_GPU, gpu_index, path, error) != 0)
		return -1;

	if (path[0])
		length = snprintf(
		    record, sizeof(record),
		    "%s@%s%cACTION=%s%cDEVPATH=%s%cSUBSYSTEM=pci%cPCI_CLASS=%X%c"
		    "PCI_ID=%04X:%04X%cPCI_SUBSYS_ID=%04X:%04X%c"
		    "PCI_SLOT_NAME=" SIM_BDF_FORMAT "%cSEQNUM=%llu%c",
		    action, path, 0, action, 0, path, 0, 0, model->quadro_class ? 0x30000 : 0x30200,
		    0, model->pci_device_id & 0xffff, model->pci_device_id >> 16, 0,
		    model->pci_subsystem_id & 0xffff, model->pci_subsystem_id >> 16, 0,
		    SIM_BDF_ARGS(gpu), 0, (unsigned long long)++machine->uevent_seq, 0);

	if (length < 0 || (size_t)length >= sizeof(record))
		return sim_fail(error, SIM_EXIT_FAILED, "the uevent of GPU %u cannot be made",
				gpu_index);

	/* the terminating NUL of the buffer is the empty string that ends the record */
	return uevent_append(machine, record, (size_t)length + 1, error);
}

int sim_kmsg_uevent_rdma(struct sim_machine *machine, uint32_t nic, const char *action,
			 struct sim_error *error)
{
	char record[2048], path[SIM_PATH_MAX];
	int length = -1;

	if (device_path(machine, SIM_PCI_NIC, nic, path, error) != 0)
		return -1;

	if (path[0])
		length = snprintf(record, sizeof(record),
				  "%s@%s/infiniband/mlx5_%u%cACTION=%s%cDEVPATH=%s/infiniband/"
				  "mlx5_%u%cSUBSYSTEM=infiniband%cNAME=mlx5_%u%cSEQNUM=%llu%c",
				  action, path, nic, 0, action, 0, path, nic, 0, 0, nic, 0,
				  (unsigned long long)++machine->uevent_seq, 0);

	if (length < 0 || (size_t)length >= sizeof(record))
		return sim_fail(error, SIM_EXIT_FAILED,
				"the uevent of adapter mlx5_%u cannot be made", nic);

	return uevent_append(machine, record, (size_t)length + 1, error);
}

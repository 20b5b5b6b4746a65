/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/rdma_counters.h"

#include <errno.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/file.h"
#include "base/parse.h"
#include "hardware/pci.h"

enum { DATA_UNIT = 4 }; /* bytes */

static const struct {
	const char *name, *file;
	uint32_t unit;
} counters[] = {
    [RDMA_COUNTER_SENT_BYTES] = {"port_xmit_bytes", "counters/port_xmit_data", DATA_UNIT},
    [RDMA_COUNTER_RECEIVED_BYTES] = {"port_rcv_bytes", "counters/port_rcv_data", DATA_UNIT},
    [RDMA_COUNTER_SYMBOL_ERROR] = {"symbol_error", "counters/symbol_error", 1},
    [RDMA_COUNTER_LINK_DOWNED] = {"link_downed", "counters/link_downed", 1},
    [RDMA_COUNTER_OUT_OF_SEQUENCE] = {"out_of_sequence", "hw_counters/out_of_sequence", 1},
    [RDMA_COUNTER_PACKET_SEQ_ERR] = {"packet_seq_err", "hw_counters/packet_seq_err", 1},
    [RDMA_COUNTER_RNR_NAK_RETRY_ERR] = {"rnr_nak_retry_err", "hw_counters/rnr_nak_retry_err", 1},
    [RDMA_COUNTER_CNP_SENT] = {"np_cnp_sent", "hw_counters/np_cnp_sent", 1},
    [RDMA_COUNTER_CNP_HANDLED] = {"rp_cnp_handled", "hw_counters/rp_cnp_handled", 1},
};

int rdma_counter_parse(const char *text, size_t length, uint32_t unit, uint64_t *out)
{
	uint64_t count;

	while (length > 0 && text[length - 1] == '\n')
		length--;

	int rc = parse_u64_span(text, length, 0, UINT64_MAX, &count);
	if (rc < 0)
		return rc;

	count *= unit;
	if (count == RDMA_COUNTER_UNKNOWN)
		return -ERANGE;

	*out = count;
	return 0;
}

void rdma_counters_read(const char *root, const char *device, uint32_t port,
			struct rdma_counters *out)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, PCI_FILE_MAX);

	for (uint32_t i = 0; i < RDMA_COUNTER_COUNT; i++) {
		out->value[i] = RDMA_COUNTER_UNKNOWN;
		buf_clear(&text);

		if (file_path(path, NULL, "%s/sys/class/infiniband/%s/ports/%u/%s", root, device,
			      port, counters[i].file) == 0 &&
		    file_read(path, &text, NULL) == 0)
			(void)rdma_counter_parse(buf_text(&text), text.length, counters[i].unit,
						 &out->value[i]);
	}
}

const char *rdma_counter_to_string(uint32_t counter)
{
	return counter < array_length(counters) ? counters[counter].name : "unknown";
}

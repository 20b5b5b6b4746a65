/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as each of the small files of /sys that describe an RDMA adapter. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/rdma.h"
#include "hardware/rdma_counters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	uint32_t number, other;
	if (rdma_parse_state(text, size, &number) == 0 && number > 255)
		abort();
	if (rdma_parse_rate(text, size, &number) == 0 && number == RDMA_UNKNOWN)
		abort();
	if (rdma_parse_dev(text, size, &number, &other) == 0 &&
	    (number == RDMA_UNKNOWN || other == RDMA_UNKNOWN))
		abort();
	char interface[RDMA_IFNAME_MAX];
	if (rdma_parse_interface(text, size, interface) == 0 &&
	    (interface[0] == '\0' || strchr(interface, '/') ||
	     !memchr(interface, '\0', sizeof(interface))))
		abort();
	uint64_t count;
	if (rdma_counter_parse(text, size, 4, &count) == 0 && count == RDMA_COUNTER_UNKNOWN)
		abort();
	(void)rdma_parse_link_layer(text, size);
	(void)rdma_parse_link_type(text, size);
	(void)rdma_parse_netns(text, size);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/rdma_health.h"

bool rdma_health_is_ok(const struct rdma_health *health)
{
	return health->state == RDMA_HEALTH_HEALTHY || health->state == RDMA_HEALTH_SUSPECT;
}

bool rdma_health_read(struct rdma_health *health, bool up, uint64_t now_ns)
{
	bool before = rdma_health_is_ok(health);

	if (up) {
		health->state = RDMA_HEALTH_HEALTHY;
	} else if (health->state == RDMA_HEALTH_HEALTHY) {
		health->state = RDMA_HEALTH_SUSPECT;
		health->bad_since_ns = now_ns;
	} else if (health->state == RDMA_HEALTH_NEW ||
		   (health->state == RDMA_HEALTH_SUSPECT &&
		    now_ns - health->bad_since_ns >= RDMA_HEALTH_BAD_NS)) {
		health->state = RDMA_HEALTH_UNHEALTHY;
	}

	return rdma_health_is_ok(health) != before;
}

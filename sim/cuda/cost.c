/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/cost.h"

#include "sim/machine.h"

/* FP16 operations of a processor's tensor cores in a cycle, dense. Sources: NVIDIA's architecture
 * white papers (V100, Turing, A100, H100, Blackwell): the rates of their tables divided by
 * processors and clock. */
static uint64_t tensor_per_cycle(uint32_t major, uint32_t minor)
{
	switch (major) {
	case 7:
		return 1024;
	case 8:
		return minor == 0 ? 2048 : 1024;
	case 9:
		return 4096;
	default:
		return major < 7 ? 256 : 8192;
	}
}

/* Megabytes a second of one PCIe lane, each way, after its line code. */
static uint64_t lane_rate(uint32_t generation)
{
	static const uint32_t rate[] = {0, 250, 500, 985, 1969, 3938, 7563};

	return generation < sizeof(rate) / sizeof(*rate) ? rate[generation] : 7563;
}

void cost_rates(const struct sim_model *model, uint32_t sm_count, struct cost_rates *out)
{
	uint64_t cycles = (uint64_t)sm_count * model->sm_max_mhz;
	/* from 9.0 on, warp-wide products (mma.sync) reach 62.9 % of the peak: arXiv 2501.12084 */
	uint64_t burn_permille = model->cc_major >= 9 ? 629 : 950;
	uint64_t pcie = lane_rate(model->pcie_gen_max) * model->pcie_width_max;

	out->tensor = cycles * tensor_per_cycle(model->cc_major, model->cc_minor);
	out->burn = out->tensor * burn_permille / 1000;
	out->gemm = out->burn * 8 / 10;

	/* both edges of the clock carry data */
	out->memory = (uint64_t)model->memory_bus_bits / 8 * model->mem_max_mhz * 2 * 9 / 10;
	out->memory = out->memory * sm_count / (model->sm_count ? model->sm_count : 1);
	out->pcie = pcie * 8 / 10;
	out->pageable = pcie * 4 / 10;
	out->spin = model->sm_max_mhz;
}

uint64_t cost_peer_rate(const struct sim_model *model, uint32_t links)
{
	/* megabytes a second of a link, each way, by version of NVLink */
	static const uint32_t rate[] = {0, 20000, 25000, 25000, 25000, 50000};
	uint32_t version = model->nvlink_version < 5 ? model->nvlink_version : 5;

	if (links == 0 || version == 0)
		return lane_rate(model->pcie_gen_max) * model->pcie_width_max * 7 / 10;
	return (uint64_t)links * rate[version] * 9 / 10;
}

uint64_t cost_ns(uint64_t amount, uint64_t rate)
{
	const uint64_t most = UINT64_MAX / 4;
	uint64_t whole, rest;

	if (rate == 0)
		rate = 1;
	whole = amount / rate;
	rest = amount % rate * 1000 / rate; /* rates are far below 2^54 */
	if (whole > (most - rest) / 1000)
		return most;

	return whole * 1000 + rest ? whole * 1000 + rest : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of network adapters and of the bus that leads to them. They show in /sys, in /dev and,
 * where the kernel sends one, as a uevent; NVML knows nothing of them. */
#include <stdio.h>
#include <string.h>

#include "sim/error.h"
#include "sim/fault_private.h"

enum what {
	WHAT_DOWN,
	WHAT_UP,
	WHAT_RATE,
	WHAT_GONE,
	WHAT_BACK,
	WHAT_UNBOUND,
	WHAT_BOUND,
	WHAT_NO_NODE,
	WHAT_WRONG_NODE,
	WHAT_NODE,
	WHAT_COUNT,
};

static const char *const words[] = {"down",    "up",	"rate",	   "gone",	 "back",
				    "unbound", "bound", "no-node", "wrong-node", "node"};

static bool nic_works(const struct sim_nic *nic)
{
	return !nic->gone && !nic->unbound;
}

/* Changes one adapter, with the uevent if its RDMA device comes or goes by it. */
static int nic_set(struct sim_machine *machine, uint32_t index, const struct sim_nic *wanted,
		   struct sim_error *error)
{
	bool before = nic_works(&machine->nic[index]), after = nic_works(wanted);
	machine->nic[index] = *wanted;
	return before == after
		   ? 0
		   : sim_kmsg_uevent_rdma(machine, index, after ? "add" : "remove", error);
}

static int change(struct sim_machine *machine, uint32_t index, enum what what, uint32_t number,
		  struct sim_error *error)
{
	struct sim_nic nic = machine->nic[index];

	for (uint32_t p = 0; p < SIM_NIC_PORT_MAX; p++) {
		if ((what == WHAT_DOWN || what == WHAT_UP) && (number == 0 || number == p + 1)) {
			nic.downed[p] += what == WHAT_DOWN && !nic.down[p];
			nic.down[p] = what == WHAT_DOWN;
		}

		if (what == WHAT_RATE)
			nic.rate_gbit[p] = number;
	}

	if (what == WHAT_GONE || what == WHAT_BACK)
		nic.gone = what == WHAT_GONE;
	if (what == WHAT_UNBOUND || what == WHAT_BOUND)
		nic.unbound = what == WHAT_UNBOUND;
	if (what == WHAT_NO_NODE || what == WHAT_WRONG_NODE || what == WHAT_NODE) {
		nic.no_node = what == WHAT_NO_NODE;
		nic.wrong_node = what == WHAT_WRONG_NODE;
	}

	return nic_set(machine, index, &nic, error);
}

/* "mlx5_3", "3", or "all": which is the machine's count. */
static int find_nic(const struct sim_machine *machine, const char *text, uint32_t *out,
		    struct sim_error *error)
{
	uint64_t number;

	if (machine->nic_count == 0)
		return sim_fail(error, SIM_EXIT_INPUT, "'%s' has no network adapters",
				machine->profile);
	if (strcmp(text, "all") == 0) {
		*out = machine->nic_count;
		return 0;
	}

	const char *digits = strncmp(text, "mlx5_", 5) == 0 ? text + 5 : text;
	if (!fault_number(digits, machine->nic_count - 1, &number))
		return sim_fail(error, SIM_EXIT_INPUT,
				"there is no adapter '%s': the simulated machine has mlx5_0 to "
				"mlx5_%u, and 'all'",
				text, machine->nic_count - 1);

	*out = (uint32_t)number;
	return 0;
}

static int find_what(const struct sim_machine *machine, const struct sim_fault *fault,
		     enum what *out_what, uint32_t *out_number, struct sim_error *error)
{
	const char *word = fault_argument(fault, 1), *argument = fault_argument(fault, 2);
	uint64_t number = 0;
	uint32_t what = 0;

	while (what < WHAT_COUNT && strcmp(words[what], word) != 0)
		what++;

	if (what == WHAT_COUNT) {
		const char *near = sim_nearest(word, strlen(word), words, WHAT_COUNT);
		return sim_fail(error, SIM_EXIT_INPUT, "rdma: unknown '%s'%s%s%s", word,
				near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	}

	if (what == WHAT_RATE && (!fault_number(argument, 1600, &number) || number == 0))
		return sim_fail(error, SIM_EXIT_INPUT, "rdma: '%s' is not a rate in Gb/s",
				argument);

	if ((what == WHAT_DOWN || what == WHAT_UP) && argument[0] &&
	    (!fault_number(argument, machine->nic_ports, &number) || number == 0))
		return sim_fail(error, SIM_EXIT_INPUT,
				"rdma: there is no port '%s': each adapter has %u", argument,
				machine->nic_ports);

	if (what > WHAT_RATE && argument[0])
		return sim_fail(error, SIM_EXIT_INPUT, "rdma: '%s' takes no number", word);

	*out_what = what;
	*out_number = (uint32_t)number;
	return 0;
}

int fault_apply_rdma(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error)
{
	uint32_t nic = 0, number = 0;
	enum what what = WHAT_COUNT;

	if (find_nic(machine, fault_argument(fault, 0), &nic, error) != 0 ||
	    find_what(machine, fault, &what, &number, error) != 0)
		return -1;

	uint32_t first = nic < machine->nic_count ? nic : 0;
	uint32_t last = nic < machine->nic_count ? nic : machine->nic_count - 1;
	for (uint32_t i = first; i <= last; i++)
		if (change(machine, i, what, number, error) != 0)
			return -1;

	return 0;
}

/* One of two words: the first is the fault. */
static int choose(const struct sim_fault *fault, const char *bad, const char *good, bool *out,
		  struct sim_error *error)
{
	const char *word = fault_argument(fault, 0);
	bool is_bad = strcmp(word, bad) == 0;
	if (!is_bad && strcmp(word, good) != 0)
		return sim_fail(error, SIM_EXIT_INPUT, "%s: '%s' is not %s or %s", fault->kind,
				word, bad, good);
	*out = is_bad;
	return 0;
}

int fault_apply_rdma_netns(struct sim_machine *machine, const struct sim_fault *fault,
			   struct sim_error *error)
{
	return choose(fault, "exclusive", "shared", &machine->rdma_exclusive, error);
}

int fault_apply_acs(struct sim_machine *machine, const struct sim_fault *fault,
		    struct sim_error *error)
{
	return choose(fault, "on", "off", &machine->acs_redirects, error);
}

int fault_apply_iommu(struct sim_machine *machine, const struct sim_fault *fault,
		      struct sim_error *error)
{
	return choose(fault, "translate", "passthrough", &machine->iommu_translates, error);
}

int fault_heal_rdma(struct sim_machine *machine, const char *which, struct sim_error *error)
{
	const struct sim_nic well = {.gone = false};
	uint32_t nic = machine->nic_count;

	if (!which)
		machine->rdma_exclusive = machine->acs_redirects = machine->iommu_translates =
		    false;
	if (machine->nic_count == 0)
		return 0;
	if (which && find_nic(machine, which, &nic, error) != 0)
		return -1;

	for (uint32_t i = 0; i < machine->nic_count; i++)
		if ((nic == i || nic == machine->nic_count) &&
		    nic_set(machine, i, &well, error) != 0)
			return -1;

	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How noisy this machine is now: the ping-pong that the time gates of all benchmarks refer to. */
#include "perf/gate.h"

int main(int argc, char **argv)
{
	struct gate_report *report =
	    gate_open(argc, argv, "noise", "Prints the allowance for noise of this machine, now.",
		      false, NULL);
	return gate_close(report);
}

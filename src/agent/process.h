/* SPDX-License-Identifier: Apache-2.0 */
/* What a small service asks of its own process before anything else. Knows nothing of the agent. */
#ifndef SLUICE_AGENT_PROCESS_H
#define SLUICE_AGENT_PROCESS_H

/* Memory that goes back to the system, as many descriptors as are allowed, files that others may
 * read, and no death by a reader who is gone. For the start of the program; cannot fail. */
void process_prepare(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doors that hand out GPUs, a row each. Who writes down, reads or compares something for every
 * door goes over this table instead of naming them; who knows what one door does with its GPUs is
 * found by the name of its member.
 */
#ifndef SLUICE_POLICY_POLICY_DOOR_H
#define SLUICE_POLICY_POLICY_DOOR_H

/* The member; its word in the configuration, the ledger's file and answers. Resources stand in this
 * order. */
#define POLICY_DOORS(DOOR)                                                                         \
	DOOR(KUBELET, "kubelet")                                                                   \
	DOOR(QUEUE, "queue")

enum policy_door {
#define POLICY_DOOR_MEMBER(name, word) POLICY_DOOR_##name,
	POLICY_DOORS(POLICY_DOOR_MEMBER)
#undef POLICY_DOOR_MEMBER
	    POLICY_DOOR_NONE, /* nobody hands it out; how many doors there are */
};

/* "kubelet", "queue", "none". */
const char *policy_door_to_string(enum policy_door door);

#endif

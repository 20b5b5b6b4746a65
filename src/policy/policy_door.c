/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_door.h"

#include <stddef.h>

#include "base/names.h"

const char *policy_door_to_string(enum policy_door door)
{
#define POLICY_DOOR_WORD(name, word) word,
	static const char *const words[] = {POLICY_DOORS(POLICY_DOOR_WORD) "none"};
#undef POLICY_DOOR_WORD

	return names_at(words, door, "unknown");
}

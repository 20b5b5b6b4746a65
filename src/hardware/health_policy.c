/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/health_policy.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/parse.h"

enum { ENTRY_MAX = 64 /* bytes of one entry of a list with its NUL */ };

static size_t policy_find(const struct health_policy *policy, uint32_t xid)
{
	size_t i = 0;
	while (i < policy->override_count && policy->override[i].xid != xid)
		i++;
	return i;
}

enum xid_class health_policy_fatal(uint32_t xid)
{
	enum xid_class class_ = xid_class_of(xid);
	return class_ < XID_RESET ? XID_RESET : class_;
}

/* What NVIDIA's device plugin ignores; 109 since its version 0.17. */
static bool policy_peer_ignores(uint32_t xid)
{
	static const uint16_t codes[] = {13, 31, 43, 45, 68, 109};
	for (size_t i = 0; i < array_length(codes); i++) {
		if (codes[i] == xid)
			return true;
	}
	return false;
}

enum xid_class health_policy_class(const struct health_policy *policy, uint32_t xid)
{
	if (!policy)
		return xid_class_of(xid);
	if (policy->heeds_all)
		return health_policy_fatal(xid);

	size_t i = policy_find(policy, xid);
	bool is_set = i < policy->override_count;

	if (is_set && policy->override[i].by_environment)
		return policy->override[i].class_;
	if (policy->ignores_all)
		return XID_IGNORE;
	if (is_set)
		return policy->override[i].class_;
	if (policy->base == HEALTH_AS_PEER)
		return policy_peer_ignores(xid) ? XID_APP : health_policy_fatal(xid);

	return xid_class_of(xid);
}

bool health_policy_is_table(const struct health_policy *policy, uint32_t xid)
{
	return !policy ||
	       (policy->base == HEALTH_BY_TABLE && !policy->heeds_all && !policy->ignores_all &&
		policy_find(policy, xid) == policy->override_count);
}

static int policy_put(struct health_policy *policy, uint32_t xid, enum xid_class class_,
		      bool by_environment)
{
	size_t i = policy_find(policy, xid);
	if (i == HEALTH_OVERRIDE_MAX)
		return -E2BIG;

	policy->override[i].xid = xid;
	policy->override[i].class_ = (uint8_t)class_;
	policy->override[i].by_environment = by_environment;
	if (i == policy->override_count)
		policy->override_count++;

	return 0;
}

int health_policy_set(struct health_policy *policy, uint32_t xid, enum xid_class class_)
{
	return policy_put(policy, xid, class_, false);
}

/* --- the variables --------------------------------------------------------------------------- */

/* The next entry without blanks around it; one that is too long is cut, and then no code. False: no
 * more. */
static bool next_entry(const char **list, char out[ENTRY_MAX])
{
	const char *at = *list;
	if (!at)
		return false;

	size_t length = strcspn(at, ",");
	*list = at[length] == ',' ? at + length + 1 : NULL;

	while (length > 0 && isspace((unsigned char)*at)) {
		at++;
		length--;
	}

	while (length > 0 && isspace((unsigned char)at[length - 1]))
		length--;

	bool fits = length < ENTRY_MAX;
	(void)snprintf(out, ENTRY_MAX, "%.*s%s", fits ? (int)length : ENTRY_MAX - 4, at,
		       fits ? "" : "...");
	return true;
}

static bool list_has(const char *list, const char *word)
{
	char entry[ENTRY_MAX];
	while (next_entry(&list, entry)) {
		if (strcasecmp(entry, word) == 0)
			return true;
	}
	return false;
}

static void take_codes(struct health_policy *policy, const char *list, bool heed,
		       void (*bad)(const char *entry, void *context), void *context)
{
	char entry[ENTRY_MAX];

	while (next_entry(&list, entry)) {
		uint64_t code;

		if (entry[0] == '\0' || strcasecmp(entry, "all") == 0)
			continue;

		int rc = parse_u64(entry, 0, UINT32_MAX, &code);
		if (rc == 0)
			rc = policy_put(policy, (uint32_t)code,
					heed ? health_policy_fatal((uint32_t)code) : XID_IGNORE,
					true);

		if (rc < 0 && bad)
			bad(entry, context);
	}
}

void health_policy_environment(struct health_policy *policy, const char *disable,
			       const char *enable, void (*bad)(const char *entry, void *context),
			       void *context)
{
	policy->ignores_all = list_has(disable, "all") || list_has(disable, "xids");
	policy->heeds_all = list_has(enable, "all");
	if (!policy->ignores_all)
		take_codes(policy, disable, false, bad, context);
	take_codes(policy, enable, true, bad, context); /* the later one wins */
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/repeats.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { REPEATS_KEY_MAX = 256 };

#define REPEATS_FORGET_NS                                                                          \
	UINT64_C(600000000000) /* what was left out is of no interest any more                     \
				*/

/* FNV-1a: two keys that fall together share an allowance, no more. */
static uint64_t repeats_hash(const char *key)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (; *key; key++)
		hash = (hash ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
	return hash ? hash : 1;
}

/* Its own place, a free one, or one that has its whole allowance again and nothing left to say, or
 * not for long; else that of all others. */
static struct repeats_key *repeats_find(struct repeats *repeats, uint64_t hash, uint64_t now_ns)
{
	struct repeats_key *vacant = NULL;

	for (size_t i = 0; i < REPEATS_KEYS; i++) {
		struct repeats_key *key = &repeats->keys[i];
		if (key->hash == hash)
			return key;

		uint64_t kept_ns = key->left_out > 0 ? REPEATS_FORGET_NS : 0;
		if (!vacant && key->paid_ns + kept_ns <= now_ns)
			vacant = key;
	}

	if (!vacant)
		return &repeats->keys[REPEATS_KEYS];

	*vacant = (struct repeats_key){.hash = hash};
	return vacant;
}

bool repeats_may_tell(struct repeats *repeats, const char *key, uint64_t now_ns,
		      uint64_t *out_left_out)
{
	struct repeats_key *place = repeats_find(repeats, repeats_hash(key), now_ns);
	uint64_t from_ns = place->paid_ns > now_ns ? place->paid_ns : now_ns;

	if (from_ns - now_ns > (REPEATS_BURST - 1) * REPEATS_EVERY_NS) {
		place->left_out++;
		return false;
	}

	*out_left_out = place->left_out;
	place->left_out = 0;
	place->paid_ns = from_ns + REPEATS_EVERY_NS;

	return true;
}

bool repeats_may_tell_of(struct repeats *repeats, uint64_t now_ns, char *out_text,
			 const char *format, ...)
{
	char key[REPEATS_KEY_MAX];
	uint64_t left_out;
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(key, sizeof(key), format, arguments);
	va_end(arguments);

	if (!repeats_may_tell(repeats, key, now_ns, &left_out))
		return false;

	out_text[0] = '\0';
	if (left_out > 0)
		(void)snprintf(out_text, REPEATS_TEXT_MAX, " (and %" PRIu64 " times more)",
			       left_out);

	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Views that an agent could have written and none ever would: any valid one, from bytes. */
#ifndef TESTS_FUZZ_MADE_VIEW_H
#define TESTS_FUZZ_MADE_VIEW_H

#include <stddef.h>
#include <stdint.h>

struct view;

/* Fills `out` with a valid view, whatever the bytes are. */
void made_view(struct view *out, const uint8_t *data, size_t size);
/* Fills it with one in which everything is known: `gpus` GPUs, the last with 7 MIG instances or,
 * with `migs`, each; `holders` containers. */
void made_view_full(struct view *out, uint32_t gpus, uint32_t migs, uint32_t holders);

#endif

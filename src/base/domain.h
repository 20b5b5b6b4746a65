/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The domain of what is our own: annotations and labels ("sluice.dev/priority"), kinds of CDI
 * devices ("sluice.dev/gpu"). Users write these names into their files, so the domain is frozen;
 * whoever ships the program under a domain of their own builds with -Dlabel_prefix
 * (meson_options.txt says what else changes then). Everything in src/ has it from here, as
 * SLUICE_DOMAIN "/gpu".
 */
#ifndef SLUICE_BASE_DOMAIN_H
#define SLUICE_BASE_DOMAIN_H

#ifndef SLUICE_DOMAIN
#define SLUICE_DOMAIN "sluice.dev"
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The one thing that differs between the libraries besides their exports. */

extern const int nvml_age;
const int nvml_age = NVML_AGE;

/* SPDX-License-Identifier: Apache-2.0 */
/* All kernels, so that they come as one text for each target: `make ptx`. */
#include "basic.cu"
#include "burn.cu"
#include "check.cu"
#include "gemm.cu"
#include "ruler.cu"

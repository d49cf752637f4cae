// SPDX-License-Identifier: BSD-2-Clause
// Portals: a libcxi Domain per VNI and the portal table entry at pid_idx 255.
#include "prov/cxi/cxi.h"

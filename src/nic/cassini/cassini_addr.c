// SPDX-License-Identifier: BSD-2-Clause
// NIC addresses and PIDs as IP addresses and UDP ports.
#include "nic/cassini/cassini_int.h"

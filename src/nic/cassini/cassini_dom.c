// SPDX-License-Identifier: BSD-2-Clause
// Domains: a link port each, their peers, and where received frames go.
#include "nic/cassini/cassini_int.h"

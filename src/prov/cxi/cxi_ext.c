// SPDX-License-Identifier: BSD-2-Clause
// fi_open_ops and fi_control of a domain: the documented extensions, statistics, telemetry.
#include "prov/cxi/cxi.h"

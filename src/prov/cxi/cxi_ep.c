// SPDX-License-Identifier: BSD-2-Clause
// Endpoints, scalable endpoints and their contexts, shared contexts: open, bind, enable, close, options.
#include "prov/cxi/cxi.h"

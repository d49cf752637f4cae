#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Open MPI's remote shell for hosts that are network namespaces: agent.sh [options] HOST COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
# The remote end of ssh is a shell as well: it expands the words that Open MPI quoted, and runs the list of commands
# that Open MPI 5 sends.
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"

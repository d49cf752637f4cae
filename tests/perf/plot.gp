# SPDX-License-Identifier: BSD-2-Clause
# One plot of bench.sh: gnuplot -e "out='FOLDER'; what='latency'" plot.gp - a PNG, and the same as text on the terminal.
file = out . '/' . what . '.dat'
set logscale xy
set xlabel (substr(what, 1, 5) eq 'scale') ? 'processes' : 'message, bytes'
set ylabel (what eq 'latency') ? 'one way, us' : (what eq 'bandwidth') ? 'GB/s' : (what eq 'scale_memory') ? \
	'memory per peer, KiB' : (what eq 'scale_start') ? 'start-up, s' : 'processor time per message, us'
set key autotitle columnheader top left
set grid
stats file using 1 nooutput
set terminal pngcairo size 900,600
set output out . '/' . what . '.png'
plot for [i=0:STATS_blocks-1] file index i using 1:2 with linespoints linewidth 2
set output
set terminal dumb 100 30
set title what
unset grid
plot for [i=0:STATS_blocks-1] file index i using 1:2 with points

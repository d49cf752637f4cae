// SPDX-License-Identifier: BSD-2-Clause
// Time of a barrier when there may be more ranks than processors.
#include "mpi_kit.h"

int main(int argc, char **argv)
{
	int rounds = 0;
	double t, us;

	mpi_world_open(&argc, &argv, 0);
	MPI_Barrier(MPI_COMM_WORLD);
	t = MPI_Wtime();
	for (int is_over = 0; !is_over; rounds += 2) {
		MPI_Barrier(MPI_COMM_WORLD);
		is_over = MPI_Wtime() - t > 0.5;
		MPI_Bcast(&is_over, 1, MPI_INT, 0,
			  MPI_COMM_WORLD); /* counts as a barrier: it takes as many steps */
	}
	us = (MPI_Wtime() - t) * 1e6 / rounds;
	if (!g_w.rank)
		printf("barrier %.1f us\n", us);
	MPI_Finalize();
	return 0;
}

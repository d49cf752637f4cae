// SPDX-License-Identifier: BSD-2-Clause
// Copies between this process and another one by the kernel (cross memory attach); the other one
// need not run.
#include <sys/uio.h>

#include "link/bulk_int.h"

#include <errno.h>

ssize_t bulk_cma_copy(pid_t pid, int op, void *local, uint64_t raddr, size_t len)
{
	struct iovec l = {local, len}, r = {(void *)(uintptr_t)raddr, len};
	ssize_t n;

	n = op == LINK_GET ? process_vm_readv(pid, &l, 1, &r, 1, 0)
			   : process_vm_writev(pid, &l, 1, &r, 1, 0);
	if (n > 0)
		return n;
	return n ? -errno : -EFAULT;
}

bool bulk_cma_is_slow(int op, const void *local, uint64_t raddr)
{
	uint64_t l = (uintptr_t)local, diff = op == LINK_GET ? l - raddr : raddr - l;

	diff %= 4096;
	return diff >= 1 && diff <= 15;
}

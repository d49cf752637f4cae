// SPDX-License-Identifier: BSD-2-Clause
// Named address vectors: a table of addresses in memory that the processes of one user on one host share.
#ifndef SF_PROV_CXI_CXI_AV_SHM_H
#define SF_PROV_CXI_CXI_AV_SHM_H

#include "prov/cxi/cxi.h"

struct cxi_av_shared;

/**
 * cxi_av_shm_open() - Open the table named @name of adapter @domain; made if it is not there.
 * @read_only: only to look up: it must exist, and is mapped without the right to write. @count: addresses expected.
 * @map_addr: where to map it, if that place is free; NULL: anywhere.
 * Return: 0; -FI_ENOENT @read_only and nobody has it open; -FI_EACCES another user's, or open to others; -FI_EINVAL
 * name; -FI_EBUSY another process holds its lock for too long; -FI_ENOSPC shared memory is full; -FI_ENOMEM; -errno.
 * All logged.
 */
int cxi_av_shm_open(const char *domain, const char *name, bool read_only, size_t count, void *map_addr,
		    struct cxi_av_shared **out);
/** cxi_av_shm_reap() - Remove what killed processes of our user have left, in any network namespace. */
void cxi_av_shm_reap(void);
/** cxi_av_shm_close() - The last one takes the object away. @forked: we are a child that only lets go. NULL is fine. */
void cxi_av_shm_close(struct cxi_av_shared *s, bool forked);
/* where it is mapped: an array of the fi_addr_t in use, NOTAVAIL between them */
void *cxi_av_shm_base(const struct cxi_av_shared *s);
/**
 * cxi_av_shm_add() - Insert, or one more use of an address that is there. 0; -FI_EPERM read only; -FI_ENOSPC;
 * -FI_EBUSY; -FI_EIO damaged.
 */
int cxi_av_shm_add(struct cxi_av_shared *s, const struct cxi_addr *addr, fi_addr_t *out);
/** cxi_av_shm_del() - One use less. 0; -FI_EINVAL not there; -FI_EPERM; -FI_EBUSY; -FI_EIO. */
int cxi_av_shm_del(struct cxi_av_shared *s, fi_addr_t fi_addr);
/** cxi_av_shm_get() - The address of @fi_addr. False: there is none. */
bool cxi_av_shm_get(const struct cxi_av_shared *s, fi_addr_t fi_addr, struct cxi_addr *out);
/** cxi_av_shm_find() - The way back; FI_ADDR_NOTAVAIL. */
fi_addr_t cxi_av_shm_find(const struct cxi_av_shared *s, const struct cxi_addr *addr);

#endif

// SPDX-License-Identifier: BSD-2-Clause
// How a function fails that is not offered. No header of infiniband/ here: see verbs_later.c.
#ifndef SF_VERBS_VERBS_REFUSE_H
#define SF_VERBS_VERBS_REFUSE_H

/** verbs_fail() - errno is @err. Return: NULL. */
void *verbs_fail(int err);
/** verbs_refuse() - What is not offered, said once per @name. Return: EOPNOTSUPP, also in errno. */
int verbs_refuse(const char *name, const char *why);

#endif

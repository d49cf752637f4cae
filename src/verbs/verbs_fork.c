// SPDX-License-Identifier: BSD-2-Clause
// The mutexes of the process, and fork(): the child finds them free, and what they guard as it is between two calls.
#include "verbs/verbs_int.h"

pthread_mutex_t verbs_dev_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t verbs_ctx_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t verbs_obj_mutex = PTHREAD_MUTEX_INITIALIZER;

static void before(void)
{
	pthread_mutex_lock(&verbs_dev_mutex);
	pthread_mutex_lock(&verbs_ctx_mutex);
	pthread_mutex_lock(&verbs_obj_mutex);
}

static void after(void)
{
	pthread_mutex_unlock(&verbs_obj_mutex);
	pthread_mutex_unlock(&verbs_ctx_mutex);
	pthread_mutex_unlock(&verbs_dev_mutex);
}

static __attribute__((constructor)) void fork_watch(void)
{
	pthread_atfork(before, after, after);
}

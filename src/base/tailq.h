// SPDX-License-Identifier: BSD-2-Clause
// A tail queue's removal for each message.
#ifndef SF_BASE_TAILQ_H
#define SF_BASE_TAILQ_H

/*
 * TAILQ_REMOVE() reads the links of its entry again behind each of its stores, which as far as a compiler can see may
 * have changed them. Here they are read once.
 */
#define TAILQ_TAKE_OUT(head_, elm_, field_)                                                                            \
	do {                                                                                                           \
		typeof((elm_)->field_) links_ = (elm_)->field_;                                                        \
		if (links_.tqe_next)                                                                                   \
			links_.tqe_next->field_.tqe_prev = links_.tqe_prev;                                            \
		else                                                                                                   \
			(head_)->tqh_last = links_.tqe_prev;                                                           \
		*links_.tqe_prev = links_.tqe_next;                                                                    \
	} while (0)

#endif

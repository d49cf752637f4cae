// SPDX-License-Identifier: BSD-2-Clause
// A flooded port's second socket: who is in good standing goes on using the first one, all others share the second.
#ifndef SF_LINK_GATE_H
#define SF_LINK_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/filter.h>

#include "base/base.h"

struct link_addr;
struct link_port;

/*
 * Theory of operation
 *
 * A socket has one receive buffer. Who fills it keeps everybody's datagrams out before any limit of ours is looked
 * at, and whoever reads it all has no time for anything else. So when a socket was found full and the kernel counts
 * losses there (gate_look()), the port gets a second one at the same address (SO_REUSEPORT), the *gate*, with a small
 * buffer; a classic BPF program (gate_prog()) says for each datagram which of the two it goes into, at its sender's
 * expense. The first is read as ever. The gate gets a tenth of the time, or half of it while nothing comes into the
 * first: what does not fit is lost there, as on a wire, and comes again if its sender is honest. After a second
 * without losses all go into the first again.
 *
 * A *sender* is an address and a word of each datagram that strangers cannot guess and that stays as it is: of the
 * pair's nonce, of the key of a RAW flow, of the id of who seals. Forged datagrams lack it, and handshakes, too: they
 * come through the gate. Its *standing* is what its last GATE_PAST datagrams brought: anything new (rel_progress():
 * DATA that had not come, acknowledgements of something; not for a region that is not theirs, drop_foreign), or
 * nothing: copies, what no quota takes or the link drops. Peers that our owner knows stand when a flood begins, others
 * as soon as something new has come from them through the gate. Who sends half as much in vain as of use stands no
 * more, and what of it lies in the first socket is not looked at, until it has sent less for a while: an honest one
 * repeats what it believes lost while a flood keeps our answers waiting. RAW has no numbers by which news could be
 * told: there peers stand that the owner knows, unless the link drops what they send.
 *
 * An overload by what is of use cuts nobody: that is what credit is for.
 */

#define GATE_SETS      1024u
#define GATE_WAYS      4u
#define GATE_STAND_MAX 512u /* senders that the program can name, */
#define GATE_RISE_MAX  256u /* of whom so many may be unknown to the owner */
#define GATE_PROG_MAX  (3 * GATE_STAND_MAX + 32)
#define GATE_PAST      256u
#define GATE_MAIN      0u /* what the program returns: places of the sockets in their group */
#define GATE_GATE      1u

struct gate_sender {
	uint32_t key; /* gate_key(); 0: unused */
	uint16_t good, bad;
	uint8_t idle; /* judgements since something came, saturating */
	bool stands;
};

/* --- gate.c: who stands, and the program. No system calls, no clock. --- */

struct gate {
	bool is_v4, is_stale; /* the latter: the program is not what it should be */
	uint32_t word_at;     /* place of the word in a datagram */
	uint32_t mul[5];      /* secret, so that nobody can make another's key */
	uint32_t stand_cnt, judged;
	struct gate_sender sender[GATE_SETS * GATE_WAYS];
};

/** gate_key() - Of the sender at @ip with @word (as read in network order). Never 0. */
uint32_t gate_key(const struct gate *g, const uint8_t ip[16], uint32_t word);
/** gate_clear() - Nobody stands. */
void gate_clear(struct gate *g);
/** gate_known() - A peer with @key is there: it stands if there is room, unless something is known of it. */
void gate_known(struct gate *g, uint32_t key);
/** gate_note() - A datagram of @key has brought news, or nothing. */
void gate_note(struct gate *g, uint32_t key, bool is_news);
/** gate_stands() - Does @key stand, so that what it sends goes into the first socket? */
bool gate_stands(struct gate *g, uint32_t key);
/** gate_judge() - Who stands from now on? g->is_stale tells whether that has changed. */
void gate_judge(struct gate *g);
/** gate_prog() - The program for those who stand. Return: instructions. */
uint16_t gate_prog(const struct gate *g, struct sock_filter out[GATE_PROG_MAX]);

/* --- gate_sock.c: the sockets --- */

struct gate_sock {
	struct link_port *port;
	int fd, main_fd;
	bool is_on; /* while false fd is hardly read: all datagrams go into main_fd, ICMP errors into either */
	bool is_busy; /* something came into main_fd since the gate was read */
	uint32_t drops, main_drops;
	uint64_t next_ns;  /* when the gate may be read */
	uint64_t busy_ns;  /* when is_busy was so last */
	uint64_t judge_ns, lost_ns; /* last judgement; last losses */
	uint64_t unsent; /* of drop_full: datagrams of our own */
	struct gate g;
};

/**
 * gate_look() - Is the socket @fd of @p losing datagrams? Then its gate opens: *at, made at the first time. *seen is
 * the caller's, 0 at first.
 */
void gate_look(struct gate_sock **at, struct link_port *p, int fd, uint32_t *seen);
void gate_close(struct gate_sock *s);
/**
 * gate_is_due() - May the gate be read now, *now_ns? After a flood, too, now and then: it stays in its group, and the
 * kernel goes on giving it some of the port's ICMP errors.
 */
bool gate_is_due(struct gate_sock *s, uint64_t *now_ns);
/** gate_polled() - @cnt datagrams were read from the gate since @begin_ns. */
void gate_polled(struct gate_sock *s, uint64_t begin_ns, int cnt);

/* Taken before datagrams are looked at, for gate_done(). */
struct gate_mark {
	uint32_t key, progress;
	uint64_t drops;
};

/**
 * gate_mark() - While is_on: a datagram of @src, @len bytes at @buf, was read from @fd. Return: whether it is to be
 * looked at: not if it is from the first socket and its sender has lost his standing.
 */
bool gate_mark(struct gate_sock *s, int fd, const struct link_addr *src, const uint8_t *buf, uint32_t len,
	       struct gate_mark *m);
/** gate_done() - It was looked at. */
void gate_done(struct gate_sock *s, const struct link_addr *src, const struct gate_mark *m);

#endif

// SPDX-License-Identifier: BSD-2-Clause
// A network inside the process: any number of ports, virtual time, latency, and faults by a seed.
#ifndef SF_TESTS_UNIT_SIM_H
#define SF_TESTS_UNIT_SIM_H

#include "link/core/link_int.h"

/*
 * The simulation owns the clock: nodes opened with its link_world read it, and only sim_step()
 * moves it. Datagrams from one port to another arrive in order unless a fault says otherwise. Rates
 * are parts per million of datagrams.
 */
struct sim;

struct sim_attr {
	uint64_t seed;
	uint64_t latency_ns; /* one way; 0 = 5 us */
	uint64_t jitter_ns;  /* added, evenly distributed over [0, jitter) */
	uint32_t drop_ppm, dup_ppm;
	uint32_t reorder_ppm; /* delayed by up to 16 latencies, overtaken by those behind */
	uint32_t mtu;         /* bytes; 0 = 1472 */
	bool is_silent;       /* nobody says that a port is closed */
};

/** sim_world_open() - Return: 0; -ENOMEM. */
int sim_world_open(const struct sim_attr *attr, struct sim **out);
/** sim_world_close() - All its ports must be closed. NULL is fine. */
void sim_world_close(struct sim *s);
/** sim_world() - For link_node_attr; NULL for NULL. */
const struct link_world *sim_world(const struct sim *s);
/** sim_open() - The carrier of @p, below a node or alone. Return: 0; -EADDRINUSE; -ENOMEM. */
int sim_open(struct link_port *p, struct sim *sim, struct carrier **out);
/** sim_clock() - Where the virtual time is, for struct clk. */
const uint64_t *sim_clock(const struct sim *s);
/** sim_faults() - Other rates from now on. */
void sim_faults(struct sim *s, uint32_t drop_ppm, uint32_t dup_ppm, uint32_t reorder_ppm);
/** sim_cut() - Nothing passes to or from the ports at @udp_port any more; or again. */
void sim_cut(struct sim *s, uint16_t udp_port, bool is_cut);

enum sim_fate { SIM_PASS, SIM_DROP, SIM_DUP, SIM_DELAY };

/* What shall happen to this datagram; SIM_DELAY: it arrives 64 latencies later. */
typedef enum sim_fate (*sim_filter_fn)(void *ctx, const struct link_addr *src,
				       const struct link_addr *dst, const void *buf, size_t len);
/** sim_set_filter() - Ask @fn about every datagram; NULL: nobody. */
void sim_set_filter(struct sim *s, sim_filter_fn fn, void *ctx);

/** sim_inject() - A datagram that claims to be from @src arrives at @dst now. */
void sim_inject(struct sim *s, const struct link_addr *src, const struct link_addr *dst,
		const void *buf, size_t len);

/**
 * sim_step() - Let time pass until the next datagram arrives, or until @until_ns if that is earlier.
 * Return: false if neither will ever be (@until_ns is CLK_NEVER and nothing is on its way): time stands still.
 */
bool sim_step(struct sim *s, uint64_t until_ns);

#endif

// SPDX-License-Identifier: BSD-2-Clause
// Keys of regions: not to be guessed, good until the region goes, and for the ports that it is for while these are not
// shut. What was read before that arrives; a read that is stopped writes nothing.
#include <pthread.h>

#include "bulk_modes.h"

static void bulk__stale_key_is_refused(void **state)
{
	static uint8_t mem[64], local[64];

	for (enum mode m = 0; m < MODE_NUM; m++) {
		uint32_t old, key, tries = 0;

		if ((m == KERNEL || m == HELPED) && !has_cma())
			continue;
		open_mode(m);
		old = region(1, mem, sizeof(mem), LINK_GET);
		link_region_del(&fp.node[1], old);
		assert_int_equal(bulk_run(LINK_GET, local, 1, mem, old), -EACCES);
		/* until the same place is in use again, by the same memory */
		do {
			key = region(1, mem, sizeof(mem), LINK_GET);
			assert_true(++tries <= 100 * BULK_ENTRY_MIN);
			if ((key ^ old) % BULK_ENTRY_MIN)
				link_region_del(&fp.node[1], key);
		} while ((key ^ old) % BULK_ENTRY_MIN);
		assert_int_not_equal(key, old);
		assert_int_equal(bulk_run(LINK_GET, local, 64, mem, old), -EACCES);
		assert_int_equal(bulk_run(LINK_GET, local, 64, mem, key), 0);
		fp_close();
	}
}

/* Whether a key is given out again soon after its region has gone. */
static bool comes_back(uint32_t key)
{
	bool is_back = false;
	int x = 0;

	for (int i = 0; i < 500000 && !is_back; i++) {
		uint32_t next = region(1, &x, sizeof(x), LINK_GET);

		is_back = next == key;
		link_region_del(&fp.node[1], next);
	}
	return is_back;
}

static void link_region_add__keys_come_back_late(void **state)
{
	uint32_t first;
	int x = 0;

	open_mode(RING);
	first = region(1, &x, sizeof(x), LINK_GET);
	link_region_del(&fp.node[1], first);
	assert_true(!comes_back(first) || !comes_back(first)); /* by chance once in 8,600 tries */
	link_region_del(&fp.node[1], first); /* unknown keys are no error */
	link_region_del(&fp.node[1], 0);
	fp_close();
}

/* A key that is in use is not given out again, also where its region has the place of a smaller table. */
static void link_region_add__keys_differ(void **state)
{
	static uint8_t mem[BULK_ENTRY_MIN + 1];
	uint32_t key[BULK_ENTRY_MIN], last, i = 0;
	struct bulk_node *b;

	(void)state;
	open_mode(RING);
	for (uint32_t n = 0; n < BULK_ENTRY_MIN; n++)
		key[n] = region(1, mem + n, 1, LINK_GET);
	b = fp.node[1].bulk;
	assert_int_equal(b->entry_cnt, 2 * BULK_ENTRY_MIN); /* twice as many with the next, in the half that is added */
	while (!(key[i] & 2 * BULK_ENTRY_MIN))
		assert_true(++i < BULK_ENTRY_MIN / 2);
	b->random[0] = ~key[i];
	b->random[1] = key[i];
	b->random_cnt = 2;
	last = region(1, mem + BULK_ENTRY_MIN, 1, LINK_GET);
	assert_int_not_equal(last, key[i]);
	assert_int_equal(bulk_run(LINK_GET, mem, 1, mem + i, key[i]), 0);
	fp_close();
}

/* Who was told keys, and what they open, knows nothing of the others: each bit of each is a coin of its own. */
static void link_region_add__keys_are_not_guessed(void **state)
{
	static uint8_t mem[64], local[64];
	uint32_t ones[32] = {0}, equal[32] = {0}, last = 0, key[100];

	open_mode(RING);
	for (int n = 0; n < 4000; n++) {
		uint32_t k = region(1, mem, sizeof(mem), LINK_GET);

		for (int i = 0; i < 32; i++) {
			ones[i] += k >> i & 1;
			equal[i] += ~(k ^ last) >> i & 1;
		}
		last = k;
		link_region_del(&fp.node[1], k);
	}
	for (int i = 0; i < 32; i++) { /* 2000 +- 8 sigma */
		assert_in_range(ones[i], 1750, 2250);
		assert_in_range(equal[i], 1750, 2250);
	}
	for (size_t i = 0; i < ARRAY_SIZE(key); i++)
		key[i] = region(1, mem, sizeof(mem), LINK_GET);
	/* one in 20,000 runs meets a key of the hundred by chance: ask again then */
	for (uint32_t n = 1; n <= 1000; n++) {
		uint32_t guess[] = {key[50] + n, key[50] - n, key[50] ^ n << 20, key[50] + (n << 12)};

		for (size_t i = 0; i < ARRAY_SIZE(guess); i++) {
			bool is_key = false;

			for (size_t k = 0; k < ARRAY_SIZE(key); k++)
				is_key |= key[k] == guess[i];
			assert_true(is_key || bulk_run(LINK_GET, local, 1, mem, guess[i]) == -EACCES);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(key); i++)
		assert_int_equal(bulk_run(LINK_GET, local, sizeof(mem), mem, key[i]), 0);
	fp_close();
}

/* A region of one port is unknown to the peers of the node's other ports, on every path. */
static void link_port_region_add__is_for_one_port(void **state)
{
	static uint8_t mem[MIB], local[MIB];

	for (enum mode m = 0; m < MODE_NUM; m++) {
		uint32_t own, any;

		if ((m == KERNEL || m == HELPED) && !has_cma())
			continue;
		open_mode(m);
		fp.port[0].self.port = fp.peer[1][0].addr.port = 6000; /* HELPED: the initiator's region, too */
		fp.port[1].self.port = fp.peer[0][1].addr.port = 7000;
		assert_int_equal(link_port_region_add(&fp.port[1], mem, sizeof(mem), LINK_GET | LINK_PUT, &own), 0);
		any = region(1, mem, sizeof(mem), LINK_GET | LINK_PUT);
		assert_int_equal(bulk_run(LINK_GET, local, sizeof(mem), mem, own), 0);
		fp.port[1].self.port = fp.peer[0][1].addr.port = 7001; /* as another port of that node */
		for (int op = LINK_GET; op <= LINK_PUT; op++) {
			assert_int_equal(bulk_run(op, local, sizeof(mem), mem, own), -EACCES);
			assert_int_equal(bulk_run(op, local, 0, mem, own), -EACCES);
			assert_int_equal(bulk_run(op, local, sizeof(mem), mem, any), 0);
		}
		fp.port[1].self.port = fp.peer[0][1].addr.port = 7000;
		assert_int_equal(bulk_run(LINK_PUT, local, sizeof(mem), mem, own), 0);
		link_region_del(&fp.node[1], own);
		assert_int_equal(bulk_run(LINK_GET, local, sizeof(mem), mem, own), -EACCES);
		fp_close();
	}
}

/* As link_port_shut() does, and undoes. */
static void shut(int i, bool is_shut)
{
	fp.port[i].serves = is_shut ? LINK_SHUT : fp.port[i].group;
	if (!is_shut)
		return;
	bulk_port_shut(fp.port[i].bulk);
	bulk_port_settle(fp.port[i].bulk);
}

/* A region of a group is unknown to the peers of ports of other groups, on every path; one of none is for all. */
static void link_group_region_add__is_for_its_ports(void **state)
{
	static uint8_t mem[MIB], local[MIB];
	uint32_t key[3];

	(void)state;
	for (enum mode m = 0; m < MODE_NUM; m++) {
		if ((m == KERNEL || m == HELPED) && !has_cma())
			continue;
		open_mode(m);
		for (uint32_t g = 0; g < ARRAY_SIZE(key); g++)
			assert_int_equal(link_group_region_add(&fp.node[1], g, mem, sizeof(mem), LINK_GET | LINK_PUT,
							       &key[g]),
					 0);
		for (uint32_t of = 0; of < ARRAY_SIZE(key); of++) {
			fp.port[1].group = fp.port[1].serves = of;
			for (uint32_t g = 0; g < ARRAY_SIZE(key); g++) {
				int want = !g || g == of ? 0 : -EACCES;

				for (int op = LINK_GET; op <= LINK_PUT; op++) {
					assert_int_equal(bulk_run(op, local, sizeof(mem), mem, key[g]), want);
					assert_int_equal(bulk_run(op, local, 64, mem, key[g]), want);
					assert_int_equal(bulk_run(op, local, 0, mem, key[g]), want);
				}
			}
		}
		fp_close();
	}
}

/* Whatever the key says, nothing is served while the port is shut; and all is again afterwards. */
static void bulk_port_shut__refuses(void **state)
{
	static uint8_t mem[MIB], local[MIB];
	uint32_t key;

	(void)state;
	for (enum mode m = 0; m < MODE_NUM; m++) {
		if ((m == KERNEL || m == HELPED) && !has_cma())
			continue;
		open_mode(m);
		fp.port[1].group = 5;
		assert_int_equal(link_group_region_add(&fp.node[1], 5, mem, sizeof(mem), LINK_GET | LINK_PUT, &key), 0);
		for (int round = 0; round < 2; round++) {
			shut(1, true);
			memset(mem, 1, sizeof(mem));
			memset(local, 2, sizeof(local));
			for (int op = LINK_GET; op <= LINK_PUT; op++) {
				assert_int_equal(bulk_run(op, local, sizeof(mem), mem, key), -ENOTCONN);
				assert_int_equal(bulk_run(op, local, 0, mem, key), -ENOTCONN);
				assert_int_equal(bulk_run(op, local, 1, mem, key + 1), -ENOTCONN);
			}
			assert_true(mem[0] == 1 && !memcmp(mem, mem + 1, sizeof(mem) - 1));
			assert_true(local[0] == 2 && !memcmp(local, local + 1, sizeof(local) - 1));
			shut(1, false);
			for (int op = LINK_GET; op <= LINK_PUT; op++)
				assert_int_equal(bulk_run(op, local, sizeof(mem), mem, key), 0);
		}
		fp_close();
	}
}

/* An answer with a status of another version, or of nobody's, ends what it answers, and says no more than that. */
static void bulk__unknown_refusal(void **state)
{
	static uint8_t mem[64], local[64];
	uint32_t key;

	(void)state;
	for (enum mode m = RING; m < MODE_NUM; m += NET - RING) {
		for (int op = LINK_GET; op <= LINK_PUT; op++) {
			struct bulk_pkt pkt = {.type = BULK_T_REPLY};
			uint8_t buf[BULK_HDR_MAX];
			struct bulk_hdr asked;
			struct fp_done d;
			size_t n;

			open_mode(m);
			key = region(1, mem, sizeof(mem), LINK_GET | LINK_PUT);
			assert_int_equal(bulk(0, 1, op, local, sizeof(local), mem, key, &d), 0);
			assert_int_equal(fp.q_cnt, 1);
			memcpy(&asked, fp.q[0].bytes, sizeof(asked));
			pkt.id = le32_get(asked.id);
			pkt.tag = le32_get(asked.tag);
			n = bulk_pkt_encode(&pkt, buf);
			buf[offsetof(struct bulk_hdr, status)] = 99;
			fp_deliver_view(0, 1, buf, n);
			assert_true(fp_run(&d, PASSES));
			assert_int_equal(d.status, -EPROTO);
			assert_int_equal(fp.port[0].stats.drop_malformed, 0);
			fp_close();
		}
	}
}

/* A copy that is under way, after @passes: nothing is read or written from then on. Return: its status. */
static int shut_after(enum mode m, int op, int passes, uint8_t *local, uint8_t *mem, uint32_t key)
{
	struct fp_done d;

	memset(mem, 1, MIB);
	memset(local, 2, MIB);
	assert_int_equal(bulk(0, 1, op, local, MIB, mem, key, &d), 0);
	for (int i = 0; i < passes; i++)
		fp_pass();
	shut(1, true);
	memset(mem, 3, MIB);
	assert_true(fp_run(&d, PASSES));
	for (int i = 0; i < 100; i++)
		fp_pass();
	for (size_t i = 0; i < MIB; i++)
		if (mem[i] != 3 || local[i] == 3)
			fail_msg("%s, %d passes: byte %zu was %s", mode_name[m], passes, i,
				 op == LINK_GET ? "read" : "written");
	for (int i = 0; i < 2; i++)
		assert_int_equal(bulk_outstanding(fp.port[i].bulk), 0);
	shut(1, false);
	assert_int_equal(d.cnt, 1);
	return d.status;
}

static void bulk_port_shut__ends_what_is_under_way(void **state)
{
	uint8_t *local = malloc(MIB), *mem = malloc(MIB);
	uint32_t key;

	(void)state;
	for (enum mode m = 0; m < MODE_NUM; m++) {
		int ended = 0, done = 0;

		if (m >= KERNEL && m <= MIXED && !has_cma())
			continue;
		open_mode(m);
		key = region(1, mem, MIB, LINK_GET | LINK_PUT);
		for (int n = 0; n < 40; n++) {
			int rc = shut_after(m, n % 2 ? LINK_GET : LINK_PUT, n / 2, local, mem, key);

			if (rc && rc != -ENOTCONN)
				fail_msg("%s: %d", mode_name[m], rc);
			ended += rc != 0;
			done += !rc;
		}
		assert_true(ended && (done || m >= NET)); /* the network needs more passes than these */
		fp_close();
	}
	free(local);
	free(mem);
}

static void *settle_main(void *done)
{
	lock_acquire(&fp.lock);
	shut(1, true);
	lock_release(&fp.lock);
	atomic_store((_Atomic int *)done, 1);
	return NULL;
}

/*
 * One thread waits for the leases of a port that it has shut, and another one opens it: what peers hold from then on is
 * theirs, and is neither waited for nor taken away, also if the port is shut again before the first one looks.
 */
static void bulk_port_settle__ends_with_the_next_opening(void **state)
{
	uint64_t until = clk_now_ns(NULL) + 20 * NS_PER_SEC;
	static uint8_t mem[64];
	bool is_waiting = false;
	struct bulk_tab *tab;
	_Atomic int done = 0;
	pthread_t thread;
	uint32_t key;
	int slot;

	(void)state;
	open_mode(MIXED);
	key = region(1, mem, sizeof(mem), LINK_GET);
	tab = fp.node[1].bulk->tab;
	slot = bulk_tab_slot_claim(tab);
	assert_true(slot >= 0);
	assert_int_equal(bulk_lease_take(tab, slot, fp.port[1].self.port, key, LINK_GET, (uintptr_t)mem, 1), 0);
	lock_release(&fp.lock);
	assert_int_equal(pthread_create(&thread, NULL, settle_main, &done), 0);
	while (!is_waiting) { /* else it had not let go of the lock */
		assert_true(clk_now_ns(NULL) < until);
		lock_acquire(&fp.lock);
		is_waiting = fp.port[1].serves == LINK_SHUT;
		assert_false(done);
		fp.port[1].opened_cnt += is_waiting; /* as link_port_shut() does; then it is shut again */
		lock_release(&fp.lock);
	}
	while (!done)
		assert_true(clk_now_ns(NULL) < until);
	pthread_join(thread, NULL);
	lock_acquire(&fp.lock);
	assert_int_equal(bulk_lease_drop(tab, slot), 0);
	bulk_tab_slot_release(tab, slot);
	fp_close();
}

static void link_region_add__many(void **state)
{
	static uint32_t key[5000];
	static uint8_t mem[5000], got[5000];

	if (!has_cma())
		skip();
	open_mode(MIXED);
	for (uint32_t i = 0; i < ARRAY_SIZE(key); i++) {
		mem[i] = (uint8_t)(i * 7);
		key[i] = region(1, mem + i, 1, LINK_GET);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(key); i += 3) {
		fp.shm[0][1].is_polling = i % 2;
		assert_int_equal(bulk_run(LINK_GET, got + i, 1, mem + i, key[i]), 0);
		assert_int_equal(got[i], mem[i]);
		link_region_del(&fp.node[1], key[i]);
		assert_int_equal(bulk_run(LINK_GET, got + i, 1, mem + i, key[i]), -EACCES);
	}
	fp_close();
}

/* What a peer of another host has written is known, each byte once, until it ends; of this host's it is not asked. */
static void link_peer_wrote__counts_what_came(void **state)
{
	const uint64_t len = 3 * BULK_CHUNK - 100;
	static uint8_t mem[MIB], local[MIB];
	struct link_peer *from;
	uint32_t key, none;

	(void)state;
	open_mode(NET);
	from = &fp.peer[1][0];
	key = region(1, mem, sizeof(mem), LINK_GET | LINK_PUT);
	none = region(1, mem, sizeof(mem), LINK_GET);
	assert_true(link_peer_wrote(from, 0) && !link_peer_wrote(from, 1));
	assert_int_equal(bulk_run(LINK_GET, local, len, mem, key), 0);
	assert_int_equal(bulk_run(LINK_PUT, local, len, mem, none), -EACCES);
	assert_false(link_peer_wrote(from, 1));
	for (int i = 0; i < 2; i++)
		assert_int_equal(bulk_run(LINK_PUT, local, len, mem, key), 0);
	assert_true(link_peer_wrote(from, 2 * len) && !link_peer_wrote(from, 2 * len + 1));
	assert_false(link_peer_wrote(&fp.peer[1][2], 1) || link_peer_wrote(&fp.peer[0][1], 1));
	link_peer_told(from, len);
	assert_true(link_peer_wrote(from, len) && !link_peer_wrote(from, len + 1));
	fp_peer_dead(1, 0, -ECONNREFUSED);
	assert_false(link_peer_wrote(from, 1));
	fp_close();
	for (int how = 0; how < 2; how++) {
		open_mode(RING);
		from->is_near = how;
		from->shm = how ? NULL : from->shm;
		assert_true(link_peer_wrote(from, UINT64_MAX));
		link_peer_told(from, UINT64_MAX);
		fp_close();
	}
}

/* What has been handed to a path that keeps pointers arrives as it was, whatever becomes of the memory. */
static void bulk__region_goes_behind_its_chunks(void **state)
{
	size_t len = 3 * BULK_CHUNK - 100;
	uint8_t *local = malloc(len), *other = malloc(len), *mem = malloc(len), *was = malloc(len);
	uint32_t key, key_other;
	struct fp_done d[2];

	open_mode(NET);
	for (size_t i = 0; i < len; i++)
		was[i] = (uint8_t)(i * 31 >> 4);
	memcpy(mem, was, len);
	key = region(1, mem, len, LINK_GET);
	key_other = region(1, other, len, LINK_GET);
	assert_int_equal(bulk(0, 1, LINK_GET, local, len, mem, key, &d[0]), 0);
	assert_int_equal(bulk(0, 1, LINK_GET, local, 0, mem, key, &d[1]), 0);
	fp_pass_without(1);
	fp_move_one();
	fp_pass_without(0); /* the owner has sent all, and the reader has seen nothing */
	assert_int_equal(fp.port[1].bulk->leaving.tqh_first->unsent_cnt, 3);
	link_region_del(&fp.node[1], key_other); /* another one's end is nothing to them */
	link_region_del(&fp.node[1], key);
	memset(mem, 0xee, len);
	assert_true(fp_run(&d[0], PASSES));
	assert_int_equal(d[0].status, 0);
	assert_memory_equal(local, was, len);
	assert_true(fp_run(&d[1], PASSES));
	for (int i = 0; i < 10; i++)
		fp_pass();
	assert_int_equal(slab_used(&fp.port[1].bulk->bufs), 0);
	assert_int_equal(slab_used(&fp.port[1].bulk->streams), 0);
	fp_close();
	free(local);
	free(other);
	free(mem);
	free(was);
}

/* --- a reader's own region goes ------------------------------------------------------------------- */

/* A read that is stopped after @passes, which may be its end: nobody writes to its memory any more. */
static void stop_after(enum mode m, int passes, uint8_t *local, const uint8_t *mem, uint32_t key)
{
	struct fp_done d;

	assert_int_equal(bulk(0, 1, LINK_GET, local, MIB, mem, key, &d), 0);
	for (int i = 0; i < passes; i++)
		fp_pass();
	assert_true(link_bulk_stop(&fp.port[0], &d));
	memset(local, 0xdd, MIB);
	assert_true(fp_run(&d, PASSES));
	for (int i = 0; i < 100; i++)
		fp_pass();
	assert_int_equal(d.cnt, 1);
	assert_true(d.status == -EFAULT || (passes && !d.status));
	for (size_t i = 0; i < MIB; i++)
		if (local[i] != 0xdd)
			fail_msg("%s, %d passes: byte %zu was written", mode_name[m], passes, i);
	for (int i = 0; i < 2; i++)
		assert_int_equal(bulk_outstanding(fp.port[i].bulk), 0);
}

static void bulk__stopped(void **state)
{
	uint8_t *local = malloc(MIB), *mem = malloc(MIB);
	struct rng r = unit_rng();
	uint32_t key;

	(void)state;
	for (size_t i = 0; i < MIB; i++)
		mem[i] = (uint8_t)rng_below(&r, 200);
	for (enum mode m = 0; m < MODE_NUM; m++) {
		if (m >= KERNEL && m <= MIXED && !has_cma())
			continue;
		open_mode(m);
		key = region(1, mem, MIB, LINK_GET);
		for (int passes = 0; passes < 20; passes++)
			stop_after(m, passes, local, mem, key);
		/* of another cookie */
		assert_true(link_bulk_stop(&fp.port[0], local));
		assert_int_equal(bulk_run(LINK_GET, local, MIB, mem, key), 0);
		assert_memory_equal(local, mem, MIB);
		fp_close();
	}
	free(local);
	free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk__stale_key_is_refused),
		cmocka_unit_test(link_region_add__keys_come_back_late),
		cmocka_unit_test(link_region_add__keys_differ),
		cmocka_unit_test(link_region_add__keys_are_not_guessed),
		cmocka_unit_test(link_port_region_add__is_for_one_port),
		cmocka_unit_test(link_group_region_add__is_for_its_ports),
		cmocka_unit_test(bulk_port_shut__refuses),
		cmocka_unit_test(bulk__unknown_refusal),
		cmocka_unit_test(bulk_port_shut__ends_what_is_under_way),
		cmocka_unit_test(bulk_port_settle__ends_with_the_next_opening),
		cmocka_unit_test(link_region_add__many),
		cmocka_unit_test(link_peer_wrote__counts_what_came),
		cmocka_unit_test(bulk__region_goes_behind_its_chunks),
		cmocka_unit_test(bulk__stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

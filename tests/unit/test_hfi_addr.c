// SPDX-License-Identifier: BSD-2-Clause
// LIDs, contexts and sub-contexts as link addresses, both ways.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "nic/hfi/hfi_addr.h"

static void map_init(struct hostpart *map, const char *text)
{
	const uint8_t own[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
	struct link_room room;
	char err[512];

	assert_int_equal(link_room_parse(text, &room, err, sizeof(err)), 0);
	assert_int_equal(hostpart_init(map, &hfi_lid_kind, &room, own, err, sizeof(err)), 0);
}

/* Every context and sub-context of a LID has a port of its own, and it is told from the port again. */
static void ports__all(void **state)
{
	struct link_addr addr, first;
	struct hostpart map;
	uint16_t lid, ctxt, sub;

	(void)state;
	map_init(&map, "if=127.0.0.1");
	assert_int_equal(hfi_addr_of(&map, 2, 0, 0, &first), 0);
	assert_int_equal(first.port, 19200);
	assert_int_equal(first.nonce, 0);
	assert_int_equal(first.ip[15], 2);
	for (unsigned i = 0; i < HFI_CTXT_MAX * HFI_SUBCTXT_MAX; i++) {
		assert_int_equal(
			hfi_addr_of(&map, 2, (uint16_t)(i / HFI_SUBCTXT_MAX), (uint16_t)(i % HFI_SUBCTXT_MAX), &addr),
			0);
		assert_int_equal(addr.port, first.port + i);
		assert_memory_equal(addr.ip, first.ip, 16);
		assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), 0);
		assert_int_equal(lid, 2);
		assert_int_equal(ctxt, i / HFI_SUBCTXT_MAX);
		assert_int_equal(sub, i % HFI_SUBCTXT_MAX);
	}
	assert_int_equal(addr.port, 20479); /* Cassini's begin at 20480 */
}

static void ports__refusals(void **state)
{
	struct link_addr addr, keep;
	struct hostpart map;
	uint16_t lid, ctxt, sub;

	(void)state;
	map_init(&map, "if=127.0.0.1");
	memset(&addr, 0x5a, sizeof(addr));
	keep = addr;
	assert_int_equal(hfi_addr_of(&map, 2, HFI_CTXT_MAX, 0, &addr), -EINVAL);
	assert_int_equal(hfi_addr_of(&map, 2, 0, HFI_SUBCTXT_MAX, &addr), -EINVAL);
	assert_int_equal(hfi_addr_of(&map, 0, 0, 0, &addr), -ENETUNREACH);
	assert_int_equal(hfi_addr_of(&map, 0xc000, 0, 0, &addr), -ENETUNREACH);
	assert_int_equal(hfi_addr_of(&map, 0xffff, 0, 0, &addr), -ENETUNREACH);
	assert_memory_equal(&addr, &keep, sizeof(addr));
	assert_int_equal(hfi_addr_of(&map, HFI_LID_MAX, 0, 0, &addr), 0);
	addr.port = 19199;
	assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), -ERANGE);
	addr.port = 20480;
	assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), -ERANGE);
	addr.port = 0;
	assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), -ERANGE);
	addr.port = 19200;
	addr.ip[13] = 1; /* 127.1.191.255 */
	assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), -ERANGE);
	memset(addr.ip, 0, 12); /* no IPv4 address */
	assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), -ERANGE);
}

static void ports__map(void **state)
{
	struct link_addr addr;
	struct hostpart map;
	uint16_t lid, ctxt, sub;

	(void)state;
	map_init(&map, "if=127.0.0.1;map=9->127.0.0.2:40000,10->127.0.0.2:53248");
	assert_int_equal(hfi_addr_of(&map, 9, 159, 7, &addr), 0);
	assert_int_equal(addr.port, 39999);
	assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), 0);
	assert_int_equal(lid, 9);
	assert_int_equal(ctxt, 159);
	assert_int_equal(sub, 7);
	assert_int_equal(hfi_addr_of(&map, 10, 0, 0, &addr), 0);
	assert_int_equal(addr.port, 53248 - 1280);
	assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), 0);
	assert_int_equal(lid, 10);
	addr.port = 19200; /* no entry's, so the network's */
	assert_int_equal(hfi_addr_who(&map, &addr, &lid, &ctxt, &sub), 0);
	assert_int_equal(lid, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports__all),
		cmocka_unit_test(ports__refusals),
		cmocka_unit_test(ports__map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: BSD-2-Clause
// The capture decorator: blocks parsed here byte by byte, and by tshark where it is installed.
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/core/link_int.h"
#include "sim.h"

static struct {
	char dir[64];
	struct sim *sim;
	struct link_room room;
	struct link_node node;
	struct link_port port[3];
	struct carrier *net[3];
	uint32_t rx_cnt;
} w;

static void on_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	(void)ctx, (void)src, (void)buf, (void)len;
	w.rx_cnt++;
}

static void port_open(uint32_t i, bool is_v4)
{
	struct link_port *p = &w.port[i];
	struct carrier *c;

	p->node = &w.node;
	memset(p->self.ip, 0, 16);
	if (is_v4)
		memcpy(p->self.ip + 10, (uint8_t[]){0xff, 0xff, 192, 0, 2, (uint8_t)(1 + i)}, 6);
	else
		memcpy(p->self.ip, (uint8_t[]){0xfd, [15] = (uint8_t)(1 + i)}, 16);
	assert_int_equal(sim_open(p, w.sim, &c), 0);
	assert_int_equal(cap_open(p, c, &c), 0);
	c->rx = on_rx;
	p->net = w.net[i] = c;
	p->next = w.node.ports;
	w.node.ports = p;
}

static void world_open(const char *name, bool is_v4)
{
	struct sim_attr attr = {.seed = 1, .mtu = 65000};

	memset(&w, 0, sizeof(w));
	strcpy(w.dir, "/tmp/sf-test-cap-XXXXXX");
	assert_non_null(mkdtemp(w.dir));
	snprintf(w.room.pcap, sizeof(w.room.pcap), "%s/%s", w.dir, name);
	w.node.room = &w.room;
	assert_int_equal(sim_world_open(&attr, &w.sim), 0);
	w.node.clk.virt_ns = sim_clock(w.sim);
	port_open(0, is_v4);
	port_open(1, is_v4);
}

static void send_one(uint32_t from, uint32_t to, uint32_t len)
{
	static uint8_t bytes[65000];
	struct iovec iov[2] = {{bytes, len / 3}, {bytes + len / 3, len - len / 3}};

	for (uint32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * 7 + len);
	assert_int_equal(w.net[from]->ops->send(w.net[from], &w.port[to].self, iov, 2), 0);
	w.net[from]->ops->flush(w.net[from]);
	assert_true(sim_step(w.sim, CLK_NEVER));
	assert_int_equal(w.net[to]->ops->poll(w.net[to], 8), 1);
}

static void ports_close(void)
{
	for (uint32_t i = 0; i < 3; i++) {
		if (w.net[i])
			w.net[i]->ops->close(w.net[i]);
		w.net[i] = NULL;
	}
	w.node.ports = NULL;
}

static uint32_t file_cnt(void)
{
	DIR *d = opendir(w.dir);
	struct dirent *e;
	uint32_t cnt = 0;

	while ((e = readdir(d)))
		cnt += e->d_name[0] != '.';
	closedir(d);
	return cnt;
}

static void world_close(void)
{
	DIR *d;
	struct dirent *e;
	char path[512];

	ports_close();
	sim_world_close(w.sim);
	d = opendir(w.dir);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", w.dir, e->d_name);
		if (e->d_name[0] != '.')
			unlink(path);
	}
	closedir(d);
	rmdir(w.dir);
}

static uint32_t u32(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t be16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

/* One's complement sum over [@p, +@len), padded with 0. */
static uint32_t sum16(uint32_t sum, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 2)
		sum += (uint32_t)p[i] << 8 | (i + 1 < len ? p[i + 1] : 0);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void check_packet(const uint8_t *p, uint32_t len, uint32_t payload_len)
{
	bool is_v4 = p[0] >> 4 == 4;
	uint32_t ip_len = is_v4 ? 20 : 40, udp_len = 8 + payload_len;

	assert_int_equal(len, ip_len + udp_len);
	if (is_v4) {
		assert_int_equal(be16(p + 2), len);
		assert_int_equal(p[9], 17);
		assert_int_equal(sum16(0, p, 20), 0xffff);
	} else {
		assert_int_equal(be16(p + 4), udp_len);
		assert_int_equal(p[6], 17);
	}
	assert_int_equal(be16(p + ip_len + 4), udp_len);
	assert_int_not_equal(be16(p + ip_len + 6), 0);
	assert_int_equal(sum16(sum16(17 + udp_len, p + (is_v4 ? 12 : 8), is_v4 ? 8 : 32),
			       p + ip_len, udp_len),
			 0xffff);
	for (uint32_t i = 0; i < payload_len; i++)
		assert_int_equal(p[ip_len + 8 + i], (uint8_t)(i * 7 + payload_len));
}

static size_t slurp(const char *path, uint8_t **out)
{
	FILE *f = fopen(path, "rb");
	struct stat st;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	*out = malloc((size_t)st.st_size);
	assert_int_equal(fread(*out, 1, (size_t)st.st_size, f), st.st_size);
	fclose(f);
	return (size_t)st.st_size;
}

/* Every block of the file; packets have @len[i / 2] bytes, first out, then in. */
static void check_file(const char *path, const uint32_t *len, uint32_t cnt)
{
	uint8_t *buf;
	size_t size = slurp(path, &buf), at = 0;
	uint32_t packets = 0;

	for (uint32_t block = 0; at < size; block++) {
		uint32_t total = u32(buf + at + 4), cap_len, padded;

		assert_true(total >= 12 && total % 4 == 0 && at + total <= size);
		assert_int_equal(u32(buf + at + total - 4), total);
		if (block < 2) {
			assert_int_equal(u32(buf + at), block ? 1 : 0x0a0d0d0a);
		} else {
			assert_int_equal(u32(buf + at), 6);
			cap_len = u32(buf + at + 20);
			padded = (cap_len + 3) & ~3u;
			assert_int_equal(u32(buf + at + 24), cap_len);
			assert_int_equal((uint64_t)u32(buf + at + 12) << 32 | u32(buf + at + 16),
					 NS_PER_SEC + (packets + 1) / 2 * 5 * NS_PER_US);
			check_packet(buf + at + 28, cap_len, len[packets / 2]);
			/* option epb_flags: outbound, then inbound */
			assert_int_equal(u32(buf + at + 28 + padded), 4 << 16 | 2);
			assert_int_equal(u32(buf + at + 32 + padded), packets % 2 ? 1 : 2);
			packets++;
		}
		at += total;
	}
	assert_int_equal(packets, 2 * cnt);
	free(buf);
}

/* What tshark makes of it: packets that are good UDP with right checksums. Skipped where there is
 * no tshark. */
static void check_tshark(const char *path, uint32_t cnt)
{
	char cmd[512], line[256];
	uint32_t good = 0, all = 0;
	FILE *f;

	if (system("command -v tshark >/dev/null 2>&1")) {
		print_message("no tshark: only our own parser has read the file\n");
		return;
	}
	snprintf(cmd, sizeof(cmd),
		 "tshark -r %s -o udp.check_checksum:TRUE -o ip.check_checksum:TRUE -T fields -e "
		 "udp.checksum.status "
		 "-e _ws.malformed -e frame.packet_flags_direction 2>/dev/null",
		 path);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		good += !strcmp(line, all % 2 ? "1\t\t1\n" : "1\t\t2\n") ||
			!strcmp(line, all % 2 ? "1\t\t0x00000001\n" : "1\t\t0x00000002\n");
		if (!good)
			print_message("tshark: %s", line);
		all++;
	}
	assert_int_equal(pclose(f), 0);
	assert_int_equal(all, cnt);
	assert_int_equal(good, cnt);
}

static const uint32_t lens[] = {0, 1, 2, 3, 4, 40, 1472, 1471, 9001, 61440};

static void cap__file_is_well_formed(void **state)
{
	(void)state;
	for (int is_v4 = 0; is_v4 < 2; is_v4++) {
		world_open("x.pcapng", is_v4);
		assert_int_equal(file_cnt(), 0); /* lazily */
		for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++)
			send_one(i % 2, 1 - i % 2, lens[i]);
		assert_int_equal(w.rx_cnt, ARRAY_SIZE(lens));
		assert_int_equal(file_cnt(), 1); /* two ports of a node share it */
		check_file(w.room.pcap, lens, ARRAY_SIZE(lens));
		check_tshark(w.room.pcap, 2 * ARRAY_SIZE(lens));
		world_close();
	}
}

static void cap__never_overwrites(void **state)
{
	char path[512];

	(void)state;
	world_open("a.b/x.pcapng", true);
	snprintf(path, sizeof(path), "%s/a.b", w.dir);
	assert_int_equal(mkdir(path, 0700), 0);
	for (int run = 0; run < 3; run++) {
		static const uint32_t one[] = {100};

		send_one(0, 1, 100);
		ports_close();
		if (!run)
			snprintf(path, sizeof(path), "%s/a.b/x.pcapng", w.dir);
		else if (run == 1)
			snprintf(path, sizeof(path), "%s/a.b/x.%d.pcapng", w.dir, getpid());
		else
			snprintf(path, sizeof(path), "%s/a.b/x.%d-2.pcapng", w.dir, getpid());
		if (!run)
			check_file(path, one, 1);
		assert_int_equal(unlink(path) | (run < 2 ? close(creat(path, 0600)) : 0), 0);
		port_open(0, true);
		port_open(1, true);
	}
	for (int run = 0; run < 2; run++) {
		snprintf(path, sizeof(path), run ? "%s/a.b/x.pcapng" : "%s/a.b/x.%d.pcapng", w.dir,
			 getpid());
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/a.b", w.dir);
	assert_int_equal(rmdir(path), 0);
	world_close();
}

static void cap__pid_in_the_name(void **state)
{
	char path[512];

	(void)state;
	world_open("x-%p-y.pcapng", true);
	send_one(0, 1, 10);
	snprintf(path, sizeof(path), "%s/x-%d-y.pcapng", w.dir, getpid());
	assert_int_equal(access(path, R_OK), 0);
	world_close();
	world_open("noext", true);
	send_one(0, 1, 10);
	snprintf(path, sizeof(path), "%s/noext", w.dir);
	assert_int_equal(access(path, R_OK), 0);
	world_close();
}

static uint32_t g_warnings;

static void count_warnings(enum log_level lvl, const char *func, int line, const char *msg)
{
	(void)func, (void)line, (void)msg;
	g_warnings += lvl == LOG_LVL_WARN;
}

static void cap__no_file_is_no_harm(void **state)
{
	(void)state;
	g_warnings = 0;
	log_set_hook(count_warnings);
	world_open("missing/x.pcapng", true);
	for (int i = 0; i < 5; i++)
		send_one(0, 1, 10);
	assert_int_equal(w.rx_cnt, 5);
	assert_int_equal(g_warnings, 1);
	log_set_hook(NULL);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cap__file_is_well_formed),
		cmocka_unit_test(cap__never_overwrites),
		cmocka_unit_test(cap__pid_in_the_name),
		cmocka_unit_test(cap__no_file_is_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

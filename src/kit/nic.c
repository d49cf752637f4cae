// SPDX-License-Identifier: BSD-2-Clause
// The fid_nic of an fi_info: what the adapter behind it is, in one block of memory per object.
#include "kit/kit_int.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* Text follows the struct; the attributes point into it. */
struct kit_nic {
	struct fid_nic fid;
	struct fi_device_attr device;
	struct fi_bus_attr bus;
	struct fi_link_attr link;
	size_t prov_attr_len;
	int (*control)(struct fid_nic *nic, int command, void *arg);
	_Alignas(max_align_t) char text[]; /* behind the provider's attributes */
};

static int nic_close(struct fid *fid)
{
	mem_free(container_of(fid, struct kit_nic, fid.fid));
	return 0;
}

/* fi_dupinfo and we ask for a copy: an object shared by two infos would be closed twice. */
static int nic_control(struct fid *fid, int command, void *arg)
{
	const struct kit_nic *n = container_of(fid, struct kit_nic, fid.fid);
	const struct fi_pci_attr *pci = &n->bus.attr.pci;
	const struct kit_nic_attr attr = {
		.name = n->device.name,
		.device_id = n->device.device_id,
		.device_version = n->device.device_version,
		.vendor_id = n->device.vendor_id,
		.driver = n->device.driver,
		.firmware = n->device.firmware,
		.pci_always = n->bus.bus_type == FI_BUS_PCI, /* as it was found */
		.pci_domain = pci->domain_id,
		.pci_bus = pci->bus_id,
		.pci_device = pci->device_id,
		.pci_function = pci->function_id,
		.link_address = n->link.address,
		.network_type = n->link.network_type,
		.mtu = n->link.mtu,
		.speed = n->link.speed,
		.link_down = n->link.state == FI_LINK_DOWN,
		.prov_attr = n->fid.prov_attr,
		.prov_attr_len = n->prov_attr_len,
		.control = n->control,
	};
	struct fid_nic **dup = arg;

	if (command != FI_DUP)
		return n->control ? n->control((struct fid_nic *)&n->fid, command, arg)
				  : -FI_ENOSYS;
	*dup = kit_nic_new(&attr);
	return *dup ? 0 : -FI_ENOMEM;
}

static const char *or_null(const char *s)
{
	return s ? s : "(null)";
}

/* The bus in the layout of the rest. */
static void bus_tostr(const struct fi_bus_attr *bus, char *buf, size_t len)
{
	const struct fi_pci_attr *pci = &bus->attr.pci;

	if (bus->bus_type == FI_BUS_PCI)
		snprintf(buf, len,
			 "FI_BUS_PCI\n            fi_pci_attr:\n"
			 "                domain_id: %u\n                bus_id: %u\n"
			 "                device_id: %u\n                function_id: %u\n",
			 pci->domain_id, pci->bus_id, pci->device_id, pci->function_id);
	else
		snprintf(buf, len, "FI_BUS_UNKNOWN\n");
}

static int nic_tostr(const struct fid *fid, char *buf, size_t len)
{
	const struct kit_nic *n = container_of(fid, struct kit_nic, fid.fid);
	size_t used = strnlen(buf, len);
	char bus[256];
	int ret;

	bus_tostr(&n->bus, bus, sizeof(bus));

	/* fi_tostr() hands over the text so far: append, in the layout of the rest. */
	ret = snprintf(buf + used, len - used,
		       "    nic:\n"
		       "        fi_device_attr:\n"
		       "            name: %s\n            device_id: %s\n"
		       "            device_version: %s\n            vendor_id: %s\n"
		       "            driver: %s\n            firmware: %s\n"
		       "        fi_bus_attr:\n"
		       "            bus_type: %s"
		       "        fi_link_attr:\n"
		       "            address: %s\n            mtu: %zu\n            speed: %zu\n"
		       "            state: %s\n            network_type: %s\n",
		       or_null(n->device.name), or_null(n->device.device_id),
		       or_null(n->device.device_version), or_null(n->device.vendor_id),
		       or_null(n->device.driver), or_null(n->device.firmware), bus,
		       or_null(n->link.address), n->link.mtu, n->link.speed,
		       n->link.state == FI_LINK_DOWN ? "FI_LINK_DOWN" : "FI_LINK_UP",
		       or_null(n->link.network_type));
	return ret < 0 || (size_t)ret >= len - used ? -FI_ETOOSMALL : 0;
}

static struct fi_ops nic_ops = {
	.size = sizeof(struct fi_ops),
	.close = nic_close,
	.bind = kit_no_bind,
	.control = nic_control,
	.ops_open = kit_no_ops_open,
	.tostr = nic_tostr,
	.ops_set = kit_no_ops_set,
};

static size_t text_len(const char *s)
{
	return s ? strlen(s) + 1 : 0;
}

static char *text_put(char **at, const char *s)
{
	char *p = *at;

	if (!s)
		return NULL;
	memcpy(p, s, strlen(s) + 1);
	*at += strlen(s) + 1;
	return p;
}

/* A file of one number beside the PCI device, as "0x1d0f". */
static bool sysfs_is(const struct kit_nic_attr *a, const char *file, const char *want)
{
	const char *root = secure_getenv("SYSFS_PATH"); /* as the tools of real adapters take it */
	char path[512], text[32];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "%s/bus/pci/devices/%04x:%02x:%02x.%x/%s",
		 root ? root : "/sys", a->pci_domain, a->pci_bus, a->pci_device, a->pci_function,
		 file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0 || !want)
		return false;
	text[len] = '\0';
	return strtoul(text, NULL, 16) == strtoul(want, NULL, 16);
}

/* MPI libraries look an adapter's address up in the machine's topology, and some end the program
 * when nothing is there. A disk at the same address would tell them nothing true either. */
static bool pci_is_here(const struct kit_nic_attr *a)
{
	return a->pci_always ||
	       (sysfs_is(a, "vendor", a->vendor_id) && sysfs_is(a, "device", a->device_id));
}

struct fid_nic *kit_nic_new(const struct kit_nic_attr *a)
{
	size_t len = text_len(a->name) + text_len(a->device_id) + text_len(a->device_version) +
		     text_len(a->vendor_id) + text_len(a->driver) + text_len(a->firmware) +
		     text_len(a->link_address) + text_len(a->network_type);
	size_t attr_len = ALIGN_UP(a->prov_attr_len, _Alignof(max_align_t));
	struct kit_nic *n = mem_alloc(sizeof(*n) + attr_len + len);
	char *at;

	if (!n)
		return NULL;
	at = n->text + attr_len;
	if (a->prov_attr_len) {
		n->fid.prov_attr = n->text;
		memcpy(n->fid.prov_attr, a->prov_attr, a->prov_attr_len);
	}
	n->prov_attr_len = a->prov_attr_len;
	n->control = a->control;
	n->device.name = text_put(&at, a->name);
	n->device.device_id = text_put(&at, a->device_id);
	n->device.device_version = text_put(&at, a->device_version);
	n->device.vendor_id = text_put(&at, a->vendor_id);
	n->device.driver = text_put(&at, a->driver);
	n->device.firmware = text_put(&at, a->firmware);
	n->bus.bus_type = pci_is_here(a) ? FI_BUS_PCI : FI_BUS_UNKNOWN;
	if (n->bus.bus_type == FI_BUS_PCI)
		n->bus.attr.pci = (struct fi_pci_attr){.domain_id = a->pci_domain,
						       .bus_id = a->pci_bus,
						       .device_id = a->pci_device,
						       .function_id = a->pci_function};
	n->link.address = text_put(&at, a->link_address);
	n->link.network_type = text_put(&at, a->network_type);
	n->link.mtu = a->mtu;
	n->link.speed = a->speed;
	n->link.state = a->link_down ? FI_LINK_DOWN : FI_LINK_UP;
	n->fid.fid.fclass = FI_CLASS_NIC;
	n->fid.fid.ops = &nic_ops;
	n->fid.device_attr = &n->device;
	n->fid.bus_attr = &n->bus;
	n->fid.link_attr = &n->link;
	return &n->fid;
}

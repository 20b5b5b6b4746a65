/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/pci_acs.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "unit/hardware/rdma_tree.h"
#include "unit/unit.h"

enum { EXPRESS_AT = 0x70, AER_AT = 0x100, ACS_AT = 0x148 };

static void put_u16(uint8_t *config, size_t at, unsigned value)
{
	config[at] = (uint8_t)value;
	config[at + 1] = (uint8_t)(value >> 8);
}

/* A port of that type with AER before ACS, whose control word is given. */
static void make_port(uint8_t config[PCI_ACS_CONFIG], unsigned type, unsigned control)
{
	memset(config, 0, PCI_ACS_CONFIG);
	put_u16(config, 0x00, 0x10b5);
	put_u16(config, 0x06, 0x0010);
	config[0x34] = 0x40;
	put_u16(config, 0x40, EXPRESS_AT << 8 | 0x01); /* power management first */
	put_u16(config, EXPRESS_AT, 0x10);
	put_u16(config, EXPRESS_AT + 2, type << 4 | 2);
	put_u16(config, AER_AT, 0x0001);
	put_u16(config, AER_AT + 2, ACS_AT << 4 | 1);
	put_u16(config, ACS_AT, 0x000d);
	put_u16(config, ACS_AT + 2, 1);
	put_u16(config, ACS_AT + 4, 0x001f);
	put_u16(config, ACS_AT + 6, control);
}

static void test_control_word(void **state)
{
	static const struct {
		unsigned type, control;
		bool redirects;
	} rows[] = {
	    {PCI_PORT_DOWNSTREAM, 0x1d, true},	{PCI_PORT_DOWNSTREAM, 0x04, true},
	    {PCI_PORT_ROOT, 0x08, true},	{PCI_PORT_DOWNSTREAM, 0x00, false},
	    {PCI_PORT_DOWNSTREAM, 0x51, false}, {PCI_PORT_ENDPOINT, 0x1d, false},
	    {PCI_PORT_UPSTREAM, 0x1d, false},
	};
	uint8_t config[PCI_ACS_CONFIG];
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pci_acs acs;
		make_port(config, rows[i].type, rows[i].control);
		pci_acs_parse(config, sizeof(config), &acs);
		assert_int_equal(acs.state, PCI_ACS_PRESENT);
		assert_int_equal(acs.port_type, rows[i].type);
		assert_int_equal(acs.control, rows[i].control);
		assert_int_equal(pci_acs_redirects(&acs), rows[i].redirects);
	}
}

static void test_truncated(void **state)
{
	uint8_t config[PCI_ACS_CONFIG];
	struct pci_acs acs;
	make_port(config, PCI_PORT_ROOT, 0x1d);
	/* Each length from nothing to just before the control word: never an answer. */
	for (size_t length = 0; length < ACS_AT + 8; length++) {
		pci_acs_parse(config, length, &acs);
		assert_int_equal(acs.state, PCI_ACS_UNKNOWN);
		assert_false(pci_acs_redirects(&acs));
	}
	pci_acs_parse(config, ACS_AT + 8, &acs);
	assert_int_equal(acs.state, PCI_ACS_PRESENT);
}

static void test_lists_that_end_or_loop(void **state)
{
	uint8_t config[PCI_ACS_CONFIG];
	struct pci_acs acs;
	make_port(config, PCI_PORT_ROOT, 0x1d);
	put_u16(config, AER_AT + 2, 1); /* ends after AER */
	pci_acs_parse(config, sizeof(config), &acs);
	assert_int_equal(acs.state, PCI_ACS_ABSENT);

	put_u16(config, AER_AT + 2, AER_AT << 4 | 1); /* points to itself */
	config[0x41] = 0x40;
	pci_acs_parse(config, sizeof(config), &acs);
	assert_int_equal(acs.state, PCI_ACS_UNKNOWN);
	assert_int_equal(acs.port_type, PCI_PORT_UNKNOWN);

	memset(config, 0xff, sizeof(config)); /* fell off the bus */
	pci_acs_parse(config, sizeof(config), &acs);
	assert_int_equal(acs.state, PCI_ACS_UNKNOWN);

	memset(config, 0, sizeof(config)); /* conventional PCI */
	pci_acs_parse(config, sizeof(config), &acs);
	assert_int_equal(acs.state, PCI_ACS_ABSENT);
}

static void test_longest_list(void **state)
{
	uint8_t config[PCI_ACS_CONFIG];
	struct pci_acs acs;
	memset(config, 0, sizeof(config));
	/* 47 others, then ACS: the 48th is still looked at, a 49th would not be. */
	for (unsigned i = 0; i < PCI_ACS_LINK_MAX - 1; i++) {
		put_u16(config, PCI_ACS_EXTENDED + i * 8, 0x000b);
		put_u16(config, PCI_ACS_EXTENDED + i * 8 + 2,
			(PCI_ACS_EXTENDED + (i + 1) * 8) << 4 | 1);
	}
	unsigned last = PCI_ACS_EXTENDED + (PCI_ACS_LINK_MAX - 1) * 8;
	put_u16(config, last, 0x000d);
	pci_acs_parse(config, sizeof(config), &acs);
	assert_int_equal(acs.state, PCI_ACS_PRESENT);
	put_u16(config, last, 0x000b);
	put_u16(config, last + 2, (last + 8) << 4 | 1);
	put_u16(config, last + 8, 0x000d);
	pci_acs_parse(config, sizeof(config), &acs);
	assert_int_equal(acs.state, PCI_ACS_UNKNOWN);
}

static struct pci_path path_of(const char *text)
{
	struct pci_path path = {.depth = 0};
	assert_int_equal(pci_parse_path(text, strlen(text), &path), 0);
	return path;
}

static void test_bridges_between(void **state)
{
	struct pci_address bridge[PCI_ACS_BRIDGE_MAX];
	char text[PCI_TEXT_MAX];
	struct pci_path gpu = path_of("../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/"
				      "0000:02:00.0/0000:03:00.0"),
			near = path_of("../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/"
				       "0000:02:08.0/0000:05:00.0"),
			far = path_of("../../../devices/pci0000:80/0000:80:01.0/0000:85:00.0");
	assert_int_equal(pci_acs_bridges(&gpu, &near, bridge), 2);
	assert_string_equal(pci_address_to_string(&bridge[0], text), "0000:02:00.0");
	assert_string_equal(pci_address_to_string(&bridge[1], text), "0000:02:08.0");
	assert_int_equal(pci_acs_bridges(&gpu, &far, bridge), 4);
	assert_string_equal(pci_address_to_string(&bridge[3], text), "0000:80:01.0");
	assert_int_equal(pci_acs_bridges(&gpu, &gpu, bridge), 0);
}

static void test_iommu(void **state)
{
	assert_int_equal(pci_iommu_parse("identity\n", 9), PCI_IOMMU_PASSTHROUGH);
	assert_int_equal(pci_iommu_parse("DMA\n", 4), PCI_IOMMU_TRANSLATED);
	assert_int_equal(pci_iommu_parse("DMA-FQ", 6), PCI_IOMMU_TRANSLATED);
	assert_int_equal(pci_iommu_parse("", 0), PCI_IOMMU_UNKNOWN);
	assert_int_equal(pci_iommu_parse("DM", 2), PCI_IOMMU_UNKNOWN);

	struct pci_address address = {.bus = 0x0c};
	assert_int_equal(pci_iommu_read(unit_top, &address), PCI_IOMMU_UNKNOWN);
	rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = "0000:0c:00.0"});
	assert_int_equal(pci_iommu_read(unit_top, &address), PCI_IOMMU_OFF);
	rdma_tree_write(unit_top, "sys/kernel/iommu_groups/7/type", "DMA-FQ\n");
	rdma_tree_link(unit_top, "sys/devices/pci0000:00/0000:0c:00.0/iommu_group",
		       "../../../kernel/iommu_groups/7");
	assert_int_equal(pci_iommu_read(unit_top, &address), PCI_IOMMU_TRANSLATED);
}

static void test_read_config(void **state)
{
	uint8_t config[PCI_ACS_CONFIG];
	struct pci_address address = {.bus = 0x0c};
	struct pci_acs acs;
	rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = "0000:0c:00.0"});
	pci_acs_read(unit_top, &address, &acs);
	assert_int_equal(acs.state, PCI_ACS_UNKNOWN);
	make_port(config, PCI_PORT_DOWNSTREAM, 0x0c);
	const char *path = unit_path(unit_top, "sys/devices/pci0000:00/0000:0c:00.0/config");
	assert_int_equal(file_write_atomic(path, config, sizeof(config), 0644, NULL), 0);
	pci_acs_read(unit_top, &address, &acs);
	assert_true(pci_acs_redirects(&acs));
	/* what an ordinary user is shown */
	assert_int_equal(file_write_atomic(path, config, 64, 0644, NULL), 0);
	pci_acs_read(unit_top, &address, &acs);
	assert_int_equal(acs.state, PCI_ACS_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_control_word),
	    cmocka_unit_test(test_truncated),
	    cmocka_unit_test(test_lists_that_end_or_loop),
	    cmocka_unit_test(test_longest_list),
	    cmocka_unit_test(test_bridges_between),
	    cmocka_unit_test_setup_teardown(test_iommu, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_read_config, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

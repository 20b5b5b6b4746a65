/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/rdma_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "hardware/rdma.h"
#include "policy/config.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static struct config *parse(const char *text)
{
	struct config *config = NULL;
	struct err err = {0};
	if (config_parse_rdma(text, strlen(text), "c.json", NULL, false, &config, &err) < 0)
		fail_msg("%s", err.text);
	return config;
}

static struct config *parse_own(const char *text)
{
	struct config *config = NULL;
	struct err err = {0};
	if (config_parse(text, strlen(text), "c.yaml", NULL, false, &config, &err) < 0)
		fail_msg("%s", err.text);
	return config;
}

/* --- what is accepted ------------------------------------------------------------------------ */

static void test_files_that_people_have(void **state)
{
	static const struct {
		const char *file, *name;
		size_t entries, words;
		enum rdma_config_selector selector;
		uint32_t units, period_s;
	} rows[] = {
	    {"readme-devices.json", "rdma/hca_shared_devices_a", 2, 2, RDMA_SELECT_INTERFACE, 1000,
	     60},
	    {"readme-periodic.json", "rdma/cx5_bond_shared_devices_a", 2, 1, RDMA_SELECT_VENDOR,
	     1000, 300},
	    {"four-hcas.json", "rdma/shared_ib0", 4, 1, RDMA_SELECT_INTERFACE, 100, 60},
	};
	(void)state;
	for (size_t i = 0; i < array_length(rows); i++) {
		char path[FILE_PATH_MAX], name[RDMA_CONFIG_RESOURCE_MAX];
		struct config *config = NULL;
		struct err err = {0};
		assert_int_equal(file_path(path, NULL, "%s/tests/documents/rdma/%s",
					   getenv("MESON_SOURCE_ROOT"), rows[i].file),
				 0);
		if (config_load_any(path, NULL, true, &config, &err) < 0)
			fail_msg("%s", err.text);
		const struct rdma_config *rdma = &config->rdma;
		assert_true(rdma->is_set);
		assert_int_equal(config->warning_count, 0);
		assert_int_equal(rdma->count, rows[i].entries);
		assert_int_equal(rdma->period_s, rows[i].period_s);
		rdma_config_name(&rdma->entries[0], name);
		assert_string_equal(name, rows[i].name);
		assert_int_equal(rdma->entries[0].units, rows[i].units);
		assert_int_equal(rdma->entries[0].selectors[rows[i].selector].count, rows[i].words);
		(void)config_free(config);
	}
}

static void test_what_is_absent(void **state)
{
	(void)state;
	static const char entry[] = "[{\"resourceName\": \"x\", \"rdmaHcaMax\": 1, \"selectors\": "
				    "{\"vendors\": [\"15b3\"]}, \"devices\": []}]";
	char text[256];
	(void)snprintf(text, sizeof(text), "{\"configList\": %s}", entry);
	struct config *theirs = parse(text);
	(void)snprintf(text, sizeof(text), "sluice: {rdma: {configList: %s}}", entry);
	struct config *own = parse_own(text);
	const struct rdma_config_entry *old = theirs->rdma.entries, *new = own->rdma.entries;
	assert_int_equal(theirs->rdma.period_s, 60);
	assert_int_equal(own->rdma.period_s, 60);
	assert_string_equal(old->prefix, "rdma");
	assert_int_equal(old->health, RDMA_CONFIG_HEALTH_OFF);
	assert_int_equal(new->health, RDMA_CONFIG_HEALTH_PORT);
	assert_false(old->topology);
	assert_true(new->topology);
	assert_true(old->management);
	assert_false(new->management);
	for (const struct rdma_config_entry *at = old; at; at = at == old ? new : NULL) {
		assert_int_equal(at->needs, RDMA_KIND_BIT(RDMA_UVERBS));
		assert_int_equal(at->memlock_bytes, 0);
		assert_false(at->sets_link_up);
	}
	(void)config_free(theirs);
	(void)config_free(own);
}

static void test_every_field(void **state)
{
	(void)state;
	struct config *config = parse(
	    "{\"periodicUpdateInterval\": 0, \"configList\": [{\"ResourceName\": \"x\","
	    "\"resourcePrefix\": \"a.example\", \"rdmahcamax\": 16384, \"healthCheck\": \"port\","
	    "\"topology\": true, \"management\": false, \"setLinkUp\": true,"
	    "\"require\": [\"rdma_cm\", \"issm\", \"umad\"], \"memlock\": "
	    "\"64Gi\",\"memlockOnError\": \"warn\","
	    "\"selectors\": {\"vendors\": [\"15b3\", \"8086\"], \"deviceIDs\": [\"1017\"],"
	    "\"drivers\": [\"mlx5_core\"], \"ifNames\": [\"ib0\"], \"linkTypes\": "
	    "[\"ether\", \"infiniband\"]}}, {\"resourceName\": \"y\", \"rdmaHcaMax\": 1,"
	    "\"devices\": [\"ib1\"], \"memlock\": \"unlimited\", \"require\": []}]}");
	const struct rdma_config_entry *x = &config->rdma.entries[0], *y = x + 1;
	assert_int_equal(config->warning_count, 0);
	assert_int_equal(config->rdma.period_s, 0);
	assert_string_equal(x->prefix, "a.example");
	assert_int_equal(x->units, 16384);
	assert_int_equal(x->health, RDMA_CONFIG_HEALTH_PORT);
	assert_true(x->topology && !x->management && x->sets_link_up);
	assert_int_equal(x->needs, RDMA_KIND_BIT(RDMA_CM) | RDMA_KIND_BIT(RDMA_ISSM) |
				       RDMA_KIND_BIT(RDMA_UMAD));
	assert_int_equal(x->memlock_bytes, UINT64_C(64) << 30);
	for (size_t i = 0; i < RDMA_SELECT_COUNT; i++)
		assert_true(x->selectors[i].count > 0);
	assert_string_equal(x->selectors[RDMA_SELECT_VENDOR].items[1], "8086");
	assert_true(x->memlock_warns && !y->memlock_warns);
	assert_true(y->memlock_bytes == UINT64_MAX);
	assert_int_equal(y->needs, 0);
	assert_string_equal(y->selectors[RDMA_SELECT_INTERFACE].items[0], "ib1");
	(void)config_free(config);
}

/* --- what is refused ------------------------------------------------------------------------- */

struct refusal {
	const char *text, *message;
	int code;
};

#define ENTRY(fields) "{\"configList\": [{\"resourceName\": \"x\", " fields "}]}"
#define GOOD	      "\"devices\": [\"ib0\"], \"rdmaHcaMax\": 1"

static void test_refused(void **state)
{
	static const struct refusal rows[] = {
	    {"", "rdma config 'c.json': configList: at least one entry is needed", -EINVAL},
	    {"{}", "rdma config 'c.json': configList: at least one entry is needed", -EINVAL},
	    {"{\"configList\": []}",
	     "rdma config 'c.json': configList: at least one entry is needed", -EINVAL},
	    {"{\"configList\": null}",
	     "rdma config 'c.json': configList: at least one entry is needed", -EINVAL},
	    {"[]", "c.json:1:1: expected a map with configList, found a list", -EINVAL},
	    {"{\"configList\": {}}", "c.json:1:16: configList: expected a list, found a map",
	     -EINVAL},
	    {"{\"configList\": [1]}", "c.json:1:17: configList[0]: expected a map, found '1'",
	     -EINVAL},
	    {"{\"configList\": [{" GOOD "}]}",
	     "c.json:1:17: configList[0]: resourceName is not set", -EINVAL},
	    {"{\"configList\": [{\"resourceName\": \"-x\", " GOOD "}]}",
	     "c.json:1:34: configList[0].resourceName: '-x' is no name of a resource (1 to 63 "
	     "letters, digits, '-', '_' and '.', with a letter or digit at both ends)",
	     -EINVAL},
	    {"{\"configList\": [{\"resourceName\": \"a/b\", " GOOD "}]}",
	     "c.json:1:34: configList[0].resourceName: 'a/b' is no name of a resource (1 to 63 "
	     "letters, digits, '-', '_' and '.', with a letter or digit at both ends)",
	     -EINVAL},
	    {ENTRY("\"resourcePrefix\": \"A_b\", " GOOD),
	     "c.json:1:57: configList[0].resourcePrefix: 'A_b' is no DNS name (lower-case "
	     "letters, digits, '-' and '.', at most 191 characters)",
	     -EINVAL},
	    {"{\"configList\": [{\"resourceName\": \"x\", " GOOD "},\n"
	     "{\"resourceName\": \"y\", " GOOD "}, {\"resourceName\": \"x\", " GOOD "}]}",
	     "c.json:2:61: configList[2]: configList[0] (line 1) is 'rdma/x', too", -EINVAL},
	    {ENTRY(GOOD ", \"selectors\": {\"vendors\": [\"15b3\"]}"),
	     "c.json:1:50: configList[0]: both devices and selectors are set; devices is the old "
	     "spelling of selectors.ifNames: keep one of them",
	     -EINVAL},
	    {ENTRY("\"rdmaHcaMax\": 1, \"selectors\": {\"vendors\": []}, \"devices\": []"),
	     "c.json:1:17: configList[0]: neither devices nor selectors is set: say which "
	     "adapters are meant",
	     -EINVAL},
	    {ENTRY("\"devices\": [\"ib0\"], \"rdmaHcaMax\": -1"),
	     "c.json:1:73: configList[0].rdmaHcaMax: expected 0 to 16384, found -1", -EINVAL},
	    {ENTRY("\"devices\": [\"ib0\"], \"rdmaHcaMax\": 16385"),
	     "c.json:1:73: configList[0].rdmaHcaMax: expected 0 to 16384, found 16385", -EINVAL},
	    {ENTRY("\"devices\": [\"ib0\"], \"rdmaHcaMax\": \"1\""),
	     "c.json:1:73: configList[0].rdmaHcaMax: expected a whole number, found '1'", -EINVAL},
	    {"{\"periodicUpdateInterval\": -1, \"configList\": []}",
	     "c.json:1:28: periodicUpdateInterval: expected 0 to 2147483647, found -1", -EINVAL},
	    {ENTRY("\"devices\": \"ib0\", \"selectors\": {\"vendors\": [\"15b3\"]}"),
	     "c.json:1:50: configList[0].devices: expected a list of names, found 'ib0'", -EINVAL},
	    {ENTRY("\"devices\": [15]"),
	     "c.json:1:51: configList[0].devices: expected a text in quotes, found '15'", -EINVAL},
	    {ENTRY("\"devices\": [\"ib0\"], \"Devices\": [\"ib1\"]"),
	     "c.json:1:59: configList[0]: 'Devices' and 'devices' (line 1) are the same key",
	     -EINVAL},
	    {ENTRY(GOOD ", \"topology\": \"yes\""),
	     "c.json:1:88: configList[0].topology: expected true or false, found 'yes'", -EINVAL},
	    {ENTRY(GOOD ", \"healthCheck\": \"on\""),
	     "c.json:1:91: configList[0].healthCheck: expected off or port, found 'on'", -EINVAL},
	    {ENTRY(GOOD ", \"require\": [\"verbs\"]"),
	     "c.json:1:88: configList[0].require: expected uverbs, rdma_cm, umad or issm, found "
	     "'verbs'",
	     -EINVAL},
	    {ENTRY(GOOD ", \"memlock\": \"much\""),
	     "c.json:1:87: configList[0].memlock: expected unlimited or a size such as 64Gi, "
	     "found 'much'",
	     -EINVAL},
	    {ENTRY(GOOD ", \"memlockOnError\": true"),
	     "c.json:1:94: configList[0].memlockOnError: expected fail or warn, found 'true'",
	     -EINVAL},
	    {"{\"a\": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]], \"configList\": []}",
	     "rdma config 'c.json': 17 levels are more than the 16 that are allowed", -E2BIG},
	};
	(void)state;
	for (size_t i = 0; i < array_length(rows); i++) {
		struct config *config = NULL;
		struct err err = {0};
		int rc = config_parse_rdma(rows[i].text, strlen(rows[i].text), "c.json", NULL,
					   false, &config, &err);
		if (rc != rows[i].code || strcmp(err.text, rows[i].message) != 0)
			fail_msg("of %s\nsaid   '%s' (%d)\nwanted '%s'", rows[i].text, err.text, rc,
				 rows[i].message);
		assert_null(config);
	}
}

/* 256 entries and no more; a text of a mebibyte and no more. */
static void test_too_much(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf text;
	buf_init(&text, 2 << 20);
	assert_int_equal(buf_printf(&text, "{\"configList\": ["), 0);
	for (int i = 0; i < 257; i++)
		assert_int_equal(
		    buf_printf(&text, "%s{\"resourceName\": \"x%d\", " GOOD "}", i ? "," : "", i),
		    0);
	assert_int_equal(buf_printf(&text, "]}"), 0);
	struct config *config = NULL;
	struct err err = {0};
	assert_int_equal(
	    config_parse_rdma(buf_text(&text), text.length, "c.json", NULL, false, &config, &err),
	    -E2BIG);
	assert_string_equal(
	    err.text,
	    "c.json:1:16: configList: 257 entries are more than the 256 that are allowed");
	while (text.length <= (1 << 20))
		assert_int_equal(buf_printf(&text, "%1000s", " "), 0);
	assert_int_equal(
	    config_parse_rdma(buf_text(&text), text.length, "c.json", NULL, false, &config, &err),
	    -E2BIG);
	assert_null(config);
}

/* --- what is told ---------------------------------------------------------------------------- */

static void test_reported(void **state)
{
	static const struct {
		const char *text, *message;
		uint32_t line, column;
		bool is_note;
	} rows[] = {
	    {ENTRY("\"devices\": [\"ib0\"]"),
	     "configList[0].rdmaHcaMax: resource 'rdma/x' advertises 0 units", 1, 17, false},
	    {ENTRY("\"devices\": [\"ib0\"],\n \"rdmaHcaMax\": 0"),
	     "configList[0].rdmaHcaMax: resource 'rdma/x' advertises 0 units", 2, 16, false},
	    {ENTRY(GOOD ",\n\"rdmaHcamax1\": 3"),
	     "configList[0]: unknown key 'rdmaHcamax1'; did you mean 'rdmaHcaMax'?", 2, 1, false},
	    {"{\"zzz\": 1, \"configList\": [{\"resourceName\": \"x\", " GOOD "}]}",
	     "unknown key 'zzz'", 1, 2, false},
	    {ENTRY("\"rdmaHcaMax\": 1, \"selectors\": {\"vendors\": [\"0x15b3\"]}"),
	     "configList[0].selectors.vendors: '0x15b3' matches no adapter: expected four hex "
	     "digits in lower case without 0x, as 15b3",
	     1, 82, false},
	    {ENTRY("\"rdmaHcaMax\": 1, \"selectors\": {\"linkTypes\": [\"IB\"]}"),
	     "configList[0].selectors.linkTypes: 'IB' matches no adapter: expected ether or "
	     "infiniband",
	     1, 84, false},
	    {"{\"configList\": [{\"resourceName\": \"a-b\", " GOOD "}]}",
	     "configList[0].resourceName: Mellanox's plugin would refuse 'a-b': it takes letters, "
	     "digits and '_'",
	     1, 34, true},
	    {"{\"configList\": [{\"resourceName\": \"x\", " GOOD "}, {\"resourceName\": \"x\", "
	     "\"resourcePrefix\": \"a\", " GOOD "}]}",
	     "configList[1]: Mellanox's plugin would refuse it: it compares 'x' of configList[0] "
	     "without the prefix",
	     1, 77, true},
	    {"configList: [{resourceName: x, devices: [\"ib0\"], rdmaHcaMax: 1}]",
	     "Mellanox's plugin would refuse it: it is no JSON", 1, 1, true},
	};
	(void)state;
	for (size_t i = 0; i < array_length(rows); i++) {
		struct config *config = parse(rows[i].text), *strict = NULL;
		const struct config_warning *warning = &config->warning[0];
		struct err err = {0};
		if (config->warning_count != 1 || strcmp(warning->text, rows[i].message) != 0 ||
		    warning->line != rows[i].line || warning->column != rows[i].column)
			fail_msg("of %s\nsaid   %u:%u: '%s' (%u)\nwanted '%s'", rows[i].text,
				 warning->line, warning->column, warning->text,
				 config->warning_count, rows[i].message);
		assert_int_equal(warning->is_note, rows[i].is_note);
		int rc = config_parse_rdma(rows[i].text, strlen(rows[i].text), "c.json", NULL, true,
					   &strict, &err);
		assert_int_equal(rc, rows[i].is_note ? 0 : -EINVAL);
		(void)config_free(config);
		(void)config_free(strict);
	}
}

/* What is a warning in a file of others is an error in our own. */
static void test_own_keys(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
	    {"sluice: {rdma: {configList: [{resourceName: x, devices: [ib0], rdmahcamx: 1}]}}",
	     "c.yaml:1:64: sluice.rdma.configList[0]: unknown key 'rdmahcamx'; did you mean "
	     "'rdmaHcaMax'?"},
	    {"sluice: {rdma: {configList: [{resourceName: x, rdmaHcaMax: 1, selectors: {vendors: "
	     "[15B3]}}]}}",
	     "c.yaml:1:85: sluice.rdma.configList[0].selectors.vendors: '15B3' matches no "
	     "adapter: expected four hex digits in lower case without 0x, as 15b3"},
	    {"sluice: {rdma: {configList: []}}",
	     "rdma config 'c.yaml': configList: at least one entry is needed"},
	    {"sluice: {rdma: {periodicUpdateInterval: -5}}",
	     "c.yaml:1:41: sluice.rdma.periodicUpdateInterval: expected 0 to 2147483647, found -5"},
	    {"sluice: {rdma: {configFile: /x, configList: [{resourceName: x, devices: [ib0]}]}}",
	     "c.yaml: sluice.rdma: both configFile ('/x') and configList are set; keep one of "
	     "them"},
	};
	(void)state;
	for (size_t i = 0; i < array_length(rows); i++) {
		struct config *config = NULL;
		struct err err = {0};
		assert_int_equal(config_parse(rows[i].text, strlen(rows[i].text), "c.yaml", NULL,
					      false, &config, &err),
				 -EINVAL);
		assert_string_equal(err.text, rows[i].message);
	}
	struct config *config = parse_own("sluice: {rdma: {periodicUpdateInterval: 5}}");
	assert_false(config->rdma.is_set);
	assert_int_equal(config->rdma.period_s, 5);
	assert_string_equal(config->rdma_file, RDMA_CONFIG_PATH);
	(void)config_free(config);
}

static void test_which_file_it_is(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool is_rdma;
	} rows[] = {
	    {"{\"configList\": []}", true},
	    {"{\"CONFIGLIST\": [1]}", true},
	    {"periodicUpdateInterval: 3", true},
	    {"{}", false},
	    {"version: v1", false},
	    {"[\"configList\"]", false},
	    {"{\"configList\": [", false},
	};
	for (size_t i = 0; i < array_length(rows); i++)
		assert_int_equal(config_is_rdma(rows[i].text, strlen(rows[i].text)),
				 rows[i].is_rdma);
}

static int scenario_parse(void *context)
{
	static const char text[] = ENTRY(
	    "\"rdmaHcaMax\": 1, \"selectors\": {\"vendors\": [\"15b3\"], \"ifNames\": [\"ib0\"]}");
	struct config *config = NULL;
	struct err err = {0};
	(void)context;
	int rc = config_parse_rdma(text, strlen(text), "c.json", NULL, false, &config, &err);
	assert_int_equal(rc == 0, config != NULL);
	(void)config_free(config);
	return rc;
}

static void test_without_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(scenario_parse, NULL) > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_files_that_people_have),
	    cmocka_unit_test(test_what_is_absent),
	    cmocka_unit_test(test_every_field),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_too_much),
	    cmocka_unit_test(test_reported),
	    cmocka_unit_test(test_own_keys),
	    cmocka_unit_test(test_which_file_it_is),
	    cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests_name("policy/rdma_config", tests, NULL, NULL);
}

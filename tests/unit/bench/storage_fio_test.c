/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/storage_fio.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

#define JOB(error, read) "{\"jobs\": [{\"error\": " error ", \"read\": " read "}]}"
#define READ                                                                                       \
	"{\"io_bytes\": 4096000, \"total_ios\": 1000, \"runtime\": 20, \"clat_ns\": "              \
	"{\"percentile\": {\"50.000000\": 1500, \"99.000000\": 9000}}}"

static void what_it_says(void **state)
{
	struct reader_outcome outcome = {.wrong = 7};
	const char *text = "fio: something odd\n" JOB("0", READ);
	assert_int_equal(storage_fio_parse(text, strlen(text), &outcome, NULL), 0);
	assert_true(outcome.bytes == 4096000 && outcome.reads == 1000 &&
		    outcome.took_ns == 20000000);
	assert_true(outcome.p50_ns == 1500 && outcome.p99_ns == 9000 && outcome.wrong == 0);
}

static void what_is_none(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *says;
	} rows[] = {
	    {"", -EBADMSG, "no result"},
	    {"fio: no engine", -EBADMSG, "no result"},
	    {"{", -EBADMSG, "no result"},
	    {"{\"jobs\": []}", -EBADMSG, "no result"},
	    {JOB("0", "[]"), -EBADMSG, "read nothing"},
	    {JOB("0", "{\"io_bytes\": 1}"), -EBADMSG, "read nothing"},
	    {JOB("0", "{\"io_bytes\": 1, \"runtime\": 1e17}"), -EBADMSG, "no result"},
	    {JOB("22", READ), -EOPNOTSUPP, "O_DIRECT"},
	    {JOB("5", READ), -EIO, "error 5"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct reader_outcome outcome = {.bytes = 3};
		struct err err = {0};
		int result = storage_fio_parse(rows[i].text, strlen(rows[i].text), &outcome, &err);
		if (result != rows[i].code || !strstr(err.text, rows[i].says))
			fail_msg("'%s': %d, %s", rows[i].text, result, err.text);
		assert_true(outcome.bytes == 3);
	}
}

static void what_it_can(void **state)
{
	struct reader_case what = {READER_RANDOM, READER_DIRECT, 4096, 1};
	assert_true(storage_fio_can(&what));
	what.cache = READER_COLD;
	assert_false(storage_fio_can(&what));
	what = (struct reader_case){READER_FILES, READER_CACHED, 4096, 1};
	assert_false(storage_fio_can(&what));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_it_says),
	    cmocka_unit_test(what_is_none),
	    cmocka_unit_test(what_it_can),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

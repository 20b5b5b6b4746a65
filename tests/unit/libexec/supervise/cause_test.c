/* SPDX-License-Identifier: Apache-2.0 */
/* The lines are those of podman 4.3 with runc 1.1 and of docker 24, as they printed them. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "libexec/supervise/cause.h"
#include "unit/unit.h"

static void expect(const char *text, int code, int expected, const char *cause)
{
	char out[JOBDIR_TEXT_MAX] = "untouched";
	assert_int_equal(cause_find(text, strlen(text), code, out), expected);
	assert_string_equal(out, expected ? cause : "untouched");
}

static void the_runtimes_words_are_found(void **state)
{
	expect("Error: localhost/none:1: image not known\n", 125, 125,
	       "localhost/none:1: image not known");
	expect(
	    "Trying to pull r.invalid/x:1...\nError: initializing source docker://r.invalid/x:1: "
	    "no such host\n",
	    125, 125, "initializing source docker://r.invalid/x:1: no such host");
	expect("Error: statfs /nowhere: no such file or directory\n", 125, 125,
	       "statfs /nowhere: no such file or directory");
	expect("Error: workdir \"/no\" does not exist on container 17\n", 126, 126,
	       "workdir \"/no\" does not exist on container 17");
	expect("Error: runc: exec: \"nope\": executable file not found in $PATH: OCI runtime "
	       "attempted to invoke a command that was not found\r\n",
	       127, 127,
	       "runc: exec: \"nope\": executable file not found in $PATH: OCI runtime attempted to "
	       "invoke a command that was not found");
	expect("docker: Error response from daemon: No such image: a:1.\n\nRun 'docker run --help' "
	       "for more information\n",
	       125, 125, "Error response from daemon: No such image: a:1.");
	expect("Error: unknown flag: --x\nSee 'podman run --help'\n", 125, 125,
	       "unknown flag: --x");
	expect("Error: 2 errors occurred while pulling:\n * first\n\t* second\n", 125, 125,
	       "2 errors occurred while pulling: * first * second");
}

static void a_program_of_another_format_is_none_that_can_run(void **state)
{
	static const int codes[] = {1, 126, 255};
	for (size_t i = 0; i < array_length(codes); i++)
		expect("exec /bin/elf: exec format error\r\n", codes[i], 126,
		       "exec /bin/elf: exec format error");
	expect("standard_init_linux.go:228: exec user process caused: exec format error\n", 1, 126,
	       "standard_init_linux.go:228: exec user process caused: exec format error");
	expect("exec /bin/elf: exec format error\n", 2, 0, NULL);
	expect("exec /bin/elf: exec format error\nand more\n", 1, 0, NULL);
	expect("bash: /bin/elf: exec format error\n", 1, 0, NULL);
}

static void what_the_command_says_is_its_own(void **state)
{
	expect("", 125, 0, NULL);
	expect("\n\n\r\n", 125, 0, NULL);
	expect("sh: nope: not found\n", 127, 0, NULL);
	expect("Error: once\nthen it ran\n", 125, 0, NULL);
	expect("Error: ", 125, 0, NULL);
	expect("Error: mine\n", 1, 0, NULL);
	expect("Error: mine\n", 124, 0, NULL);
	expect("Error: mine\n", 128, 0, NULL);
	expect("Error: first\n 1\n 2\n 3\n 4\n 5\n 6\n 7\n 8\n 9\n 10\n 11\n 12\n", 125, 0, NULL);
}

static void a_long_text_is_cut_in_its_middle(void **state)
{
	char text[2 * CAUSE_READ], out[JOBDIR_TEXT_MAX];
	memset(text, 'x', sizeof(text));
	memcpy(text, "Error: begin", 12);
	memcpy(text + 600, "\x1b[2J end", 8);
	assert_int_equal(cause_find(text, 608, 125, out), 125);
	assert_int_equal(strlen(out), JOBDIR_TEXT_MAX - 1);
	assert_memory_equal(out, "beginx", 6);
	assert_non_null(strstr(out, "x ... x"));
	assert_string_equal(out + strlen(out) - 9, "x [2J end");
	/* of which the beginning is not looked at any more */
	assert_int_equal(cause_find(text, sizeof(text), 125, out), 0);
}

static void write_file(int dir_fd, const char *name, const char *text, size_t before)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	for (size_t i = 0; i < before; i++)
		assert_int_equal(write(fd, "a line\n", 7), 7);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static struct jobdir_result read_from(int dir_fd, int code)
{
	struct jobdir_result result = {.end = JOBDIR_EXITED, .value = code, .exit_code = code};
	cause_read(dir_fd, 2, &result);
	return result;
}

static void it_is_read_from_the_jobs_files(void **state)
{
	char path[] = "/tmp/sluice-unit-cause.XXXXXX";
	assert_non_null(mkdtemp(path));
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir_fd >= 0);

	assert_false(jobdir_is_container_error(&(struct jobdir_result){.end = JOBDIR_EXITED}));
	struct jobdir_result result = read_from(dir_fd, 125); /* no file at all */
	assert_false(jobdir_is_container_error(&result));

	write_file(dir_fd, "err.2", "Error: a: image not known\n", 2000);
	result = read_from(dir_fd, 125);
	assert_true(jobdir_is_container_error(&result));
	assert_string_equal(result.text, "a: image not known");
	assert_int_equal(result.exit_code, 125);
	result = read_from(dir_fd, 0);
	assert_false(jobdir_is_container_error(&result));

	/* at a terminal */
	write_file(dir_fd, "err.2", "", 0);
	write_file(dir_fd, "out.2", "exec /x: exec format error\r\n", 0);
	result = read_from(dir_fd, 1);
	assert_true(jobdir_is_container_error(&result));
	assert_int_equal(result.exit_code, 126);
	assert_int_equal(result.value, 126);

	/* its user has put something else there */
	assert_int_equal(unlinkat(dir_fd, "err.2", 0), 0);
	assert_int_equal(symlinkat("out.2", dir_fd, "err.2"), 0);
	result = read_from(dir_fd, 1);
	assert_false(jobdir_is_container_error(&result));

	(void)unlinkat(dir_fd, "err.2", 0);
	(void)unlinkat(dir_fd, "out.2", 0);
	(void)close(dir_fd);
	(void)rmdir(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_runtimes_words_are_found),
	    cmocka_unit_test(a_program_of_another_format_is_none_that_can_run),
	    cmocka_unit_test(what_the_command_says_is_its_own),
	    cmocka_unit_test(a_long_text_is_cut_in_its_middle),
	    cmocka_unit_test(it_is_read_from_the_jobs_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a script with options at its head, and its #SBATCH lines as options of sbatch. */
#include "cmd/script/run_script.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cmd/script/run_slurm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run_script script;
	struct err err = {0};
	char ours[RUN_SLURM_TEXT_MAX], *words[2];
	bool is_option;
	const char *bytes = (const char *)data;
	int rc = run_script_read("x", bytes, size, &script, &err);
	if (rc < 0 && err.text[0] == '\0')
		abort();

	for (size_t i = 0; rc == 0 && i < script.count; i++)
		if (script.lines[i] == 0 || strlen(script.words[i]) > size)
			abort();
	for (size_t i = 0; rc == 0 && i < script.note_count; i++)
		if (run_slurm_translate(script.notes[i].text, script.notes[i].length, ours,
					&is_option) &&
		    strlen(ours) >= sizeof(ours))
			abort();

	run_script_done(&script);
	(void)run_slurm_translate(bytes, size, ours, &is_option);
	(void)run_script_interpreter(bytes, size, words);
	free(words[0]);
	free(words[1]);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice completion SHELL`: a completion script made from the command table. Every script asks
 * three generated functions, each a case statement over "which command are we in": its verbs, its
 * options, the words that fit an option or the first argument.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/options.h"

enum completion_shell { COMPLETION_BASH, COMPLETION_ZSH, COMPLETION_FISH };

/* Called for every visible command below the root, `path` being "sim start". */
typedef void (*completion_visit)(const struct command *command, const char *path, void *context);

static void completion_walk(const struct command *command, const char *path, completion_visit visit,
			    void *context)
{
	visit(command, path, context);

	for (const struct command *const *at = command->commands; at && *at; at++) {
		if ((*at)->hidden)
			continue;
		char below[CMD_PATH_SIZE];
		(void)snprintf(below, sizeof(below), "%s%s%s", path, *path ? " " : "", (*at)->name);
		completion_walk(*at, below, visit, context);
	}
}

/* `text` inside single quotes, for all three shells. */
static void completion_quote(const char *text, bool fish)
{
	putchar('\'');

	for (; *text; text++) {
		if (*text == '\'')
			fputs(fish ? "\\'" : "'\\''", stdout);
		else if (*text == '\\' && fish)
			fputs("\\\\", stdout);
		else
			putchar(*text);
	}

	putchar('\'');
}

static void completion_words(const char *words)
{
	char word[OPTION_WORD_SIZE];
	for (size_t i = 0; options_word(words, i, word); i++)
		printf("%s%s", i ? " " : "", word);
}

static void completion_case_verbs(const struct command *command, const char *path, void *context)
{
	if (!command->commands)
		return;

	printf("\t'%s') echo \"", path);

	for (const struct command *const *at = command->commands; *at; at++) {
		if (!(*at)->hidden)
			printf("%s ", (*at)->name);
	}

	puts("\" ;;");
}

/* Options that take a value end in "="; what may stand without one is there both ways. */
static void completion_case_options(const struct command *command, const char *path, void *context)
{
	printf("\t'%s') echo \"", path);

	for (const struct option_row *row = command->options; row && row->name; row++) {
		if (row->hidden)
			continue;
		printf("--%s%s ", row->name, row->kind == OPTION_FLAG ? "" : "=");
		if (row->bare)
			printf("--%s ", row->name);
	}

	puts(*path ? "--help\" ;;" : "--help --version\" ;;");
}

/* "@file": file names, "@command": programs, "@any": anything, other words with '@': what
 * _sluice_ask tells. Keys are
 * "PATH:--option" and "PATH:". */
static void completion_case_values(const struct command *command, const char *path, void *context)
{
	for (const struct option_row *row = command->options; row && row->name; row++) {
		if (row->hidden || row->kind == OPTION_FLAG || row->bare)
			continue; /* the next word is not its value */

		printf("\t'%s:--%s'", path, row->name);
		if (row->letter)
			printf("|'%s:-%c'", path, row->letter);
		fputs(") echo \"", stdout);

		if (row->words)
			completion_words(row->words);
		else if (row->kind == OPTION_PATH)
			fputs("@file", stdout);
		else
			fputs("@any", stdout);

		puts("\" ;;");
	}

	if (command->takes_command)
		printf("\t'%s:') echo \"@command\" ;;\n", path);
	else if (command->positional_words) {
		printf("\t'%s:') echo \"", path);
		completion_words(command->positional_words);
		puts("\" ;;");
	} else if (command->positional_max > 0 && command != &cmd_help)

		printf("\t'%s:') echo \"@file\" ;;\n", path);
}

/* What is asked for at the moment of typing, a line each: the value, a tab, what it is. Nothing
 * where no agent answers. "@jobs" and the like; what is no kind of the first is of these. */
#define COMPLETION_ASK	    "sluice __complete"
#define COMPLETION_CHECKS   "sluice doctor --list 2>/dev/null | awk 'NR > 1 { print $1 }'"
#define COMPLETION_PROFILES "sluice sim profiles 2>/dev/null | awk 'NR > 1 { print $1 }'"

static void completion_posix_functions(const struct command *root)
{
	static const struct {
		const char *name;
		completion_visit visit;
	} functions[] = {
	    {"_sluice_verbs", completion_case_verbs},
	    {"_sluice_options", completion_case_options},
	    {"_sluice_values", completion_case_values},
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		printf("%s() {\n\tcase \"$1\" in\n", functions[i].name);
		completion_walk(root, "", functions[i].visit, NULL);
		puts("\tesac\n}\n");
	}

	puts("_sluice_ask() {\n\tcase \"$1\" in\n"
	     "\t@checks) " COMPLETION_CHECKS " ;;\n"
	     "\t@profiles) " COMPLETION_PROFILES " ;;\n"
	     "\t*) " COMPLETION_ASK " \"${1#@}\" -- \"$2\" 2>/dev/null ;;\n"
	     "\tesac\n}\n");
}

/*
 * bash splits "--output=js" into three words because '=' is in COMP_WORDBREAKS; the words are put
 * together again before anything is looked up. https://www.gnu.org/software/bash/manual/
 */
static const char bash_body[] =
    "_sluice_offer() {\n"
    "\tcase \"$1\" in\n"
    "\t@file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$2\") ;;\n"
    "\t@command) mapfile -t COMPREPLY < <(compgen -c -- \"$2\") ;;\n"
    "\t@any) ;;\n"
    "\t@*) mapfile -t COMPREPLY < <(compgen -W \"$(_sluice_ask \"$1\" \"$2\" | cut -f1)\" -- "
    "\"$2\") ;;\n"
    "\t*) mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$2\") ;;\n"
    "\tesac\n"
    "}\n"
    "\n"
    "_sluice() {\n"
    "\tlocal cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
    "\tlocal path=\"\" argument=0 option=\"\" i word\n"
    "\tCOMPREPLY=()\n"
    "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
    "\t\tword=\"${COMP_WORDS[i]}\"\n"
    "\t\tif [[ \"$word\" == -- ]]; then\n"
    "\t\t\tif ((i + 1 == COMP_CWORD)); then\n"
    "\t\t\t\t_sluice_offer \"$(_sluice_values \"$path:\")\" \"$cur\"\n"
    "\t\t\telse\n"
    "\t\t\t\tcompopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "\t\t\tfi\n"
    "\t\t\treturn\n"
    "\t\telif [[ \"$word\" == -* ]]; then\n"
    "\t\t\toption=\"$word\"\n"
    "\t\t\tif [[ \"${COMP_WORDS[i+1]}\" == = ]]; then\n"
    "\t\t\t\t((i + 1 == COMP_CWORD)) && cur=\"\"\n"
    "\t\t\t\ti=$((i + 2))\n"
    "\t\t\telif [[ -n \"$(_sluice_values \"$path:$word\")\" ]]; then\n"
    "\t\t\t\ti=$((i + 1))\n"
    "\t\t\telse\n"
    "\t\t\t\toption=\"\"\n"
    "\t\t\tfi\n"
    "\t\t\tif ((i >= COMP_CWORD)) && [[ -n \"$option\" ]]; then\n"
    "\t\t\t\t_sluice_offer \"$(_sluice_values \"$path:$option\")\" \"$cur\"\n"
    "\t\t\t\treturn\n"
    "\t\t\tfi\n"
    "\t\t\toption=\"\"\n"
    "\t\telif [[ $argument == 0 && \" $(_sluice_verbs \"$path\") \" == *\" $word \"* ]]; then\n"
    "\t\t\tpath=\"${path:+$path }$word\"\n"
    "\t\telif [[ $argument == 0 && \"$path\" == help* ]]; then\n"
    "\t\t\tpath=\"$path $word\"\n"
    "\t\telse\n"
    "\t\t\targument=$((argument + 1))\n"
    "\t\tfi\n"
    "\tdone\n"
    "\tif [[ \"$path\" == help* ]]; then\n"
    "\t\tpath=\"${path#help}\"\n"
    "\t\t_sluice_offer \"$(_sluice_verbs \"${path# }\")\" \"$cur\"\n"
    "\telif [[ \"$cur\" == -* ]]; then\n"
    "\t\tmapfile -t COMPREPLY < <(compgen -W \"$(_sluice_options \"$path\")\" -- \"$cur\")\n"
    "\t\t[[ ${#COMPREPLY[@]} == 1 && \"${COMPREPLY[0]}\" == *= ]] && compopt -o nospace\n"
    "\telif [[ $argument == 0 ]]; then\n"
    "\t\tword=\"$(_sluice_verbs \"$path\")\"\n"
    "\t\t_sluice_offer \"${word:-$(_sluice_values \"$path:\")}\" \"$cur\"\n"
    "\telse\n"
    "\t\tword=\"$(_sluice_values \"$path:\")\"\n"
    "\t\t[[ \"$word\" == @jobs ]] || word=@file\n"
    "\t\t_sluice_offer \"$word\" \"$cur\"\n"
    "\tfi\n"
    "}\n"
    "complete -F _sluice sluice\n";

static const char zsh_body[] =
    "_sluice_offer() {\n"
    "\tcase \"$1\" in\n"
    "\t(@file) _files ;;\n"
    "\t(@command) _command_names -e ;;\n"
    "\t(@any) _message 'value' ;;\n"
    "\t(@*) local -a values_ texts_; local value_ text_\n"
    "\t\twhile IFS=$'\\t' read -r value_ text_; do\n"
    "\t\t\tvalues_+=(\"$value_\"); texts_+=(\"$value_${text_:+  -- $text_}\")\n"
    "\t\tdone < <(_sluice_ask \"$1\" \"$PREFIX\")\n"
    "\t\tcompadd -l -d texts_ -a values_ ;;\n"
    "\t(*) compadd -- ${=1} ;;\n"
    "\tesac\n"
    "}\n"
    "\n"
    "_sluice() {\n"
    "\tlocal path_='' word values i argument=0\n"
    "\tfor ((i = 2; i < CURRENT; i++)); do\n"
    "\t\tword=${words[i]}\n"
    "\t\tif [[ $word == -- ]]; then\n"
    "\t\t\tshift $i words; ((CURRENT -= i)); _normal; return\n"
    "\t\telif [[ $word == --*=* ]]; then\n"
    "\t\t\tcontinue\n"
    "\t\telif [[ $word == -* ]]; then\n"
    "\t\t\tvalues=$(_sluice_values \"$path_:$word\")\n"
    "\t\t\t[[ -z $values ]] && continue\n"
    "\t\t\tif ((i + 1 == CURRENT)); then _sluice_offer \"$values\"; return; fi\n"
    "\t\t\t((i++))\n"
    "\t\telif [[ $argument == 0 && \" $(_sluice_verbs \"${path_#help }\") \" == *\" $word \"* ]]; "
    "then\n"
    "\t\t\tpath_=${path_:+$path_ }$word\n"
    "\t\t\t[[ $path_ == help ]] && path_='help '\n"
    "\t\telse\n"
    "\t\t\t((argument++))\n"
    "\t\tfi\n"
    "\tdone\n"
    "\tword=${words[CURRENT]}\n"
    "\tif [[ $word == --*=* ]]; then\n"
    "\t\tcompset -P '*='\n"
    "\t\t_sluice_offer \"$(_sluice_values \"$path_:${word%%=*}\")\"\n"
    "\telif [[ $word == -* ]]; then\n"
    "\t\tcompadd -S '' -- ${(M)${=$(_sluice_options \"$path_\")}:#*=}\n"
    "\t\tcompadd -- ${${=$(_sluice_options \"$path_\")}:#*=}\n"
    "\telif [[ $argument == 0 ]]; then\n"
    "\t\tvalues=$(_sluice_verbs \"${path_#help }\")\n"
    "\t\t_sluice_offer \"${values:-$(_sluice_values \"$path_:\")}\"\n"
    "\telse\n"
    "\t\tvalues=$(_sluice_values \"$path_:\")\n"
    "\t\t[[ $values == @jobs ]] || values=@file\n"
    "\t\t_sluice_offer \"$values\"\n"
    "\tfi\n"
    "}\n"
    "compdef _sluice sluice\n";

static const char fish_head[] =
    "# The command that is being typed: the words that are no options, without their values.\n"
    "function __sluice_at\n"
    "\tset -l path\n"
    "\tset -l words (commandline -opc)\n"
    "\tfor word in $words[2..-1]\n"
    "\t\tif contains -- (string join -- ' ' $path $word) $__sluice_paths\n"
    "\t\t\tset path $path $word\n"
    "\t\tend\n"
    "\tend\n"
    "\ttest \"$path\" = \"$argv[1]\"\n"
    "end\n"
    "\n"
    "function __sluice_ask\n"
    "\tswitch $argv[1]\n"
    "\t\tcase checks\n"
    "\t\t\t" COMPLETION_CHECKS "\n"
    "\t\tcase profiles\n"
    "\t\t\t" COMPLETION_PROFILES "\n"
    "\t\tcase '*'\n"
    "\t\t\t" COMPLETION_ASK " $argv[1] -- (commandline -ct | string replace -r '^--[^=]*=' '') "
    "2>/dev/null\n"
    "\tend\n"
    "end\n"
    "\n"
    "complete -c sluice -f\n"
    "complete -c sluice -s h -l help -d 'show help'\n"
    "complete -c sluice -n '__sluice_at \"\"' -s V -l version -d 'show the version'\n";

static void completion_fish_path(const struct command *command, const char *path, void *context)
{
	if (*path)
		printf(" '%s'", path);
}

/* fish reads the list as its own language: "util>100" would be a redirection. */
static void completion_fish_words(const char *words)
{
	char word[OPTION_WORD_SIZE];

	for (size_t i = 0; options_word(words, i, word); i++) {
		if (i)
			putchar(' ');

		for (const char *at = word; *at; at++) {
			if (strchr("<>|&;()[]{}*?$#~\"", *at))
				putchar('\\');
			putchar(*at);
		}
	}
}

static void completion_fish_command(const struct command *command, const char *path, void *context)
{
	for (const struct command *const *at = command->commands; at && *at; at++) {
		if ((*at)->hidden)
			continue;
		printf("complete -c sluice -n '__sluice_at \"%s\"' -a %s -d ", path, (*at)->name);
		completion_quote((*at)->summary, true);
		putchar('\n');
	}

	for (const struct option_row *row = command->options; row && row->name; row++) {
		if (row->hidden)
			continue;

		printf("complete -c sluice -n '__sluice_at \"%s\"' -l %s", path, row->name);
		if (row->letter)
			printf(" -s %c", row->letter);
		if (row->kind == OPTION_PATH)
			fputs(" -r -F", stdout);
		else if (row->kind != OPTION_FLAG && !row->bare)
			fputs(" -x", stdout);

		if (row->words && row->words[0] == '@') {
			printf(" -a '(__sluice_ask %s)'", row->words + 1);
		} else if (row->words) {
			fputs(" -a '", stdout);
			completion_fish_words(row->words);
			putchar('\'');
		}

		fputs(" -d ", stdout);
		completion_quote(row->help, true);
		putchar('\n');
	}

	if (command->takes_command)
		printf("complete -c sluice -n '__sluice_at \"%s\"' "
		       "-a '(__fish_complete_subcommand)'\n",
		       path);
	else if (command->positional_words && command->positional_words[0] == '@')
		printf("complete -c sluice -n '__sluice_at \"%s\"' -a '(__sluice_ask %s)'\n", path,
		       command->positional_words + 1);
	else if (command->positional_words) {
		printf("complete -c sluice -n '__sluice_at \"%s\"' -a '", path);
		completion_fish_words(command->positional_words);
		puts("'");
	} else if (command->positional_max > 0 && command != &cmd_help)

		printf("complete -c sluice -n '__sluice_at \"%s\"' -F\n", path);
}

static void completion_fish(const struct command *root)
{
	fputs("set -g __sluice_paths", stdout);
	completion_walk(root, "", completion_fish_path, NULL);
	putchar('\n');
	fputs(fish_head, stdout);
	completion_walk(root, "", completion_fish_command, NULL);
}

static int cmd_completion_run(const struct cmd_call *call)
{
	static const char shells[] = "bash|zsh|fish";
	char shell[OPTION_WORD_SIZE];
	size_t index = 0;

	while (options_word(shells, index, shell) && strcmp(shell, call->argv[0]) != 0)
		index++;

	switch (index) {
	case COMPLETION_BASH:
		puts("# bash completion for sluice, made by 'sluice completion bash'");
		completion_posix_functions(call->root);
		fputs(bash_body, stdout);
		return CMD_EXIT_OK;
	case COMPLETION_ZSH:
		puts("#compdef sluice\n# made by 'sluice completion zsh'");
		completion_posix_functions(call->root);
		fputs(zsh_body, stdout);
		return CMD_EXIT_OK;
	case COMPLETION_FISH:
		puts("# fish completion for sluice, made by 'sluice completion fish'");
		completion_fish(call->root);
		return CMD_EXIT_OK;
	default:
		return cmd_usage(call, "unknown shell '%s': bash, zsh and fish are known",
				 call->argv[0]);
	}
}

const struct command cmd_completion = {
    .name = "completion",
    .summary = "Print a script that completes sluice commands in a shell",
    .description = "The script is made from the same table as the commands' help. Load it with "
		   "'source <(sluice completion bash)' in bash and zsh, and with "
		   "'sluice completion fish | source' in fish.",
    .group = CMD_GROUP_HELP,
    .run = cmd_completion_run,
    .positional = "bash|zsh|fish",
    .positional_words = "bash|zsh|fish",
    .positional_min = 1,
    .positional_max = 1,
    .examples =
	(const struct cmd_example[]){
	    {"sluice completion bash > /etc/bash_completion.d/sluice", "for everybody, for good"},
	    {0}},
};

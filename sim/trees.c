/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the plan with what lies below the root and makes the difference. A manifest in the root
 * names everything that was made, and is written before anything is: what it does not name is not
 * ours, is never followed, replaced or removed, and stops us when it lies where we would write.
 */
#include "sim/trees.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/trees_plan.h"

#define MANIFEST      ".sluice-sim"
#define MANIFEST_HEAD "sluice: files of a simulated machine, made and removed by `sluice sim`\n"
#define TEMPORARY     ".sluice-sim-new"

enum trees_limits {
	MANIFEST_MAX = 8 << 20,
};

/* What the manifest says is ours: lines of "KIND PATH", sorted by path. */
struct manifest {
	char *text;  /* owned; cut into lines */
	char **line; /* owned array of borrowed lines */
	size_t count;
	bool found;
};

struct trees {
	int root; /* descriptor of the root directory */
	const char *name;
	struct manifest old;
	struct sim_error *error;
	/* the directory that was used last: most entries follow one another in the same one */
	int parent;
	char parent_path[SIM_PATH_MAX];
};

static void manifest_done(struct manifest *manifest)
{
	free(manifest->line);
	free(manifest->text);
	*manifest = (struct manifest){0};
}

static void trees_done(struct trees *trees)
{
	if (trees->parent >= 0)
		(void)close(trees->parent);
	if (trees->root >= 0)
		(void)close(trees->root);
	manifest_done(&trees->old);
}

static int trees_errno(struct trees *trees, const char *what, const char *path)
{
	int code = errno;
	return sim_fail(trees->error, SIM_EXIT_FAILED, "cannot %s '%s/%s': %s", what, trees->name,
			path, strerror(code));
}

static int trees_foreign(struct trees *trees, const char *path, const char *what)
{
	return sim_fail(trees->error, SIM_EXIT_FOREIGN,
			"'%s/%s' is %s and was not made by sluice: nothing was changed; move it "
			"away or use another --root",
			trees->name, path, what);
}

static const char *mode_word(mode_t mode)
{
	if (S_ISLNK(mode))
		return "a symbolic link";
	if (S_ISDIR(mode))
		return "a directory";
	if (S_ISCHR(mode) || S_ISBLK(mode))
		return "a device node";
	return S_ISREG(mode) ? "a file" : "a special file";
}

static bool kind_fits(enum sim_plan_kind kind, mode_t mode)
{
	switch (kind) {
	case SIM_PLAN_DIR:
		return S_ISDIR(mode);
	case SIM_PLAN_FILE:
	case SIM_PLAN_STREAM:
		return S_ISREG(mode);
	case SIM_PLAN_LINK:
		return S_ISLNK(mode);
	case SIM_PLAN_NODE:
		return S_ISCHR(mode);
	}

	return false;
}

static int read_all(int fd, char **out_text, size_t *out_length, size_t max)
{
	size_t capacity = 4096, length = 0;
	char *text = malloc(capacity + 1);

	while (text) {
		ssize_t got = read(fd, text + length, capacity - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 || length > max)
			break;

		if (got == 0) {
			text[length] = '\0';
			*out_text = text;
			*out_length = length;
			return 0;
		}

		length += (size_t)got;
		if (length == capacity) {
			capacity *= 2;
			char *bigger = realloc(text, capacity + 1);
			if (!bigger)
				break;
			text = bigger;
		}
	}

	free(text);
	return -1;
}

static int write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, bytes, length);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -1;

		bytes += written;
		length -= (size_t)written;
	}

	return 0;
}

/* A path that can only lead to something below the root: a manifest is a file that others could
 * have changed, and what it names gets removed. */
static bool path_stays_inside(const char *path)
{
	if (path[0] == '\0' || path[0] == '/' || strlen(path) >= SIM_PATH_MAX)
		return false;

	for (const char *part = path; part; part = strchr(part, '/')) {
		part += part[0] == '/';
		size_t length = strcspn(part, "/");
		if (length == 0 || (length == 1 && part[0] == '.') ||
		    (length == 2 && part[0] == '.' && part[1] == '.'))
			return false;
	}

	return true;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a + 2, *(char *const *)b + 2);
}

static int manifest_parse(struct trees *trees)
{
	struct manifest *manifest = &trees->old;
	size_t head = strlen(MANIFEST_HEAD), capacity = 0;
	if (strncmp(manifest->text, MANIFEST_HEAD, head) != 0)
		return trees_foreign(trees, MANIFEST, "not a list of simulated files");

	char *line = manifest->text + head;

	while (*line) {
		size_t length = strcspn(line, "\n");
		bool ended = line[length] == '\n';

		line[length] = '\0';
		if (length < 3 || line[1] != ' ' || !strchr("dflna", line[0]) ||
		    !path_stays_inside(line + 2))
			return trees_foreign(trees, MANIFEST, "damaged");

		if (manifest->count == capacity) {
			capacity = capacity ? capacity * 2 : 512;
			char **lines = reallocarray(manifest->line, capacity, sizeof(*lines));
			if (!lines)
				return sim_fail(trees->error, SIM_EXIT_FAILED, "out of memory");
			manifest->line = lines;
		}

		manifest->line[manifest->count++] = line;
		line += length + (ended ? 1 : 0);
	}

	if (manifest->count > 0)
		qsort(manifest->line, manifest->count, sizeof(*manifest->line), compare_lines);

	return 0;
}

static int manifest_load(struct trees *trees)
{
	int fd = openat(trees->root, MANIFEST, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && errno == ELOOP)
		return trees_foreign(trees, MANIFEST, "a symbolic link");
	if (fd < 0)
		return trees_errno(trees, "open", MANIFEST);

	struct stat status;
	int rc = 0;
	size_t length;

	if (fstat(fd, &status) != 0)
		rc = trees_errno(trees, "read", MANIFEST);
	else if (!S_ISREG(status.st_mode) || status.st_uid != geteuid())
		rc = trees_foreign(trees, MANIFEST, "somebody else's");
	else if (read_all(fd, &trees->old.text, &length, MANIFEST_MAX) != 0)
		rc = trees_errno(trees, "read", MANIFEST);

	(void)close(fd);
	if (rc != 0)
		return rc;

	trees->old.found = true;
	return manifest_parse(trees);
}

/* The kind under which `path` stands in the manifest; 0 when it is not ours. */
static char manifest_kind(const struct manifest *manifest, const char *path)
{
	size_t low = 0, high = manifest->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(manifest->line[middle] + 2, path);
		if (order == 0)
			return manifest->line[middle][0];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}

	return '\0';
}

/* Opens the directory of `path` step by step, so that no symbolic link is ever followed.
 * `*out_name` is the last part. Returns a borrowed descriptor or -1 with errno. */
static int trees_parent(struct trees *trees, const char *path, const char **out_name)
{
	const char *slash = strrchr(path, '/');
	*out_name = slash ? slash + 1 : path;
	if (!slash)
		return trees->root;

	size_t length = (size_t)(slash - path);
	if (trees->parent >= 0 && strlen(trees->parent_path) == length &&
	    strncmp(trees->parent_path, path, length) == 0)
		return trees->parent;
	if (trees->parent >= 0)
		(void)close(trees->parent);
	trees->parent = -1;
	(void)snprintf(trees->parent_path, sizeof(trees->parent_path), "%.*s", (int)length, path);

	int at = fcntl(trees->root, F_DUPFD_CLOEXEC, 3);

	for (const char *part = path; at >= 0 && part < slash;) {
		char name[SIM_PATH_MAX];
		size_t part_length = strcspn(part, "/");

		(void)snprintf(name, sizeof(name), "%.*s", (int)part_length, part);
		int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int code = errno;

		(void)close(at);
		errno = code;
		at = next;
		part += part_length + 1;
	}

	trees->parent = at;
	return at;
}

static void trees_forget_parent(struct trees *trees)
{
	if (trees->parent >= 0)
		(void)close(trees->parent);
	trees->parent = -1;
}

static bool content_equals(int directory, const char *name, const struct sim_plan_entry *entry)
{
	if (entry->kind == SIM_PLAN_LINK) {
		char target[SIM_PATH_MAX];
		ssize_t length = readlinkat(directory, name, target, sizeof(target));
		return length >= 0 && (size_t)length == entry->length &&
		       memcmp(target, entry->content, entry->length) == 0;
	}

	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;

	char *text = NULL;
	size_t length = 0;
	bool equal = read_all(fd, &text, &length, entry->length + 1) == 0 &&
		     length == entry->length &&
		     (length == 0 || memcmp(text, entry->content, length) == 0);

	(void)close(fd);
	free(text);
	return equal;
}

enum difference { DIFFERENCE_ERROR = -1, DIFFERENCE_NONE, DIFFERENCE_CREATE, DIFFERENCE_REPLACE };

static enum difference entry_difference(struct trees *trees, const struct sim_plan_entry *entry)
{
	const char *name;
	struct stat status;
	int directory = trees_parent(trees, entry->path, &name);
	if (directory < 0 || fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno == ENOENT)
			return DIFFERENCE_CREATE;

		/* what blocks the way is an entry of its own, and the message belongs to that one
		 */
		if (errno == ENOTDIR || errno == ELOOP)
			return DIFFERENCE_CREATE;

		(void)trees_errno(trees, "look at", entry->path);
		return DIFFERENCE_ERROR;
	}

	char ours = manifest_kind(&trees->old, entry->path);
	if (!ours && entry->kind == SIM_PLAN_DIR && S_ISDIR(status.st_mode) &&
	    status.st_uid == geteuid())
		return DIFFERENCE_NONE; /* there already: used, and not removed by us later */
	if (!ours || !kind_fits((enum sim_plan_kind)ours, status.st_mode)) {
		(void)trees_foreign(trees, entry->path, mode_word(status.st_mode));
		return DIFFERENCE_ERROR;
	}

	if ((enum sim_plan_kind)ours != entry->kind)
		return DIFFERENCE_REPLACE;
	if (entry->kind != SIM_PLAN_LINK && (status.st_mode & 07777) != entry->mode)
		return DIFFERENCE_REPLACE;
	if (entry->kind == SIM_PLAN_NODE)
		return status.st_rdev == entry->device ? DIFFERENCE_NONE : DIFFERENCE_REPLACE;
	if (entry->kind == SIM_PLAN_DIR || entry->kind == SIM_PLAN_STREAM)
		return DIFFERENCE_NONE;

	return content_equals(directory, name, entry) ? DIFFERENCE_NONE : DIFFERENCE_REPLACE;
}

/* Makes the entry under a temporary name; renaming it makes the change appear at once. The name is
 * always in the root, where removing looks for what a killed process left. */
static int entry_make(int directory, const char *name, const struct sim_plan_entry *entry)
{
	int fd;

	switch (entry->kind) {

	case SIM_PLAN_LINK: {
		char target[SIM_PATH_MAX];
		(void)snprintf(target, sizeof(target), "%.*s", (int)entry->length, entry->content);
		return symlinkat(target, directory, name);
	}
	case SIM_PLAN_NODE:
		if (mknodat(directory, name, S_IFCHR | entry->mode, entry->device) != 0)
			return -1;

		return fchmodat(directory, name, entry->mode, 0); /* the umask took bits away */
	case SIM_PLAN_DIR:
	case SIM_PLAN_FILE:
	case SIM_PLAN_STREAM:
		break;
	}
	fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -1;

	int rc = 0;

	if (entry->length > 0)
		rc = write_all(fd, entry->content, entry->length);
	if (rc == 0)
		rc = fchmod(fd, entry->mode);
	if (close(fd) != 0)
		rc = -1;

	return rc;
}

static int entry_apply(struct trees *trees, const struct sim_plan_entry *entry,
		       enum difference difference)
{
	const char *name;
	int directory = trees_parent(trees, entry->path, &name);
	if (directory < 0)
		return trees_errno(trees, "open the directory of", entry->path);

	bool same_kind = manifest_kind(&trees->old, entry->path) == (char)entry->kind;

	if (entry->kind == SIM_PLAN_DIR) {
		if (difference == DIFFERENCE_REPLACE && !same_kind)
			(void)unlinkat(directory, name, 0); /* was a file of ours */
		if (mkdirat(directory, name, 0755) != 0 && errno != EEXIST)
			return trees_errno(trees, "make directory", entry->path);
		if (fchmodat(directory, name, entry->mode, 0) != 0)
			return trees_errno(trees, "set the mode of", entry->path);

		return 0;
	}

	if (entry->kind == SIM_PLAN_STREAM && difference == DIFFERENCE_REPLACE) {
		if (fchmodat(directory, name, entry->mode, 0) != 0)
			return trees_errno(trees, "set the mode of", entry->path);
		return 0;
	}

	(void)unlinkat(trees->root, TEMPORARY, 0);
	if (entry_make(trees->root, TEMPORARY, entry) != 0) {
		int code = errno;

		(void)unlinkat(trees->root, TEMPORARY, 0);
		errno = code;

		if (entry->kind == SIM_PLAN_NODE && (code == EPERM || code == EACCES))
			return sim_fail(trees->error, SIM_EXIT_FAILED,
					"cannot make device node '%s/%s': %s; use --dev-style file",
					trees->name, entry->path, strerror(code));

		return trees_errno(trees, "make", entry->path);
	}

	if (renameat(trees->root, TEMPORARY, directory, name) != 0)
		return trees_errno(trees, "put in place", entry->path);

	return 0;
}

/* Removes what the manifest names and the plan does not, deepest first. A directory in which
 * somebody else put something stays; `kept` counts those. */
static int remove_stale(struct trees *trees, const struct sim_plan *plan, uint32_t *kept)
{
	size_t next = plan ? plan->count : 0;

	for (size_t i = trees->old.count; i > 0; i--) {
		char kind = trees->old.line[i - 1][0];
		const char *path = trees->old.line[i - 1] + 2;
		int order = 1;

		while (next > 0 && (order = strcmp(plan->entry[next - 1].path, path)) > 0)
			next--;

		if (next > 0 && order == 0 && (char)plan->entry[next - 1].kind == kind)
			continue;
		if (next > 0 && order == 0 && kind != SIM_PLAN_DIR)
			continue; /* replaced in place */

		const char *name;
		struct stat status;

		trees_forget_parent(trees);
		int directory = trees_parent(trees, path, &name);
		if (directory < 0 || fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
			continue; /* gone already */
		if (!kind_fits((enum sim_plan_kind)kind, status.st_mode)) {
			(*kept)++; /* somebody put something else there: theirs */
			continue;
		}

		int flag = kind == SIM_PLAN_DIR ? AT_REMOVEDIR : 0;
		if (unlinkat(directory, name, flag) == 0)
			continue;
		if (flag && (errno == ENOTEMPTY || errno == EEXIST || errno == EBUSY))
			(*kept)++;
		else
			return trees_errno(trees, "remove", path);
	}

	trees_forget_parent(trees);
	return 0;
}

/* Writes the manifest: everything of `plan` that is ours or will be, and with `both` also what the
 * old one names, so that a crash half way leaves nothing that nobody knows of. */
static int manifest_write(struct trees *trees, const struct sim_plan *plan, const bool *mine,
			  bool both)
{
	(void)unlinkat(trees->root, TEMPORARY, 0);
	int fd = openat(trees->root, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return trees_errno(trees, "make", MANIFEST);

	FILE *file = fdopen(fd, "w");
	if (!file) {
		(void)close(fd);
		return trees_errno(trees, "make", MANIFEST);
	}

	(void)fputs(MANIFEST_HEAD, file);

	for (size_t i = 0; i < plan->count; i++) {
		if (mine[i])
			(void)fprintf(file, "%c %s\n", (int)plan->entry[i].kind,
				      plan->entry[i].path);
	}

	size_t next = 0;

	for (size_t i = 0; both && i < trees->old.count; i++) {
		const char *path = trees->old.line[i] + 2;
		int order = -1;
		while (next < plan->count && (order = strcmp(plan->entry[next].path, path)) < 0)
			next++;

		if (next == plan->count || order != 0)
			(void)fprintf(file, "%s\n", trees->old.line[i]);
	}

	bool bad = ferror(file) != 0;
	if (fclose(file) != 0 || bad ||
	    renameat(trees->root, TEMPORARY, trees->root, MANIFEST) != 0)
		return trees_errno(trees, "write", MANIFEST);

	return 0;
}

/* mkdir -p without following a symbolic link at the end. Returns a descriptor or -1. */
static int open_root(const char *root, bool create, struct sim_error *error)
{
	char path[SIM_PATH_MAX];
	if (root[0] != '/' || strlen(root) >= sizeof(path) || strcmp(root, "/") == 0)
		return sim_fail(error, SIM_EXIT_INPUT,
				"'%s' cannot be the root of a simulated machine: give the absolute "
				"path of a directory of its own",
				root);

	(void)snprintf(path, sizeof(path), "%s", root);

	for (char *slash = path + 1; create && (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(path, 0755); /* the last step reports what is wrong */
		*slash = '/';
	}

	if (create && mkdir(path, 0755) != 0 && errno != EEXIST)
		return sim_fail(error, SIM_EXIT_FAILED, "cannot make directory '%s': %s", path,
				strerror(errno));

	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;

	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return sim_fail(error, SIM_EXIT_FOREIGN,
				"'%s' is no directory (or a symbolic link): use another --root",
				path);

	if (fd < 0) {
		int code = errno;
		(void)sim_fail(error, SIM_EXIT_FAILED, "cannot open '%s': %s", path,
			       strerror(code));
		errno = code;
		return -1;
	}

	if (fstat(fd, &status) != 0 || status.st_uid != geteuid()) {
		(void)close(fd);
		errno = EPERM;
		return sim_fail(error, SIM_EXIT_FOREIGN,
				"'%s' belongs to another user: use another --root", path);
	}

	return fd;
}

/* Of the machine, or in which its service keeps files: /var/run/cdi, /var/lib/kubelet. */
static bool may_be_there(const struct sim_plan *plan, const char *path)
{
	if (strcmp(path, "var") == 0)
		return true;
	for (size_t i = 0; i < plan->count; i++) {
		if (strcmp(plan->entry[i].path, path) == 0)
			return plan->entry[i].kind == SIM_PLAN_DIR;
	}
	return false;
}

/* A root without a manifest may hold directories of ours that the machine has too, as those in
 * which an agent left something when the last machine there was stopped. Anything else is a sign
 * that
 * --root points at something else. */
static int refuse_strangers(struct trees *trees, const struct sim_plan *plan)
{
	int fd = fcntl(trees->root, F_DUPFD_CLOEXEC, 3);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	if (!directory) {
		if (fd >= 0)
			(void)close(fd);
		return trees_errno(trees, "list", ".");
	}

	rewinddir(directory);
	int rc = 0;
	struct dirent *entry;

	while (rc == 0 && (entry = readdir(directory))) {
		struct stat status;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    strcmp(entry->d_name, TEMPORARY) == 0 ||
		    fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
			continue;

		if (S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
		    may_be_there(plan, entry->d_name))
			continue;

		rc = trees_foreign(trees, entry->d_name, mode_word(status.st_mode));
	}

	(void)closedir(directory);
	return rc;
}

static int plan_make(struct sim_plan *plan, const struct sim_machine *machine,
		     struct sim_error *error)
{
	sim_trees_plan_dev(plan, machine);
	sim_trees_plan_proc(plan, machine);
	if (sim_trees_plan_sys(plan, machine, error) != 0)
		return -1;

	sim_trees_plan_driver(plan, machine);
	sim_plan_stream(plan, "kmsg");
	sim_plan_stream(plan, "uevent");
	sim_plan_dir(plan, SIM_TREES_RUNTIME);

	return sim_plan_finish(plan, error);
}

/* `difference` and `mine` have one element per entry of the plan. */
static int trees_change(struct trees *trees, const struct sim_plan *plan,
			enum difference *difference, bool *mine)
{
	size_t changes = 0, kept = 0;

	for (size_t i = 0; i < plan->count; i++) {
		const struct sim_plan_entry *entry = &plan->entry[i];
		difference[i] = entry_difference(trees, entry);
		if (difference[i] == DIFFERENCE_ERROR)
			return -1;

		bool ours = manifest_kind(&trees->old, entry->path) != '\0';
		mine[i] = ours || difference[i] == DIFFERENCE_CREATE;
		kept += ours;
		changes += difference[i] != DIFFERENCE_NONE;
	}

	if (changes == 0 && kept == trees->old.count && trees->old.found)
		return 0;
	if (manifest_write(trees, plan, mine, true) != 0)
		return -1;

	uint32_t foreign = 0;
	if (remove_stale(trees, plan, &foreign) != 0)
		return -1;

	for (size_t i = 0; i < plan->count; i++) {
		if (difference[i] != DIFFERENCE_NONE &&
		    entry_apply(trees, &plan->entry[i], difference[i]) != 0)
			return -1;
	}

	return manifest_write(trees, plan, mine, false);
}

int sim_trees_sync(const struct sim_machine *machine, struct sim_error *error)
{
	if (machine->root[0] == '\0')
		return 0;

	struct trees trees = {.root = -1, .parent = -1, .name = machine->root, .error = error};
	struct sim_plan plan = {0};
	enum difference *difference = NULL;
	bool *mine = NULL;
	int rc = plan_make(&plan, machine, error);
	if (rc == 0) {
		trees.root = open_root(machine->root, true, error);
		rc = trees.root < 0 ? -1 : manifest_load(&trees);
	}

	if (rc == 0 && !trees.old.found)
		rc = refuse_strangers(&trees, &plan);

	if (rc == 0) {
		difference = calloc(plan.count, sizeof(*difference));
		mine = calloc(plan.count, sizeof(*mine));
		rc = difference && mine ? trees_change(&trees, &plan, difference, mine)
					: sim_fail(error, SIM_EXIT_FAILED, "out of memory");
	}

	free(difference);
	free(mine);
	sim_plan_done(&plan);
	trees_done(&trees);

	return rc;
}

int sim_trees_remove(const char *root, struct sim_error *error)
{
	struct trees trees = {.root = -1, .parent = -1, .name = root, .error = error};

	errno = 0;
	trees.root = open_root(root, false, error);
	if (trees.root < 0)
		return errno == ENOENT ? 0 : -1;

	uint32_t kept = 0;
	int rc = manifest_load(&trees);
	if (rc == 0 && trees.old.found)
		rc = remove_stale(&trees, NULL, &kept);

	if (rc == 0) {
		if (trees.old.found)
			(void)unlinkat(trees.root, MANIFEST, 0);
		(void)unlinkat(trees.root, TEMPORARY, 0);
		(void)rmdir(root); /* stays when something of somebody else is in it */
	}

	trees_done(&trees);
	return rc;
}

bool sim_trees_are_at(const char *root)
{
	char path[SIM_PATH_MAX + 16];
	(void)snprintf(path, sizeof(path), "%s/" MANIFEST, root);
	return access(path, F_OK) == 0;
}

bool sim_trees_can_make_nodes(void)
{
	char directory[] = "/tmp/sluice-sim-XXXXXX", path[64];
	if (!mkdtemp(directory))
		return false;

	(void)snprintf(path, sizeof(path), "%s/node", directory);
	bool can = mknod(path, S_IFCHR | 0600, makedev(SIM_MAJOR_NVIDIA, 255)) == 0;

	(void)unlink(path);
	(void)rmdir(directory);
	return can;
}

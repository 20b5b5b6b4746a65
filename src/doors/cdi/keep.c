/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/cdi/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "cdi/gather.h"
#include "cdi/generate.h"
#include "doors/cdi/keep_internal.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"

/* --- names ----------------------------------------------------------------------------------- */

static const char keep_prefix[] = "sluice";
#define KEEP_CHANNELS "/imex-channel"

/* A vendor that is ours has the prefix already: nobody else's file begins so. */
void keep_name(const char *kind, char out[KEEP_NAME_MAX])
{
	bool is_own = text_starts_with(kind, "sluice.");
	(void)snprintf(out, KEEP_NAME_MAX, "%s%.*s.json", is_own ? "" : "sluice-",
		       SCAN_KIND_MAX - 1, kind); /* fits */
	for (char *at = out; (at = strchr(at, '/'));)
		*at = '-';
}

static bool keep_ends(const char *name, const char *end)
{
	size_t length = strlen(name), wanted = strlen(end);
	return length > wanted && strcmp(name + length - wanted, end) == 0;
}

/* --- its life -------------------------------------------------------------------------------- */

int keep_new(const struct keep_options *options, struct keep **out, struct err *err)
{
	struct keep *keep = calloc(1, sizeof(*keep));
	if (!keep)
		return err_set(err, -ENOMEM, "out of memory for CDI specifications");

	keep->lock_fd = -1;
	keep->makes_nodes = options->makes_nodes;
	keep->is_pod = options->is_pod;
	keep->nodes = options->nodes;
	keep->look = options->look;

	int rc = file_path(keep->root, err, "%s", options->root);
	if (rc == 0)
		rc = file_path(keep->directory, err, "%s" KEEP_DIRECTORY, options->root);
	if (rc == 0)
		rc = file_path(keep->state_path, err, "%s", options->state_path);
	if (rc < 0) {
		free(keep);
		return rc;
	}

	*out = keep;
	return 0;
}

struct keep *keep_free(struct keep *keep)
{
	if (!keep)
		return NULL;
	cleanup_close_fn(&keep->lock_fd);
	free(keep);
	return NULL;
}

void keep_report_done(struct keep_report *report)
{
	buf_done(&report->notes);
	free(report->missing);
	report->missing = NULL;
}

/* --- the directory --------------------------------------------------------------------------- */

static bool keep_is_lock(const struct keep *keep, int directory)
{
	struct stat held, there;
	return keep->lock_fd >= 0 && fstat(keep->lock_fd, &held) == 0 &&
	       fstatat(directory, KEEP_LOCK, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

/* Two agents whose settings differ would undo what the other has done, over and over. Not on the
 * directory itself: everybody may lock what he may read. */
static int keep_lock(struct keep *keep, int directory, struct err *err)
{
	if (keep_is_lock(keep, directory))
		return 0;

	cleanup_close_fn(&keep->lock_fd);
	keep->lock_fd = -1;

	_cleanup_close_ int fd =
	    openat(directory, KEEP_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, "cannot write in '%s': %s", keep->directory,
			       err_describe(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		keep->lock_fd = take_fd(&fd);
		return 0;
	}

	if (errno != EWOULDBLOCK)
		return err_set(err, -errno, "cannot lock '%s/" KEEP_LOCK "': %s", keep->directory,
			       err_describe(errno));

	return err_set(err, -EBUSY, "another agent writes the CDI specifications in '%s'",
		       keep->directory);
}

/* The descriptor; -ENOENT: it is not there, and nothing is to be written. */
static int keep_open(struct keep *keep, bool makes, struct err *err)
{
	int rc = makes ? file_mkdirs(keep->directory, 0755, err) : 0;
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd =
	    open(keep->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		rc = keep_lock(keep, fd, err);
		return rc < 0 ? rc : take_fd(&fd);
	}

	int code = -errno;
	struct stat status;
	bool is_link = lstat(keep->directory, &status) == 0 && S_ISLNK(status.st_mode);

	return err_set(err, is_link ? -ELOOP : code, "cannot open the directory '%s': %s",
		       keep->directory,
		       is_link ? "it is a link; make it a directory" : err_describe(code));
}

bool keep_is_ours(int directory, const char *name, struct stat *status)
{
	return fstatat(directory, name, status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status->st_mode) && status->st_uid == geteuid();
}

int keep_remove(struct keep_pass *pass, const char *name)
{
	if (unlinkat(pass->directory, name, 0) == 0) {
		pass->out->removed++;
		return 0;
	}

	if (errno == ENOENT)
		return 0;

	return err_set(pass->err, -errno, "cannot remove '%s/%s': %s", pass->keep->directory, name,
		       err_describe(errno));
}

/* What somebody who was killed has left. */
static void keep_remove_temporary(int directory, const char *name)
{
	struct stat status;
	if (text_starts_with(name, ".sluice-") && keep_ends(name, ".tmp") &&
	    keep_is_ours(directory, name, &status) &&
	    clock_unix_s() - status.st_mtime > KEEP_TEMPORARY_S)
		(void)unlinkat(directory, name, 0); /* it harms nobody */
}

/* Whether a file of ours is to go: of a kind that is not to be there, or of one that is not wanted
 * any more. */
static bool keep_must_go(const struct keep_pass *pass, const char *name)
{
	for (uint32_t i = 0; i < pass->wish->kind_count; i++) {
		char own[KEEP_NAME_MAX];
		keep_name(pass->wish->kinds[i], own);
		if (strcmp(own, name) == 0)
			return pass->out->kinds[i].state == KEEP_ABSENT ||
			       pass->out->kinds[i].state == KEEP_FOREIGN;
	}

	/* That of the RDMA adapters is another's to keep (adapters.h). */
	if (keep_ends(name, "-rdma.json"))
		return false;

	/* What is wanted is not known without a driver: they may be real ones' or simulated. */
	return pass->wish->inventory != NULL;
}

/* The first failure, after the rest. */
static int keep_sweep(struct keep_pass *pass)
{
	int copy = dup(pass->directory), result = 0;
	_cleanup_closedir_ DIR *entries = copy < 0 ? NULL : fdopendir(copy);
	if (!entries) {
		if (copy >= 0)
			(void)close(copy);
		return err_set(pass->err, -errno, "cannot read the directory '%s': %s",
			       pass->keep->directory, err_describe(errno));
	}

	rewinddir(entries);
	const struct dirent *entry;

	for (int i = 0; i < SCAN_ENTRIES_MAX && (entry = readdir(entries)); i++) {
		struct stat status;
		const char *name = entry->d_name;

		keep_remove_temporary(pass->directory, name);
		if (!text_starts_with(name, keep_prefix) || !keep_ends(name, ".json") ||
		    !keep_must_go(pass, name) || !keep_is_ours(pass->directory, name, &status))
			continue;

		int rc = keep_remove(pass, name);
		if (result == 0)
			result = rc;
	}

	return result;
}

/* --- whose kind it is ------------------------------------------------------------------------ */

/* One that has provided the kind and cannot be read now still does: it may be being written, or be
 * a link to a file of ours that was removed because of it. */
static const struct scan_file *keep_still(const struct keep_pass *pass, const char *foreign)
{
	for (uint32_t i = 0; *foreign && i < pass->scan.count; i++) {
		const struct scan_file *file = &pass->scan.files[i];
		if (file->kind[0] == '\0' && strcmp(file->path, foreign) == 0)
			return file;
	}
	return NULL;
}

/* The file in the way; NULL: none. */
static const struct scan_file *keep_foreign(const struct keep_pass *pass, uint32_t index)
{
	char own[FILE_PATH_MAX], name[KEEP_NAME_MAX];
	const char *kind = pass->wish->kinds[index];
	const struct scan_file *foreign = NULL;

	keep_name(kind, name);
	if (file_path(own, NULL, "%s/%s", pass->keep->directory, name) == 0 &&
	    !scan_may_write(&pass->scan, kind, own, &foreign))
		return foreign;
	if (text_starts_with(kind, "sluice."))
		return NULL;

	/* What is in a directory that cannot be read is not known. */
	for (uint32_t i = 0; i < pass->scan.count; i++) {
		if (pass->scan.files[i].is_directory)
			return &pass->scan.files[i];
	}

	return keep_still(pass, pass->keep->foreign[index]);
}

static void keep_find_names(struct keep_pass *pass, const struct scan *scan)
{
	pass->out->names = 0;
	for (uint32_t i = 0; i < pass->wish->name_count; i++) {
		if (scan_find(scan, pass->wish->names[i], NULL, NULL) == SCAN_FOUND)
			pass->out->names |= 1u << i;
	}
}

static void keep_judge(struct keep_pass *pass)
{
	for (uint32_t i = 0; i < pass->wish->kind_count; i++) {
		struct keep_kind *kind = &pass->out->kinds[i];
		const struct scan_file *foreign = keep_foreign(pass, i);
		if (!foreign)
			continue;

		kind->state = KEEP_FOREIGN;
		(void)snprintf(kind->foreign, sizeof(kind->foreign), "%s", foreign->path);
	}

	keep_find_names(pass, &pass->scan);
	/* The order of the kinds is that of the configuration. */
	for (uint32_t i = 0; i < KEEP_KINDS_MAX; i++) {
		const char *foreign = i < pass->wish->kind_count ? pass->out->kinds[i].foreign : "";
		memcpy(pass->keep->foreign[i], foreign, strlen(foreign) + 1);
	}
}

/* --- where the driver is --------------------------------------------------------------------- */

/* "" for "/", and without a slash at the end. */
static int keep_root(const char *path, char out[FILE_PATH_MAX], struct err *err)
{
	int rc = file_path(out, err, "%s", path ? path : "");
	for (size_t length = rc == 0 ? strlen(out) : 0; length > 0 && out[length - 1] == '/';)
		out[--length] = '\0';
	return rc;
}

static bool keep_has_nodes(const char *root)
{
	char path[FILE_PATH_MAX];
	return file_path(path, NULL, "%s/dev/nvidiactl", root) == 0 && file_exists(path);
}

int keep_find_roots(const struct keep *keep, const struct keep_wish *wish, struct keep_roots *out,
		    struct err *err)
{
	char driver[FILE_PATH_MAX], dev[FILE_PATH_MAX], container[FILE_PATH_MAX];

	*out = (struct keep_roots){.is_translated = false};
	int rc = file_path(out->dev, err, "%s", keep->root);
	if (rc < 0 || keep->root[0] != '\0')
		return rc; /* a simulated machine has one root */

	rc = keep_root(wish->driver_root, driver, err);
	if (rc == 0)
		rc = keep_root(wish->dev_root, dev, err);
	if (rc == 0)
		rc = keep_root(wish->container_root, container, err);
	if (rc < 0)
		return rc;

	if (!keep->is_pod) {
		memcpy(out->driver, driver, sizeof(driver));
		memcpy(out->dev, dev[0] == '\0' && keep_has_nodes(driver) ? driver : dev,
		       sizeof(out->dev));
		return 0;
	}

	if (container[0] == '\0' || !file_exists(container))
		return err_set(
		    err, -ENOENT,
		    "the host's driver is not mounted at '%s': mount the host's / there, "
		    "or say with containerDriverRoot where it is",
		    container);

	out->is_translated = true;
	memcpy(out->driver, container, sizeof(container));
	memcpy(out->host_driver, driver, sizeof(driver));

	bool has_nodes = keep_has_nodes(container);
	memcpy(out->dev, has_nodes ? container : "", has_nodes ? sizeof(container) : 1);
	memcpy(out->host_dev, dev[0] == '\0' && has_nodes ? driver : dev, sizeof(out->host_dev));

	return 0;
}

/* --- a run ----------------------------------------------------------------------------------- */

/* Whether a container that is given these files would fail strangely, or not get what it was
 * given; otherwise what is wrong may go by itself. */
static bool keep_is_verdict(int code)
{
	static const int verdicts[] = {-ESTALE, -ENOPKG, -ENOENT,  -ENODEV,
				       -EPERM,	-EINVAL, -ENOTDIR, -ELIBBAD};
	for (size_t i = 0; i < array_length(verdicts); i++) {
		if (verdicts[i] == code)
			return true;
	}
	return false;
}

static int keep_gather(struct keep_pass *pass)
{
	char version[GPU_VERSION_MAX];
	const struct gather_options options = {
	    .root = pass->keep->root,
	    .driver_root = pass->roots.driver,
	};
	int rc = keep_find_roots(pass->keep, pass->wish, &pass->roots, pass->err);
	if (rc == 0)
		rc = gather_read(&options, &pass->gather, pass->err);

	/* Without the module the driver is on its way, or on its way out. */
	if (rc == -ENOENT && pci_read_nvidia_version(pass->keep->root, version) < 0)
		return err_set(pass->err, -ENXIO, "no NVIDIA kernel module is loaded");

	/* What NVML calls the driver may be what it was before it was released. */
	return rc < 0 ? rc : gather_check(&pass->gather, "", pass->err);
}

static void keep_make_nodes(struct keep_pass *pass)
{
	struct nodes_options options = pass->keep->nodes;
	struct err why = {0};
	options.root = pass->keep->root;
	if (!pass->keep->makes_nodes || pass->keep->is_pod)
		return;
	if (nodes_make(&options, pass->wish->inventory, &pass->out->notes, &why) < 0)
		(void)buf_printf(&pass->out->notes, "%s\n", why.text); /* the rest goes on */
}

/* The text of one kind; it stays empty where there is nothing to describe. */
static int keep_generate_kind(struct keep_pass *pass, uint32_t i)
{
	const struct keep_roots *roots = &pass->roots;
	const struct generate_options options = {
	    .kind = pass->wish->kinds[i],
	    .root = pass->keep->root,
	    .dev_root = roots->dev,
	    .host_dev_root = roots->is_translated ? roots->host_dev : NULL,
	    .host_driver_root = roots->is_translated ? roots->host_driver : NULL,
	    .capabilities = DRIVER_ALL,
	    .names = GENERATE_INDEX | GENERATE_UUID,
	    .layout = GENERATE_AUTO,
	    .mig_whole = pass->wish->mig_whole,
	    .look = pass->keep->look,
	};

	if (keep_ends(options.kind, KEEP_CHANNELS))
		return generate_channel(&options, &pass->texts[i], pass->err);

	return generate_text(pass->wish->inventory, pass->gather.minors, &pass->gather.driver,
			     &options, &pass->texts[i], i == 0 ? &pass->out->notes : NULL,
			     pass->err);
}

/* Every text first: half of them would be a machine that never was. */
static int keep_generate(struct keep_pass *pass)
{
	keep_make_nodes(pass);

	for (uint32_t i = 0; i < pass->wish->kind_count; i++) {
		buf_init(&pass->texts[i], GENERATE_TEXT_MAX);
		if (pass->out->kinds[i].state == KEEP_FOREIGN)
			continue;

		int rc = keep_generate_kind(pass, i);
		if (rc < 0)
			return rc;
	}

	for (uint32_t i = 0; i < pass->wish->kind_count; i++) {
		if (pass->out->kinds[i].state == KEEP_ABSENT && pass->texts[i].length > 0)
			pass->out->kinds[i].state = KEEP_WRITTEN; /* it will be */
	}

	return 0;
}

int keep_write(struct keep_pass *pass, const char *path, const struct buf *text)
{
	struct stat status;
	_cleanup_buf_ struct buf before;

	buf_init(&before, text->length);
	if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
	    (status.st_mode & 07777) == 0644 && (size_t)status.st_size == text->length &&
	    file_read(path, &before, NULL) == 0 && before.length == text->length &&
	    memcmp(before.data, text->data, text->length) == 0)
		return 0;

	int rc = file_write_atomic(path, text->data, text->length, 0644, pass->err);
	return rc < 0 ? rc : 1;
}

static int keep_write_kind(struct keep_pass *pass, uint32_t index)
{
	char path[FILE_PATH_MAX], name[KEEP_NAME_MAX];
	struct keep_kind *kind = &pass->out->kinds[index];

	keep_name(kind->kind, name);
	int rc = file_path(path, pass->err, "%s/%s", pass->keep->directory, name);
	if (rc == 0)
		rc = keep_write(pass, path, &pass->texts[index]);
	pass->out->written += rc > 0;

	if (rc >= 0)
		return 0;

	/* What is there names devices that may be others' by now. */
	kind->state = KEEP_ABSENT;
	if (unlinkat(pass->directory, name, 0) == 0)
		pass->out->removed++;

	return rc;
}

/* The first failure, after the rest. */
static int keep_write_all(struct keep_pass *pass)
{
	struct err first = {0};
	int first_rc = 0;

	for (uint32_t i = 0; i < pass->wish->kind_count; i++) {
		if (pass->out->kinds[i].state != KEEP_WRITTEN)
			continue;

		int rc = keep_write_kind(pass, i);
		if (rc < 0 && first_rc == 0) {
			first_rc = rc;
			first = *pass->err;
		}
	}

	if (first_rc < 0)
		*pass->err = first;

	return first_rc;
}

/* What stands there while nothing can be said of it. */
static void keep_look(struct keep_pass *pass)
{
	for (uint32_t i = 0; i < pass->wish->kind_count; i++) {
		char name[KEEP_NAME_MAX];
		struct stat status;
		struct keep_kind *kind = &pass->out->kinds[i];

		keep_name(kind->kind, name);
		if (kind->state == KEEP_ABSENT && keep_is_ours(pass->directory, name, &status))
			kind->state = KEEP_STAYS;
	}
}

static int keep_work(struct keep_pass *pass)
{
	int rc = scan_read(pass->keep->root, &pass->scan, pass->err);
	if (rc < 0)
		return rc;

	keep_judge(pass);
	int verdict = keep_gather(pass);
	if (verdict == 0 && pass->wish->inventory)
		verdict = keep_generate(pass);
	if (verdict == 0 ? !pass->wish->inventory : !keep_is_verdict(verdict))
		keep_look(pass);

	/* A kind of which ours and another's are there is of no use to anybody: that one first. */
	struct err why = *pass->err;

	rc = keep_sweep(pass);
	if (verdict < 0) {
		*pass->err = why;
		return verdict;
	}

	int written = pass->wish->inventory ? keep_write_all(pass) : 0;
	return rc < 0 ? rc : written;
}

/* --- what others ask for -----------------------------------------------------------------------
 */

static void keep_ask(struct keep_pass *pass, const struct scan *scan, const char *uuid,
		     const char *index)
{
	char name[SCAN_KIND_MAX + GPU_UUID_MAX + 2];
	(void)snprintf(name, sizeof(name), "%.*s=%s", SCAN_KIND_MAX - 1, pass->wish->asked_kind,
		       pass->wish->asked_by_index ? index : uuid);
	if (uuid[0] != '\0' && scan_find(scan, name, NULL, NULL) != SCAN_FOUND)
		memcpy(pass->out->missing[pass->out->missing_count++], uuid, GPU_UUID_MAX);
}

/* What containers that are given these devices would find, as runtimes do: in all files that are
 * there now, whoever has written them. */
static int keep_resolve(struct keep_pass *pass)
{
	const struct inventory *inventory = pass->wish->inventory;
	_cleanup_scan_ struct scan scan = {.count = 0};
	size_t most = (size_t)inventory->gpu_count + inventory->mig_count;
	char index[32];
	int rc = scan_read(pass->keep->root, &scan, pass->err);
	if (rc == 0)
		pass->out->missing = calloc(most + 1, sizeof(*pass->out->missing));

	if (!pass->out->missing)
		return rc < 0 ? rc
			      : err_set(pass->err, -ENOMEM, "out of memory for %zu devices", most);

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		(void)snprintf(index, sizeof(index), "%u", gpu->index);
		if (gpu->mig_current != GPU_MIG_ENABLED || pass->wish->mig_whole)
			keep_ask(pass, &scan, gpu->uuid, index);
	}

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		(void)snprintf(index, sizeof(index), "%u:%u", inventory->gpus[mig->parent].index,
			       mig->index);
		keep_ask(pass, &scan, mig->uuid, index);
	}

	keep_find_names(pass, &scan);
	pass->out->is_resolved = true;
	return 0;
}

/* --- a run, whole ------------------------------------------------------------------------------
 */

static int keep_do(struct keep_pass *pass)
{
	const struct keep_wish *wish = pass->wish;
	pass->directory = keep_open(pass->keep, wish->inventory && wish->kind_count > 0, pass->err);

	int rc = pass->directory;
	if (rc == -ENOENT && !(wish->inventory && wish->kind_count > 0))
		return 0; /* nothing is there, and nothing is to be */
	if (rc >= 0 && wish->kind_count == 0)
		rc = keep_withdraw(pass);
	else if (rc >= 0)
		rc = keep_work(pass);

	/* Whoever failed before has said why. */
	struct err why = *pass->err;
	int saved = pass->directory < 0 || wish->kind_count == 0 ? 0 : keep_save(pass);

	if (rc < 0)
		*pass->err = why;

	return rc < 0 ? rc : saved;
}

int keep_run(struct keep *keep, const struct keep_wish *wish, struct keep_report *out,
	     struct err *err)
{
	struct err unused = {0};
	struct keep_pass pass = {
	    .keep = keep, .wish = wish, .out = out, .err = err ? err : &unused, .directory = -1};

	buf_init(&out->notes, KEEP_NOTES_MAX);
	out->kind_count = wish->kind_count;
	for (uint32_t i = 0; i < wish->kind_count; i++)
		(void)snprintf(out->kinds[i].kind, sizeof(out->kinds[i].kind), "%s",
			       wish->kinds[i]);

	int rc = keep_do(&pass);
	if ((rc == 0 || keep_is_verdict(rc)) && wish->inventory && wish->asked_kind) {
		struct err why = *pass.err;
		int resolved = keep_resolve(&pass);
		if (rc < 0)
			*pass.err = why;
		rc = rc < 0 ? rc : resolved;
	}

	cleanup_close_fn(&pass.directory);

	for (uint32_t i = 0; i < KEEP_KINDS_MAX; i++)
		buf_done(&pass.texts[i]);

	gather_done(&pass.gather);
	scan_done(&pass.scan);
	return rc;
}

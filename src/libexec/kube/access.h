/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the API server is reached and who we are to it, read anew for each request: tokens and
 * certificates are replaced while we run. In a pod by its service account, elsewhere by a
 * kubeconfig file.
 * https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
 */
#ifndef SLUICE_LIBEXEC_KUBE_ACCESS_H
#define SLUICE_LIBEXEC_KUBE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"

struct err;

#define ACCESS_SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

enum access_limits {
	ACCESS_SERVER_MAX = 4200,
	ACCESS_FDS_MAX = 3,
};

struct access_options {
	const char *kubeconfig;	 /* NULL: the pod's service account */
	const char *directory;	 /* of the service account */
	const char *host, *port; /* $KUBERNETES_SERVICE_HOST, $KUBERNETES_SERVICE_PORT */
};

struct access {
	char server[ACCESS_SERVER_MAX]; /* without a '/' at its end */
	char *token;			/* owned; NULL: none */
	/* Paths for the TLS library, "": none. What stood in the kubeconfig itself lies in memory
	 * files, and these are theirs. */
	char ca[FILE_PATH_MAX], certificate[FILE_PATH_MAX], key[FILE_PATH_MAX];
	int fds[ACCESS_FDS_MAX]; /* owned; of memory files */
	uint32_t fd_count;
	bool insecure; /* the kubeconfig wants the server's certificate unchecked */
};

/* -ENOENT, -EACCES, ...: a file that is needed; what kubeconfig_parse() returns; -EINVAL: there is
 * neither kubeconfig nor service account. The error names the file. */
int access_load(const struct access_options *options, struct access *out, struct err *err);
void access_done(struct access *access);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubeconfig file: which API server, whom it trusts, and who we are to it. The current context
 * counts. What would start a program or ask somebody else for a token is refused: this process does
 * neither. Pure; reading the files that it names is access.c's.
 * https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
 */
#ifndef SLUICE_LIBEXEC_KUBE_KUBECONFIG_H
#define SLUICE_LIBEXEC_KUBE_KUBECONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum kubeconfig_limits {
	KUBECONFIG_MAX = 1 << 20,   /* bytes of the file */
	KUBECONFIG_TEXT_MAX = 4096, /* of a path, an address */
	KUBECONFIG_TOKEN_MAX = 64 << 10,
};

/* Bytes; data[length] is NUL. data is NULL without any. */
struct kubeconfig_data {
	char *data; /* owned */
	size_t length;
};

/* All text is owned, and NULL when the file does not have it. Paths are as they stand there. */
struct kubeconfig {
	char *server; /* "https://10.0.0.1:6443", without a '/' at its end */
	char *ca_file, *certificate_file, *key_file, *token_file, *token;
	struct kubeconfig_data ca, certificate, key; /* PEM; each wins over its file */
	bool insecure;				     /* insecure-skip-tls-verify */
};

/*
 * `name` is what errors call the file: "NAME:LINE:COLUMN: ...". -EINVAL: not a kubeconfig, or one
 * that names what is not there; -ENOTSUP: exec, auth-provider and others that are not done here;
 * -E2BIG, -ENOMEM.
 */
int kubeconfig_parse(const char *text, size_t length, const char *name, struct kubeconfig **out,
		     struct err *err);
struct kubeconfig *kubeconfig_free(struct kubeconfig *config);

/* What may be sent behind "Bearer ", and an address that is one: no blanks, no control characters.
 * -EINVAL says what is wrong. `secure`: https. */
int kubeconfig_check_token(const char *token, struct err *err);
int kubeconfig_check_server(const char *server, bool *out_secure, struct err *err);

#endif

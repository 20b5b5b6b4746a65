/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a kubeconfig: refused with a text, or one that can be used. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "libexec/kube/kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kubeconfig *config = NULL;
	struct err err = {0};
	bool secure = false;
	int rc = kubeconfig_parse((const char *)data, size, "fuzz", &config, &err);
	if (rc < 0) {
		if (rc != err.code || config || err.text[0] == '\0')
			abort();
		return 0;
	}
	if (kubeconfig_check_server(config->server, &secure, NULL) < 0 ||
	    (config->token && kubeconfig_check_token(config->token, NULL) < 0))
		abort();
	if (!secure && (config->token || config->token_file))
		abort();
	if ((config->ca.data && config->ca.data[config->ca.length] != '\0') ||
	    config->ca.length > size)
		abort();
	(void)kubeconfig_free(config);
	return 0;
}

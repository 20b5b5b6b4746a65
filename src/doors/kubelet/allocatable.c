/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/allocatable.h"

#include "base/err.h"
#include "base/loop.h"
#include "podresources.pb-c.h"
#include "wire/client.h"

static const struct wire_method allocatable_method = {
    .path = "/v1.PodResourcesLister/GetAllocatableResources",
    .request = &v1__allocatable_resources_request__descriptor,
    .reply = &v1__allocatable_resources_response__descriptor,
};

static int ask_on(struct loop *loop, const char *socket, uint64_t deadline_ns,
		  ProtobufCMessage **out, struct err *err)
{
	static const struct wire_client_options how = {.reply_max = 0};
	V1__AllocatableResourcesRequest request = V1__ALLOCATABLE_RESOURCES_REQUEST__INIT;
	struct wire_result result;
	struct wire_client *client = wire_client_new(loop, socket, &how, err);
	if (!client)
		return err->code;

	int rc = wire_client_ask(client, loop, &allocatable_method, &request.base, deadline_ns, out,
				 &result, err);
	(void)wire_client_free(client);
	return rc;
}

int allocatable_ask(const char *socket, uint64_t deadline_ns,
		    void (*each)(const char *resource, const char *unit, void *context),
		    void *context, struct err *err)
{
	struct err own = {.code = 0};
	err = err ? err : &own;

	struct loop *loop = loop_new(LOOP_REAL, err);
	if (!loop)
		return err->code;

	ProtobufCMessage *message = NULL;
	int rc = ask_on(loop, socket, deadline_ns, &message, err);

	(void)loop_free(loop);
	if (rc < 0)
		return rc;

	const V1__AllocatableResourcesResponse *reply =
	    (const V1__AllocatableResourcesResponse *)message;
	for (size_t i = 0; i < reply->n_devices; i++)
		for (size_t k = 0; k < reply->devices[i]->n_device_ids; k++)
			each(reply->devices[i]->resource_name, reply->devices[i]->device_ids[k],
			     context);

	protobuf_c_message_free_unpacked(message, NULL);
	return 0;
}

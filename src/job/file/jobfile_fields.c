/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/jobfile_fields.h"

/* Rows are written with these four, so that a table reads as one. Macros, because only a macro can
 * name a member. */
#define TAKES(field, type, member, kind_of)                                                        \
	{                                                                                          \
		.name = (field), .class = OBJSCHEMA_HONOURED, .kind = (kind_of),                   \
		.offset = offsetof(struct type, member)                                            \
	}
#define NUMBER(field, type, member, least)                                                         \
	{                                                                                          \
		.name = (field), .class = OBJSCHEMA_HONOURED, .kind = OBJSCHEMA_INT,               \
		.offset = offsetof(struct type, member), .min = (least)                            \
	}
#define HOLDS(field, type, member, kind_of, its_table)                                             \
	{                                                                                          \
		.name = (field), .class = OBJSCHEMA_HONOURED, .kind = (kind_of),                   \
		.offset = offsetof(struct type, member), .table = &(its_table)                     \
	}
#define IGNORES(field, kind_of)                                                                    \
	{                                                                                          \
		.name = (field), .class = OBJSCHEMA_IGNORED, .kind = (kind_of)                     \
	}
#define REFUSES(field, reason)                                                                     \
	{                                                                                          \
		.name = (field), .class = OBJSCHEMA_REFUSED, .kind = OBJSCHEMA_ANY,                \
		.why = (reason)                                                                    \
	}
#define BELONGS(field, where)                                                                      \
	{                                                                                          \
		.name = (field), .class = OBJSCHEMA_MISPLACED, .kind = OBJSCHEMA_ANY,              \
		.why = (where)                                                                     \
	}
#define END                                                                                        \
	{                                                                                          \
		.name = NULL                                                                       \
	}

static const struct objschema_row metadata_rows[] = {
    TAKES("name", raw_metadata, name, OBJSCHEMA_TEXT),
    TAKES("generateName", raw_metadata, generate_name, OBJSCHEMA_TEXT),
    TAKES("namespace", raw_metadata, namespace, OBJSCHEMA_TEXT),
    TAKES("labels", raw_metadata, labels, OBJSCHEMA_TEXT_MAP),
    TAKES("annotations", raw_metadata, annotations, OBJSCHEMA_TEXT_MAP),
    IGNORES("uid", OBJSCHEMA_TEXT),
    IGNORES("resourceVersion", OBJSCHEMA_TEXT),
    IGNORES("generation", OBJSCHEMA_ANY),
    IGNORES("creationTimestamp", OBJSCHEMA_ANY),
    IGNORES("deletionTimestamp", OBJSCHEMA_ANY),
    IGNORES("deletionGracePeriodSeconds", OBJSCHEMA_ANY),
    IGNORES("selfLink", OBJSCHEMA_TEXT),
    IGNORES("ownerReferences", OBJSCHEMA_ANY_LIST),
    IGNORES("finalizers", OBJSCHEMA_ANY_LIST),
    IGNORES("managedFields", OBJSCHEMA_ANY_LIST),
    END,
};
static const struct objschema_table metadata = {
    .name = "metadata", .rows = metadata_rows, .size = sizeof(struct raw_metadata)};

static const struct objschema_row field_ref_rows[] = {
    TAKES("fieldPath", raw_field_ref, field_path, OBJSCHEMA_TEXT),
    IGNORES("apiVersion", OBJSCHEMA_TEXT),
    END,
};
static const struct objschema_table field_ref = {
    .name = "valueFrom.fieldRef", .rows = field_ref_rows, .size = sizeof(struct raw_field_ref)};

static const struct objschema_row value_from_rows[] = {
    HOLDS("fieldRef", raw_value_from, field_ref, OBJSCHEMA_OBJECT, field_ref),
    REFUSES("secretKeyRef",
	    "there are no Secrets on this machine; write the value, or give it with --env"),
    REFUSES("configMapKeyRef",
	    "there are no ConfigMaps on this machine; write the value, or give it with --env"),
    REFUSES("fileKeyRef", "write the value, or give it with --env"),
    REFUSES("resourceFieldRef", "write the number"),
    END,
};
static const struct objschema_table value_from = {
    .name = "valueFrom", .rows = value_from_rows, .size = sizeof(struct raw_value_from)};

static const struct objschema_row variable_rows[] = {
    TAKES("name", raw_variable, name, OBJSCHEMA_TEXT),
    TAKES("value", raw_variable, value, OBJSCHEMA_TEXT),
    HOLDS("valueFrom", raw_variable, from, OBJSCHEMA_OBJECT, value_from),
    END,
};
static const struct objschema_table variable = {
    .name = "env", .rows = variable_rows, .size = sizeof(struct raw_variable)};

static const struct objschema_row resources_rows[] = {
    TAKES("limits", raw_resources, limits, OBJSCHEMA_ANY_MAP),
    TAKES("requests", raw_resources, requests, OBJSCHEMA_ANY_MAP),
    REFUSES("claims", "ask for GPUs by limits: nvidia.com/gpu"),
    BELONGS("nvidia.com/gpu", "it belongs into limits"),
    END,
};
static const struct objschema_table resources = {
    .name = "resources", .rows = resources_rows, .size = sizeof(struct raw_resources)};

static const struct objschema_row mount_rows[] = {
    TAKES("name", raw_mount, name, OBJSCHEMA_TEXT),
    TAKES("mountPath", raw_mount, path, OBJSCHEMA_TEXT),
    TAKES("subPath", raw_mount, sub_path, OBJSCHEMA_TEXT),
    TAKES("readOnly", raw_mount, read_only, OBJSCHEMA_BOOL),
    REFUSES("subPathExpr", "write the path out with subPath"),
    IGNORES("mountPropagation", OBJSCHEMA_TEXT),
    IGNORES("recursiveReadOnly", OBJSCHEMA_TEXT),
    END,
};
static const struct objschema_table mount = {
    .name = "volumeMounts", .rows = mount_rows, .size = sizeof(struct raw_mount)};

static const struct objschema_row capabilities_rows[] = {
    TAKES("add", raw_capabilities, add, OBJSCHEMA_TEXTS),
    IGNORES("drop", OBJSCHEMA_TEXTS),
    END,
};
static const struct objschema_table capabilities = {.name = "securityContext.capabilities",
						    .rows = capabilities_rows,
						    .size = sizeof(struct raw_capabilities)};

static const struct objschema_row security_rows[] = {
    NUMBER("runAsUser", raw_security, user, 0),
    NUMBER("runAsGroup", raw_security, group, 0),
    TAKES("runAsNonRoot", raw_security, non_root, OBJSCHEMA_BOOL),
    TAKES("privileged", raw_security, privileged, OBJSCHEMA_BOOL),
    HOLDS("capabilities", raw_security, capabilities, OBJSCHEMA_OBJECT, capabilities),
    IGNORES("allowPrivilegeEscalation", OBJSCHEMA_BOOL),
    IGNORES("readOnlyRootFilesystem", OBJSCHEMA_BOOL),
    IGNORES("procMount", OBJSCHEMA_TEXT),
    IGNORES("seLinuxOptions", OBJSCHEMA_ANY_MAP),
    IGNORES("seccompProfile", OBJSCHEMA_ANY_MAP),
    IGNORES("appArmorProfile", OBJSCHEMA_ANY_MAP),
    IGNORES("windowsOptions", OBJSCHEMA_ANY_MAP),
    BELONGS("fsGroup", "it belongs into the securityContext beside 'containers'"),
    END,
};
static const struct objschema_table security = {
    .name = "securityContext", .rows = security_rows, .size = sizeof(struct raw_security)};

static const struct objschema_row pod_security_rows[] = {
    NUMBER("runAsUser", raw_security, user, 0),
    NUMBER("runAsGroup", raw_security, group, 0),
    TAKES("runAsNonRoot", raw_security, non_root, OBJSCHEMA_BOOL),
    IGNORES("fsGroup", OBJSCHEMA_ANY),
    IGNORES("fsGroupChangePolicy", OBJSCHEMA_TEXT),
    IGNORES("supplementalGroups", OBJSCHEMA_ANY_LIST),
    IGNORES("supplementalGroupsPolicy", OBJSCHEMA_TEXT),
    IGNORES("seLinuxChangePolicy", OBJSCHEMA_TEXT),
    IGNORES("seLinuxOptions", OBJSCHEMA_ANY_MAP),
    IGNORES("seccompProfile", OBJSCHEMA_ANY_MAP),
    IGNORES("appArmorProfile", OBJSCHEMA_ANY_MAP),
    IGNORES("windowsOptions", OBJSCHEMA_ANY_MAP),
    REFUSES("sysctls", "a job cannot change the kernel's settings"),
    BELONGS("privileged", "it belongs into the securityContext of the container"),
    BELONGS("capabilities", "it belongs into the securityContext of the container"),
    END,
};
static const struct objschema_table pod_security = {.name = "securityContext of the pod",
						    .rows = pod_security_rows,
						    .size = sizeof(struct raw_security)};

static const struct objschema_row container_rows[] = {
    TAKES("name", raw_container, name, OBJSCHEMA_TEXT),
    TAKES("image", raw_container, image, OBJSCHEMA_TEXT),
    TAKES("imagePullPolicy", raw_container, pull, OBJSCHEMA_TEXT),
    TAKES("command", raw_container, command, OBJSCHEMA_TEXTS),
    TAKES("args", raw_container, arguments, OBJSCHEMA_TEXTS),
    TAKES("workingDir", raw_container, directory, OBJSCHEMA_TEXT),
    HOLDS("env", raw_container, variables, OBJSCHEMA_OBJECTS, variable),
    HOLDS("resources", raw_container, resources, OBJSCHEMA_OBJECT, resources),
    HOLDS("volumeMounts", raw_container, mounts, OBJSCHEMA_OBJECTS, mount),
    HOLDS("securityContext", raw_container, security, OBJSCHEMA_OBJECT, security),
    IGNORES("ports", OBJSCHEMA_ANY_LIST),
    IGNORES("readinessProbe", OBJSCHEMA_ANY_MAP),
    IGNORES("livenessProbe", OBJSCHEMA_ANY_MAP),
    IGNORES("startupProbe", OBJSCHEMA_ANY_MAP),
    IGNORES("terminationMessagePath", OBJSCHEMA_TEXT),
    IGNORES("terminationMessagePolicy", OBJSCHEMA_TEXT),
    IGNORES("resizePolicy", OBJSCHEMA_ANY_LIST),
    IGNORES("stdin", OBJSCHEMA_BOOL),
    IGNORES("stdinOnce", OBJSCHEMA_BOOL),
    IGNORES("tty", OBJSCHEMA_BOOL),
    REFUSES("envFrom",
	    "there are no ConfigMaps and Secrets on this machine; write the variables into env"),
    REFUSES("lifecycle", "nothing is run before or after the command; do it in the command"),
    REFUSES("volumeDevices", "block devices cannot be given to a job"),
    REFUSES("restartPolicyRules", "write restartPolicy beside 'containers'"),
    BELONGS("restartPolicy", "it belongs beside 'containers', one level up"),
    BELONGS("runAsUser", "it belongs into securityContext"),
    BELONGS("runAsGroup", "it belongs into securityContext"),
    BELONGS("runAsNonRoot", "it belongs into securityContext"),
    BELONGS("privileged", "it belongs into securityContext"),
    BELONGS("capabilities", "it belongs into securityContext"),
    BELONGS("allowPrivilegeEscalation", "it belongs into securityContext"),
    BELONGS("limits", "it belongs into resources"),
    BELONGS("requests", "it belongs into resources"),
    BELONGS("volumes", "it belongs beside 'containers', one level up"),
    BELONGS("nodeSelector", "it belongs beside 'containers', one level up"),
    BELONGS("environment", "the variables belong into env, as a list of name and value"),
    END,
};
static const struct objschema_table container = {
    .name = "container", .rows = container_rows, .size = sizeof(struct raw_container)};

static const struct objschema_row empty_dir_rows[] = {
    TAKES("medium", raw_empty_dir, medium, OBJSCHEMA_TEXT),
    TAKES("sizeLimit", raw_empty_dir, size, OBJSCHEMA_QUANTITY),
    END,
};
static const struct objschema_table empty_dir = {
    .name = "volume emptyDir", .rows = empty_dir_rows, .size = sizeof(struct raw_empty_dir)};

static const struct objschema_row host_path_rows[] = {
    TAKES("path", raw_host_path, path, OBJSCHEMA_TEXT),
    TAKES("type", raw_host_path, type, OBJSCHEMA_TEXT),
    END,
};
static const struct objschema_table host_path = {
    .name = "volume hostPath", .rows = host_path_rows, .size = sizeof(struct raw_host_path)};

static const struct objschema_row claim_rows[] = {
    TAKES("claimName", raw_claim, name, OBJSCHEMA_TEXT),
    TAKES("readOnly", raw_claim, read_only, OBJSCHEMA_BOOL),
    END,
};
static const struct objschema_table claim = {
    .name = "volume persistentVolumeClaim", .rows = claim_rows, .size = sizeof(struct raw_claim)};

static const struct objschema_row config_map_rows[] = {
    TAKES("name", raw_claim, name, OBJSCHEMA_TEXT),
    IGNORES("optional", OBJSCHEMA_BOOL),
    IGNORES("defaultMode", OBJSCHEMA_ANY),
    REFUSES("items", "map the directory with --volume NAME=PATH and leave items out"),
    BELONGS("readOnly", "it belongs into volumeMounts"),
    END,
};
static const struct objschema_table config_map = {
    .name = "volume configMap", .rows = config_map_rows, .size = sizeof(struct raw_claim)};

static const struct objschema_row secret_rows[] = {
    TAKES("secretName", raw_claim, name, OBJSCHEMA_TEXT),
    IGNORES("optional", OBJSCHEMA_BOOL),
    IGNORES("defaultMode", OBJSCHEMA_ANY),
    REFUSES("items", "map the directory with --volume NAME=PATH and leave items out"),
    BELONGS("readOnly", "it belongs into volumeMounts"),
    END,
};
static const struct objschema_table secret = {
    .name = "volume secret", .rows = secret_rows, .size = sizeof(struct raw_claim)};

static const struct objschema_row volume_rows[] = {
    TAKES("name", raw_volume, name, OBJSCHEMA_TEXT),
    HOLDS("emptyDir", raw_volume, empty_dir, OBJSCHEMA_OBJECT, empty_dir),
    HOLDS("hostPath", raw_volume, host_path, OBJSCHEMA_OBJECT, host_path),
    HOLDS("persistentVolumeClaim", raw_volume, claim, OBJSCHEMA_OBJECT, claim),
    HOLDS("configMap", raw_volume, config_map, OBJSCHEMA_OBJECT, config_map),
    HOLDS("secret", raw_volume, secret, OBJSCHEMA_OBJECT, secret),
    TAKES("nfs", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("csi", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("ephemeral", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("projected", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("downwardAPI", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("image", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("iscsi", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("fc", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("cephfs", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("rbd", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("glusterfs", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("local", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("awsElasticBlockStore", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("gcePersistentDisk", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("azureDisk", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("azureFile", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("cinder", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("flexVolume", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("flocker", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("gitRepo", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("photonPersistentDisk", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("portworxVolume", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("quobyte", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("scaleIO", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("storageos", raw_volume, other, OBJSCHEMA_ANY_MAP),
    TAKES("vsphereVolume", raw_volume, other, OBJSCHEMA_ANY_MAP),
    BELONGS(
	"readOnly",
	"beside persistentVolumeClaim it says nothing: it belongs into persistentVolumeClaim, "
	"where it makes the claim read-only for the pod, or into volumeMounts, for one container"),
    BELONGS("claimName", "it belongs into persistentVolumeClaim"),
    BELONGS("path", "it belongs into hostPath"),
    BELONGS("mountPath", "it belongs into volumeMounts of the container"),
    END,
};
static const struct objschema_table volume = {
    .name = "volume", .rows = volume_rows, .size = sizeof(struct raw_volume)};

static const struct objschema_row pod_rows[] = {
    HOLDS("containers", raw_pod, containers, OBJSCHEMA_OBJECTS, container),
    TAKES("restartPolicy", raw_pod, restart_policy, OBJSCHEMA_TEXT),
    HOLDS("volumes", raw_pod, volumes, OBJSCHEMA_OBJECTS, volume),
    NUMBER("terminationGracePeriodSeconds", raw_pod, grace, 0),
    NUMBER("activeDeadlineSeconds", raw_pod, deadline, 1),
    HOLDS("securityContext", raw_pod, security, OBJSCHEMA_OBJECT, pod_security),
    TAKES("hostPID", raw_pod, host_pid, OBJSCHEMA_BOOL),
    IGNORES("nodeName", OBJSCHEMA_TEXT),
    IGNORES("nodeSelector", OBJSCHEMA_ANY_MAP),
    IGNORES("tolerations", OBJSCHEMA_ANY_LIST),
    IGNORES("affinity", OBJSCHEMA_ANY_MAP),
    IGNORES("topologySpreadConstraints", OBJSCHEMA_ANY_LIST),
    IGNORES("serviceAccountName", OBJSCHEMA_TEXT),
    IGNORES("serviceAccount", OBJSCHEMA_TEXT),
    IGNORES("automountServiceAccountToken", OBJSCHEMA_BOOL),
    IGNORES("imagePullSecrets", OBJSCHEMA_ANY_LIST),
    IGNORES("schedulerName", OBJSCHEMA_TEXT),
    IGNORES("schedulingGates", OBJSCHEMA_ANY_LIST),
    IGNORES("priorityClassName", OBJSCHEMA_TEXT),
    IGNORES("priority", OBJSCHEMA_ANY),
    IGNORES("preemptionPolicy", OBJSCHEMA_TEXT),
    IGNORES("runtimeClassName", OBJSCHEMA_TEXT),
    IGNORES("dnsPolicy", OBJSCHEMA_TEXT),
    IGNORES("dnsConfig", OBJSCHEMA_ANY_MAP),
    IGNORES("hostname", OBJSCHEMA_TEXT),
    IGNORES("subdomain", OBJSCHEMA_TEXT),
    IGNORES("setHostnameAsFQDN", OBJSCHEMA_BOOL),
    IGNORES("hostNetwork", OBJSCHEMA_BOOL),
    IGNORES("hostIPC", OBJSCHEMA_BOOL),
    IGNORES("hostUsers", OBJSCHEMA_BOOL),
    IGNORES("shareProcessNamespace", OBJSCHEMA_BOOL),
    IGNORES("enableServiceLinks", OBJSCHEMA_BOOL),
    IGNORES("readinessGates", OBJSCHEMA_ANY_LIST),
    IGNORES("overhead", OBJSCHEMA_ANY_MAP),
    IGNORES("os", OBJSCHEMA_ANY_MAP),
    REFUSES("initContainers", "one container is run; do it in its command"),
    REFUSES("ephemeralContainers", "one container is run"),
    REFUSES("hostAliases", "a job has the names of this machine"),
    REFUSES("resources", "write the resources of the container"),
    REFUSES("resourceClaims", "ask for GPUs by limits: nvidia.com/gpu"),
    BELONGS("backoffLimit", "it belongs into the spec of a Job, beside 'template'"),
    BELONGS("image", "it belongs into 'containers'"),
    BELONGS("command", "it belongs into 'containers'"),
    BELONGS("env", "it belongs into 'containers'"),
    END,
};
static const struct objschema_table pod = {
    .name = "pod", .rows = pod_rows, .size = sizeof(struct raw_pod)};

static const struct objschema_row template_rows[] = {
    HOLDS("metadata", raw_template, metadata, OBJSCHEMA_OBJECT, metadata),
    HOLDS("spec", raw_template, pod, OBJSCHEMA_OBJECT, pod),
    END,
};
static const struct objschema_table template = {
    .name = "template", .rows = template_rows, .size = sizeof(struct raw_template)};

static const struct objschema_row job_spec_rows[] = {
    NUMBER("parallelism", raw_job, parallelism, 0),
    NUMBER("completions", raw_job, completions, 0),
    TAKES("completionMode", raw_job, completion_mode, OBJSCHEMA_TEXT),
    NUMBER("backoffLimit", raw_job, backoff_limit, 0),
    NUMBER("activeDeadlineSeconds", raw_job, deadline, 0),
    NUMBER("ttlSecondsAfterFinished", raw_job, ttl, 0),
    TAKES("suspend", raw_job, suspend, OBJSCHEMA_BOOL),
    HOLDS("template", raw_job, template, OBJSCHEMA_OBJECT, template),
    TAKES("managedBy", raw_job, managed_by, OBJSCHEMA_TEXT),
    IGNORES("selector", OBJSCHEMA_ANY_MAP),
    IGNORES("manualSelector", OBJSCHEMA_BOOL),
    IGNORES("podReplacementPolicy", OBJSCHEMA_TEXT),
    REFUSES("podFailurePolicy",
	    "failures by kind or index are not told apart here; backoffLimit counts all of them"),
    REFUSES("successPolicy", "all members have to succeed"),
    REFUSES("backoffLimitPerIndex",
	    "failures by kind or index are not told apart here; backoffLimit counts all of them"),
    REFUSES("maxFailedIndexes",
	    "failures by kind or index are not told apart here; backoffLimit counts all of them"),
    BELONGS("restartPolicy", "it belongs into template.spec"),
    BELONGS("containers", "it belongs into template.spec"),
    BELONGS("nodeName", "it belongs into template.spec"),
    END,
};
static const struct objschema_table job_spec = {
    .name = "Job", .rows = job_spec_rows, .size = sizeof(struct raw_job)};

static const struct objschema_row replica_rows[] = {
    NUMBER("replicas", raw_replica, replicas, 0),
    TAKES("restartPolicy", raw_replica, restart_policy, OBJSCHEMA_TEXT),
    HOLDS("template", raw_replica, template, OBJSCHEMA_OBJECT, template),
    END,
};
static const struct objschema_table replica = {
    .name = "replica", .rows = replica_rows, .size = sizeof(struct raw_replica)};

static const struct objschema_row replicas_rows[] = {
    HOLDS("Launcher", raw_replicas, launcher, OBJSCHEMA_OBJECT, replica),
    HOLDS("Worker", raw_replicas, worker, OBJSCHEMA_OBJECT, replica),
    BELONGS("launcher", "it is written Launcher"),
    BELONGS("worker", "it is written Worker"),
    BELONGS("Workers", "it is written Worker"),
    END,
};
static const struct objschema_table replicas = {
    .name = "mpiReplicaSpecs", .rows = replicas_rows, .size = sizeof(struct raw_replicas)};

static const struct objschema_row run_policy_rows[] = {
    NUMBER("backoffLimit", raw_run_policy, backoff_limit, 0),
    NUMBER("activeDeadlineSeconds", raw_run_policy, deadline, 0),
    NUMBER("ttlSecondsAfterFinished", raw_run_policy, ttl, 0),
    TAKES("suspend", raw_run_policy, suspend, OBJSCHEMA_BOOL),
    TAKES("managedBy", raw_run_policy, managed_by, OBJSCHEMA_TEXT),
    IGNORES("cleanPodPolicy", OBJSCHEMA_TEXT),
    IGNORES("schedulingPolicy", OBJSCHEMA_ANY_MAP),
    END,
};
static const struct objschema_table run_policy = {
    .name = "runPolicy", .rows = run_policy_rows, .size = sizeof(struct raw_run_policy)};

static const struct objschema_row mpijob_spec_rows[] = {
    NUMBER("slotsPerWorker", raw_mpijob, slots, 0),
    TAKES("runLauncherAsWorker", raw_mpijob, launcher_is_worker, OBJSCHEMA_BOOL),
    TAKES("mpiImplementation", raw_mpijob, implementation, OBJSCHEMA_TEXT),
    HOLDS("mpiReplicaSpecs", raw_mpijob, replicas, OBJSCHEMA_OBJECT, replicas),
    HOLDS("runPolicy", raw_mpijob, policy, OBJSCHEMA_OBJECT, run_policy),
    IGNORES("sshAuthMountPath", OBJSCHEMA_TEXT),
    IGNORES("launcherCreationPolicy", OBJSCHEMA_TEXT),
    BELONGS("cleanPodPolicy", "it belongs into runPolicy"),
    BELONGS("backoffLimit", "it belongs into runPolicy"),
    BELONGS("activeDeadlineSeconds", "it belongs into runPolicy"),
    BELONGS("ttlSecondsAfterFinished", "it belongs into runPolicy"),
    BELONGS("suspend", "it belongs into runPolicy"),
    BELONGS("mainContainer",
	    "it was a field of v1alpha2; v2beta1 always takes the first container"),
    BELONGS("mpiDistribution", "its name in v2beta1 is mpiImplementation"),
    BELONGS("gpus",
	    "it was a field of v1alpha1; write nvidia.com/gpu in resources.limits of the Worker"),
    BELONGS("replicas", "it was a field of v1alpha1; it belongs into mpiReplicaSpecs.Worker"),
    END,
};
static const struct objschema_table mpijob_spec = {
    .name = "MPIJob", .rows = mpijob_spec_rows, .size = sizeof(struct raw_mpijob)};

static const struct objschema_row fields_of_job_rows[] = {
    TAKES("apiVersion", raw_document, version, OBJSCHEMA_TEXT),
    TAKES("kind", raw_document, kind, OBJSCHEMA_TEXT),
    HOLDS("metadata", raw_document, metadata, OBJSCHEMA_OBJECT, metadata),
    HOLDS("spec", raw_document, job, OBJSCHEMA_OBJECT, job_spec),
    IGNORES("status", OBJSCHEMA_ANY_MAP),
    END,
};
const struct objschema_table fields_of_job = {
    .name = "document Job", .rows = fields_of_job_rows, .size = sizeof(struct raw_document)};

static const struct objschema_row fields_of_pod_rows[] = {
    TAKES("apiVersion", raw_document, version, OBJSCHEMA_TEXT),
    TAKES("kind", raw_document, kind, OBJSCHEMA_TEXT),
    HOLDS("metadata", raw_document, metadata, OBJSCHEMA_OBJECT, metadata),
    HOLDS("spec", raw_document, pod, OBJSCHEMA_OBJECT, pod),
    IGNORES("status", OBJSCHEMA_ANY_MAP),
    END,
};
const struct objschema_table fields_of_pod = {
    .name = "document Pod", .rows = fields_of_pod_rows, .size = sizeof(struct raw_document)};

static const struct objschema_row fields_of_mpijob_rows[] = {
    TAKES("apiVersion", raw_document, version, OBJSCHEMA_TEXT),
    TAKES("kind", raw_document, kind, OBJSCHEMA_TEXT),
    HOLDS("metadata", raw_document, metadata, OBJSCHEMA_OBJECT, metadata),
    HOLDS("spec", raw_document, mpijob, OBJSCHEMA_OBJECT, mpijob_spec),
    IGNORES("status", OBJSCHEMA_ANY_MAP),
    END,
};
const struct objschema_table fields_of_mpijob = {
    .name = "document MPIJob", .rows = fields_of_mpijob_rows, .size = sizeof(struct raw_document)};

const struct fields_annotation_row fields_annotations[] = {
    {"priority", FIELDS_ANNOTATION_PRIORITY, "as --priority"},
    {"isolation", FIELDS_ANNOTATION_ISOLATION, "as --isolation"},
    {"prefer", FIELDS_ANNOTATION_PREFER, "as --prefer"},
    {"share", FIELDS_ANNOTATION_SHARE, "as --share"},
    {"retry-lost", FIELDS_ANNOTATION_RETRY_LOST, "as --retry-lost: true or false"},
    {"begin", FIELDS_ANNOTATION_BEGIN, "as --begin"},
    {"signal", FIELDS_ANNOTATION_SIGNAL, "as --signal"},
    {"gang", FIELDS_ANNOTATION_GANG,
     "true: all indices of an Indexed Job at once, as ranks of one job"},
    {"transport", FIELDS_ANNOTATION_IGNORED, "of the cluster"},
    {"rsh-port", FIELDS_ANNOTATION_IGNORED, "of the cluster"},
    {"restart", FIELDS_ANNOTATION_IGNORED, "of the cluster"},
    {"avoid-bad-nodes", FIELDS_ANNOTATION_IGNORED, "of the cluster"},
    {NULL, FIELDS_ANNOTATION_IGNORED, NULL},
};

{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Cluster-wide objects of two releases must not have one name. */}}
{{- define "sluice.clustername" -}}
{{- if eq .Release.Namespace (include "sluice.fullname" .) -}}
{{- include "sluice.fullname" . -}}
{{- else -}}
{{- printf "%s-%s" .Release.Namespace (include "sluice.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sluice.serviceaccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sluice.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "sluice.image" -}}
{{- $repository := required "image.repository: no registry has the image of this project; `make image` builds localhost/sluice, push it to a registry of yours and name it here" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "sluice.configmap" -}}
{{- default (printf "%s-config" (include "sluice.fullname" .)) .Values.config.name -}}
{{- end -}}

{{- define "sluice.configs" -}}
{{- default (dict "default" (.Files.Get "files/default.yaml")) .Values.config.map | toYaml -}}
{{- end -}}

{{/*
What is switched on, as YAML: the values under features, and where they say "auto" the union of all
configurations. A configuration that is no YAML is refused here, not by every node.
*/}}
{{- define "sluice.features" -}}
{{- $found := dict "cdi" false "rdma" (ne .Values.rdma.configMap "") "validations" false "labels" (dict) -}}
{{- if .Values.config.name -}}
  {{- /* It cannot be read here: what a configuration switches on when it says nothing. */ -}}
  {{- $found = dict "cdi" true "rdma" (ne .Values.rdma.configMap "") "validations" true "labels" (dict "file" true) -}}
{{- else -}}
{{- range $name, $text := include "sluice.configs" . | fromYaml -}}
  {{- $config := fromYaml $text -}}
  {{- if hasKey $config "Error" -}}
    {{- fail (printf "config.map.%s is no YAML: %s" $name (get $config "Error")) -}}
  {{- end -}}
  {{- $sluice := default (dict) (get $config "sluice") -}}
  {{- $cdi := default (dict) (get $sluice "cdi") -}}
  {{- if ne (toString (get $cdi "write")) "false" -}}{{- $_ := set $found "cdi" true -}}{{- end -}}
  {{- $validations := default (dict) (get $sluice "validations") -}}
  {{- if ne (toString (get $validations "write")) "never" -}}{{- $_ := set $found "validations" true -}}{{- end -}}
  {{- if hasKey $sluice "rdma" -}}{{- $_ := set $found "rdma" true -}}{{- end -}}
  {{- $labels := default (dict) (get $sluice "labels") -}}
  {{- $flags := default (dict) (get $config "flags") -}}
  {{- $mode := default "" (get $labels "mode") -}}
  {{- if and (has $mode (list "" "auto")) (hasKey $flags "useNodeFeatureAPI") -}}
    {{- $mode = ternary "nodefeature" "file" (eq (toString (get $flags "useNodeFeatureAPI")) "true") -}}
  {{- end -}}
  {{- /* Not said: the way that needs no right; sluice.env tells the service. */ -}}
  {{- if eq $mode "" -}}{{- $mode = "file" -}}{{- end -}}
  {{- $_ := set (get $found "labels") (ternary "any" $mode (eq $mode "auto")) true -}}
{{- end -}}
{{- end -}}
{{- $out := dict "kubelet" .Values.features.kubelet -}}
{{- range $key := list "cdi" "rdma" "validations" -}}
  {{- $said := get $.Values.features $key -}}
  {{- $_ := set $out $key (ternary (get $found $key) $said (eq (toString $said) "auto")) -}}
{{- end -}}
{{- $modes := get $found "labels" -}}
{{- if ne .Values.features.labels "auto" -}}{{- $modes = dict .Values.features.labels true -}}{{- end -}}
{{- range $mode := list "file" "nodefeature" "direct" -}}
  {{- $_ := set $out $mode (or (hasKey $modes $mode) (hasKey $modes "any")) -}}
{{- end -}}
{{- $many := or (gt (len .Values.config.map) 1) (ne .Values.config.name "") -}}
{{- $_ := set $out "nodeLabel" (ternary $many .Values.features.nodeLabel (eq (toString .Values.features.nodeLabel) "auto")) -}}
{{- $_ := set $out "api" (or (get $out "nodefeature") (get $out "direct") (get $out "nodeLabel") .Values.events) -}}
{{- if and (eq .Values.profile "restricted") (get $out "cdi") -}}
  {{- fail "profile: restricted writes no CDI specification: set sluice.cdi.write: false in each configuration (features.cdi: false with config.name)" -}}
{{- end -}}
{{- if and (eq .Values.profile "restricted") .Values.hostPID -}}
  {{- fail "hostPID: profile: restricted has no use for it" -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{/* Whether an admission policy can hold "direct" to the own node: policies are stable and tokens name their node from 1.30 on. */}}
{{- define "sluice.haspolicy" -}}
{{- $features := include "sluice.features" . | fromYaml -}}
{{- $served := semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version -}}
{{- $wanted := ternary $served .Values.admissionPolicy.enabled (eq (toString .Values.admissionPolicy.enabled) "auto") -}}
{{- if and $features.direct $wanted -}}true{{- end -}}
{{- end -}}

{{- define "sluice.runtimesocket" -}}
{{- get (dict "containerd" "/run/containerd/containerd.sock" "crio" "/run/crio/crio.sock" "k3s" "/run/k3s/containerd/containerd.sock" "microk8s" "/var/snap/microk8s/common/run/containerd.sock" "cri-dockerd" "/run/cri-dockerd.sock" "none" "") .Values.containerRuntime -}}
{{- end -}}

{{/*
Where the driver root is in the pod; the service looks for the driver's library in these three. What a driver container
mounts at /run/nvidia/driver later is seen only where the directory above it is mounted.
*/}}
{{- define "sluice.driverinpod" -}}
{{- if eq .Values.driver.root "/" -}}/host
{{- else if hasPrefix "/run/nvidia/" .Values.driver.root -}}{{ .Values.driver.root }}
{{- else -}}/driver-root
{{- end -}}
{{- end -}}

{{- define "sluice.env" -}}
{{- $features := include "sluice.features" . | fromYaml -}}
- {name: CONFIG_FILE_SRCDIR, value: /config}
{{- with .Values.config.default }}
- {name: DEFAULT_CONFIG, value: {{ . | quote }}}
{{- end }}
- {name: FALLBACK_STRATEGIES, value: {{ join "," .Values.config.fallbackStrategies | quote }}}
{{- if and $features.file (not $features.nodefeature) (not $features.direct) }}
# labels into the file: without a mode in the configuration the service would look for another way
- {name: USE_NODE_FEATURE_API, value: "false"}
{{- end }}
- {name: FAIL_ON_INIT_ERROR, value: {{ .Values.failOnInitError | quote }}}
{{- if not $features.kubelet }}
# registers nowhere
- {name: KUBELET_SOCKET, value: ""}
{{- end }}
{{- if eq .Values.profile "full" }}
- {name: NVIDIA_DRIVER_ROOT, value: {{ .Values.driver.root }}}
- {name: DRIVER_ROOT_CTR_PATH, value: {{ include "sluice.driverinpod" . }}}
{{- with include "sluice.runtimesocket" . }}
- {name: CONTAINER_RUNTIME_ENDPOINT, value: "unix:///host{{ . }}"}
{{- end }}
{{- else }}
# The container runtime reads these two and puts the GPUs and the driver's libraries into this pod.
- {name: NVIDIA_VISIBLE_DEVICES, value: all}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: utility}
{{- end }}
# For DCGM's label Hostname; with a token also for the API server.
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
{{- if $features.api }}
- {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sluice.selinuxtype" -}}
{{- default (ternary "spc_t" "" .Values.openshift.enabled) .Values.seLinuxType -}}
{{- end -}}

{{- define "sluice.securitycontext" -}}
readOnlyRootFilesystem: true
# root: the kubelet's sockets, the state directory and the CDI directory are root's
runAsUser: 0
{{- if eq .Values.profile "full" }}
# privileged: the device cgroup of any other container refuses /dev/nvidia* that appear after its start, whatever
# their mode, and SELinux refuses it the kubelet's directories
privileged: true
{{- else }}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- with include "sluice.selinuxtype" . }}
# the kubelet's sockets are of a type that the usual type of a container may not touch
seLinuxOptions: {type: {{ . }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* What of the host the pod sees. Each mount has its reason beside its volume. */}}
{{- define "sluice.mounts" -}}
{{- $features := include "sluice.features" . | fromYaml -}}
- {name: config, mountPath: /config, readOnly: true}
{{- if .Values.rdma.configMap }}
- {name: rdma-config, mountPath: /k8s-rdma-shared-dev-plugin, readOnly: true}
{{- end }}
- {name: run, mountPath: /run}
{{- if eq .Values.profile "full" }}
- {name: host, mountPath: /host, readOnly: true, mountPropagation: HostToContainer}
- {name: dev, mountPath: /dev, readOnly: true}
{{- if eq (include "sluice.driverinpod" .) "/driver-root" }}
- {name: driver-root, mountPath: /driver-root, readOnly: true, mountPropagation: HostToContainer}
{{- end }}
{{- else if $features.rdma }}
- {name: dev-infiniband, mountPath: /dev/infiniband, readOnly: true}
{{- end }}
{{- if $features.validations }}
- {name: run-nvidia, mountPath: /run/nvidia, mountPropagation: HostToContainer}
{{- else if hasPrefix "/run/nvidia/" (include "sluice.driverinpod" .) }}
- {name: run-nvidia, mountPath: /run/nvidia, readOnly: true, mountPropagation: HostToContainer}
{{- end }}
- {name: sys, mountPath: /sys, readOnly: true}
- {name: state, mountPath: /var/lib/sluice}
{{- if $features.kubelet }}
- {name: device-plugins, mountPath: /var/lib/kubelet/device-plugins}
- {name: pod-resources, mountPath: /var/lib/kubelet/pod-resources, readOnly: true}
{{- end }}
{{- if .Values.hostPID }}
- {name: log-containers, mountPath: /var/log/containers, readOnly: true}
- {name: log-pods, mountPath: /var/log/pods, readOnly: true}
{{- end }}
{{- if or $features.cdi $features.rdma }}
- {name: cdi, mountPath: /var/run/cdi}
{{- end }}
{{- if or $features.kubelet $features.cdi }}
- {name: etc-cdi, mountPath: /etc/cdi, readOnly: true}
{{- end }}
{{- if $features.file }}
- {name: features-d, mountPath: /etc/kubernetes/node-feature-discovery/features.d}
{{- end }}
{{- if $features.rdma }}
- {name: run-mellanox, mountPath: /run/mellanox, readOnly: true, mountPropagation: HostToContainer}
{{- end }}
{{- end -}}

{{- define "sluice.volumes" -}}
{{- $features := include "sluice.features" . | fromYaml -}}
- name: config
  configMap: {name: {{ include "sluice.configmap" . }}}
{{- with .Values.rdma.configMap }}
- name: rdma-config
  configMap: {name: {{ . }}}
{{- end }}
# /run/sluice with the service's socket and locks; nothing of it outlives the pod
- name: run
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- if eq .Values.profile "full" }}
# the driver's libraries where they are installed on the host, the container runtime's socket, and the files of modprobe
# and kernel that `sluice doctor` reads. Read-only, but for file systems mounted below /, which keep their own mode:
# another reason why the pod counts as root of the host
- name: host
  hostPath: {path: /, type: Directory}
# the GPUs' nodes, also those that come later, and the kernel log. Device nodes can be written through a read-only mount
- name: dev
  hostPath: {path: /dev, type: Directory}
{{- if eq (include "sluice.driverinpod" .) "/driver-root" }}
# the driver's libraries, in a place of their own
- name: driver-root
  hostPath: {path: {{ .Values.driver.root }}, type: DirectoryOrCreate}
{{- end }}
{{- else if $features.rdma }}
# which nodes an adapter has; none of them can be opened from here
- name: dev-infiniband
  hostPath: {path: /dev/infiniband, type: DirectoryOrCreate}
{{- end }}
{{- $container := hasPrefix "/run/nvidia/" (include "sluice.driverinpod" .) }}
{{- if or $features.validations $container }}
# {{ if $container }}the driver in its container{{ end }}{{ if and $container $features.validations }}, and {{ end }}{{ if $features.validations }}the files in validations that others wait for{{ end }}
- name: run-nvidia
  hostPath: {path: /run/nvidia, type: DirectoryOrCreate}
{{- end }}
# PCI, NUMA, modules and network interfaces of the host, not of the pod's network namespace
- name: sys
  hostPath: {path: /sys, type: Directory}
# what has to be there after a restart: health of the GPUs, topology, who holds what
- name: state
  hostPath: {path: /var/lib/sluice, type: DirectoryOrCreate}
{{- if $features.kubelet }}
# a socket for each resource beside the kubelet's, which is in this place on every node
- name: device-plugins
  hostPath: {path: /var/lib/kubelet/device-plugins, type: Directory}
# the kubelet is asked which container has which device
- name: pod-resources
  hostPath: {path: {{ .Values.kubeletRootDir }}/pod-resources, type: Directory}
{{- end }}
{{- if .Values.hostPID }}
# the names of the files are the names of containers; no file is opened
- name: log-containers
  hostPath: {path: /var/log/containers, type: DirectoryOrCreate}
# the same of pods
- name: log-pods
  hostPath: {path: /var/log/pods, type: DirectoryOrCreate}
{{- end }}
{{- if or $features.cdi $features.rdma }}
# the specifications by which container runtimes find {{ if $features.cdi }}the GPUs{{ end }}{{ if and $features.cdi $features.rdma }} and {{ end }}{{ if $features.rdma }}the adapters{{ end }}
- name: cdi
  hostPath: {path: /var/run/cdi, type: DirectoryOrCreate}
{{- end }}
{{- if or $features.kubelet $features.cdi }}
# specifications of others: the same device twice makes both unusable
- name: etc-cdi
  hostPath: {path: /etc/cdi, type: DirectoryOrCreate}
{{- end }}
{{- if $features.file }}
# the labels, for node feature discovery to read
- name: features-d
  hostPath: {path: /etc/kubernetes/node-feature-discovery/features.d, type: DirectoryOrCreate}
{{- end }}
{{- if $features.rdma }}
# whether a driver of the adapters in a container is ready
- name: run-mellanox
  hostPath: {path: /run/mellanox, type: DirectoryOrCreate}
{{- end }}
{{- end -}}

{{/* Of labels and annotations that are our own: the domain of src/base/domain.h. */}}
{{- define "sluice.prefix" -}}sluice.dev/{{- end -}}

{{/* What node feature discovery would make of the hardware: written in mode direct where it is missing. */}}
{{- define "sluice.nfdlabels" -}}
['feature.node.kubernetes.io/pci-10de.present', 'feature.node.kubernetes.io/pci-0300_10de.present', 'feature.node.kubernetes.io/pci-0302_10de.present', 'feature.node.kubernetes.io/pci-15b3.present', 'feature.node.kubernetes.io/rdma.capable', 'feature.node.kubernetes.io/rdma.available']
{{- end -}}

{{/* Of what exists only while `helm uninstall` cleans up. */}}
{{- define "sluice.hook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

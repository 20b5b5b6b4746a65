{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Holds the patches of an account (.account) to labels of the own node. `hook`: its weight, for what lives only while
`helm uninstall` cleans up. */}}
{{- define "sluice.ownnode" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels:
    {{- include "sluice.labels" .top | nindent 4 }}
  {{- with .hook }}
  annotations:
    {{- include "sluice.hook" . | nindent 4 }}
  {{- end }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: ["*"]
      operations: [CREATE, UPDATE, DELETE]
      resources: ["nodes", "nodes/*"]
  matchConditions:
  - name: of-the-agent
    expression: request.userInfo.username == 'system:serviceaccount:{{ .top.Release.Namespace }}:{{ .account }}'
  variables:
  - name: before
    expression: "oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"
  - name: after
    expression: "object != null && has(object.metadata.labels) ? object.metadata.labels : {}"
  - name: changed
    expression: |-
      variables.after.map(key, key).filter(key, !(key in variables.before) || variables.before[key] != variables.after[key])
      + variables.before.map(key, key).filter(key, !(key in variables.after))
  - name: notes # nfd-master's own is changed when labels become ours
    expression: "object != null && has(object.metadata.annotations) ? object.metadata.annotations : {}"
  - name: notesBefore
    expression: "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"
  validations:
  - expression: request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '')
    message: a node may only be updated
  - expression: |-
      has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra
      && request.userInfo.extra['authentication.kubernetes.io/node-name'] == [request.name]
    message: only the node that the pod runs on, and only with the token of a pod
  - expression: |-
      variables.changed.all(key, key.startsWith('nvidia.com/') || key.startsWith('{{ include "sluice.prefix" .top }}')
      || key in {{ include "sluice.nfdlabels" .top }})
    message: only labels of GPU feature discovery and of sluice
  - expression: |-
      object != null && oldObject != null && object.spec == oldObject.spec
      && variables.notes.all(key, key == 'nfd.node.kubernetes.io/feature-labels'
        || key in variables.notesBefore && variables.notes[key] == variables.notesBefore[key])
      && variables.notesBefore.all(key, key == 'nfd.node.kubernetes.io/feature-labels' || key in variables.notes)
      && object.metadata.?finalizers.orValue([]) == oldObject.metadata.?finalizers.orValue([])
      && object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([])
    message: nothing but labels and what nfd-master remembers of them
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "sluice.labels" .top | nindent 4 }}
  {{- with .hook }}
  annotations:
    {{- include "sluice.hook" . | nindent 4 }}
  {{- end }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}

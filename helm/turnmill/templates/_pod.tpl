{{/*
A pod of ours: the template's metadata and spec.

root, component, args; pod: what differs from .Values.pod; settings, tokens: see turnmill.env; resources; homeSize;
claimed: home comes from a claim; inline: variables in the pod itself and not from the ConfigMap, which a hook runs before; init: commands that run
first; serviceAccount, restartPolicy, ports, probes {startup, liveness, readiness}, grace, preStop: where they are set.
*/}}
{{- define "turnmill.pod" -}}
{{- $root := .root }}
{{- $pod := mergeOverwrite (deepCopy $root.Values.pod) (.pod | default dict) }}
{{- $kafkaFiles := include "turnmill.kafkaFiles" $root }}
{{- $container := dict "root" $root "settings" .settings "tokens" .tokens "pod" $pod "inline" .inline "kafkaFiles" $kafkaFiles }}
metadata:
  labels:
    {{- include "turnmill.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $pod.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- if not .inline }}
    checksum/settings: {{ include "turnmill.variables" $root | sha256sum }}
    {{- end }}
    kubectl.kubernetes.io/default-container: {{ .component }}
    {{- with merge (dict) $pod.annotations $root.Values.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ .serviceAccount | default (include "turnmill.serviceAccount" $root) }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- with .grace }}
  terminationGracePeriodSeconds: {{ . }}
  {{- end }}
  {{- with concat $root.Values.global.imagePullSecrets $root.Values.image.pullSecrets }}
  imagePullSecrets: {{ toJson . }}
  {{- end }}
  securityContext:
    {{- toYaml $pod.securityContext | nindent 4 }}
  {{- range $key := list "priorityClassName" "runtimeClassName" "schedulerName" "dnsPolicy" }}
  {{- with get $pod $key }}
  {{ $key }}: {{ . }}
  {{- end }}
  {{- end }}
  {{- range $key := list "nodeSelector" "tolerations" "affinity" "hostAliases" }}
  {{- with get $pod $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- if .ports }}
  {{- with $pod.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $selector := dict "labelSelector" (dict "matchLabels" (include "turnmill.selector" $ | fromYaml)) }}
    - {{ merge (dict) . $selector | toJson }}
    {{- end }}
  {{- end }}
  {{- end }}
  {{- if or .init $pod.initContainers }}
  initContainers:
    {{- with $pod.initContainers }}
    {{- tpl (toYaml .) $root | nindent 4 }}
    {{- end }}
    {{- range $name, $args := .init }}
    - name: {{ $name }}
      args: {{ toJson $args }}
      resources:
        {{- toYaml $root.Values.jobs.resources | nindent 8 }}
      {{- include "turnmill.container" $container | nindent 6 }}
    {{- end }}
  {{- end }}
  containers:
    - name: {{ .component }}
      args: {{ toJson .args }}
      {{- with .ports }}
      ports: {{ toJson . }}
      {{- end }}
      {{- range $kind, $probe := .probes }}
      {{ $kind }}Probe: {{ toJson $probe }}
      {{- end }}
      {{- with .preStop }}
      lifecycle: {preStop: {exec: {command: [sleep, {{ . | quote }}]}}}
      {{- end }}
      resources:
        {{- toYaml .resources | nindent 8 }}
      {{- include "turnmill.container" $container | nindent 6 }}
    {{- with $pod.sidecars }}
    {{- tpl (toYaml .) $root | nindent 4 }}
    {{- end }}
  volumes:
    {{- if not .claimed }}
    - {name: home, emptyDir: {sizeLimit: {{ .homeSize | default "128Mi" }}}}
    {{- end }}
    - {name: tmp, emptyDir: {sizeLimit: 128Mi}}
    {{- if $kafkaFiles }}
    - name: kafka
      projected:
        defaultMode: 0440
        sources:
          {{- $kafkaFiles | nindent 10 }}
    {{- end }}
    {{- with .tokens }}
    - name: gateway
      secret: {secretName: {{ .existingSecret }}, defaultMode: 0440, items: [{key: {{ .key }}, path: tokens}]}
    {{- end }}
    {{- with $pod.extraVolumes }}
    {{- tpl (toYaml .) $root | nindent 4 }}
    {{- end }}
{{- end }}

{{/* What each container of ours has, main or init. */}}
{{- define "turnmill.container" -}}
image: {{ include "turnmill.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [turnmill]
env:
  {{- if .inline }}
  {{- range $name, $value := include "turnmill.variables" .root | fromYaml }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
  {{- end }}
  {{- include "turnmill.env" . | nindent 2 }}
  {{- with .pod.extraEnv }}
  {{- tpl (toYaml .) $.root | nindent 2 }}
  {{- end }}
{{- if or (not .inline) .pod.extraEnvFrom }}
envFrom:
  {{- if not .inline }}
  - configMapRef: {name: {{ include "turnmill.fullname" .root }}}
  {{- end }}
  {{- with .pod.extraEnvFrom }}
  {{- tpl (toYaml .) $.root | nindent 2 }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml .pod.containerSecurityContext | nindent 2 }}
volumeMounts:
  - {name: home, mountPath: /var/lib/turnmill}
  - {name: tmp, mountPath: /tmp}
  {{- if .kafkaFiles }}
  - {name: kafka, mountPath: /etc/turnmill/kafka, readOnly: true}
  {{- end }}
  {{- if .tokens }}
  - {name: gateway, mountPath: /etc/turnmill/gateway, readOnly: true}
  {{- end }}
  {{- with .pod.extraVolumeMounts }}
  {{- tpl (toYaml .) $.root | nindent 2 }}
  {{- end }}
{{- end }}

{{/* (root, store) -> the commands that prepare broker and store, where pods do that themselves. */}}
{{- define "turnmill.init" -}}
{{- $init := dict }}
{{- if and (eq .root.Values.topics.apply "init") (not .root.Values.topics.strimzi.enabled) }}
{{- $_ := set $init "topics" (include "turnmill.applyTopics" .root | fromJsonArray) }}
{{- end }}
{{- if and (eq .root.Values.store.migrate "init") .store }}
{{- $_ := set $init "migrate" (list "store" "migrate") }}
{{- end }}
{{- $init | toJson }}
{{- end }}

{{- define "turnmill.applyTopics" -}}
{{- .Values.topics.grow | ternary (list "topics" "apply" "--grow") (list "topics" "apply") | toJson }}
{{- end }}

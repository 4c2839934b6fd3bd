{{- define "turnmill.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "turnmill.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "turnmill.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "turnmill.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* What all resources bear. */}}
{{- define "turnmill.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "turnmill.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/part-of: turnmill
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (root, component) -> what selects the pods of one Deployment; never changes. */}}
{{- define "turnmill.selector" -}}
app.kubernetes.io/name: {{ include "turnmill.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* (root, name, component?, annotations?, labels?) -> the metadata of a resource. */}}
{{- define "turnmill.metadata" -}}
metadata:
  name: {{ .name }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  labels:
    {{- include "turnmill.labels" .root | nindent 4 }}
    {{- with .component }}
    app.kubernetes.io/component: {{ . }}
    {{- end }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "turnmill.image" -}}
{{- with .Values.image }}
{{- with $.Values.global.imageRegistry | default .registry }}{{ . }}/{{ end }}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{- define "turnmill.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "turnmill.fullname" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* The roles that are deployed, as a JSON object: component -> {roles, ...its values}. */}}
{{- define "turnmill.workers" -}}
{{- $workers := dict }}
{{- range $name, $values := .Values.roles }}
{{- if $values.enabled }}
{{- $_ := set $workers $name (merge (dict "roles" ($values.roles | default (list $name))) $values) }}
{{- end }}
{{- end }}
{{- $workers | toJson }}
{{- end }}

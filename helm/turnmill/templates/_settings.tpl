{{/* A value as an environment variable holds it: numbers without an exponent, booleans as true and false. */}}
{{- define "turnmill.text" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{- define "turnmill.brokers" -}}
{{- if .Values.dev.kafka.enabled }}{{ include "turnmill.fullname" . }}-kafka:9092
{{- else }}
{{- $brokers := required "kafka.brokers is missing: the bootstrap addresses, host:port,host:port" .Values.kafka.brokers }}
{{- range splitList "," $brokers }}
{{- if not (regexMatch "^([^,:/\\s]+|\\[[^\\]]+\\]):[0-9]+$" (trim .)) }}
{{- fail (printf "kafka.brokers: each address is host:port, without a scheme, and %q is not" .) }}
{{- end }}
{{- end }}
{{- $brokers }}
{{- end }}
{{- end }}

{{/* TLS and login, as the settings have them; secrets are files, see turnmill.kafkaFiles. */}}
{{- define "turnmill.security" -}}
{{- $tls := .Values.kafka.tls }}
{{- $sasl := .Values.kafka.sasl }}
{{- $folder := "/etc/turnmill/kafka" }}
{{- $plain := ternary "SASL_PLAINTEXT" "PLAINTEXT" (ne $sasl.mechanism "") }}
{{- $encrypted := ternary "SASL_SSL" "SSL" (ne $sasl.mechanism "") }}
security_protocol: {{ ternary $encrypted $plain $tls.enabled }}
{{- if and $tls.enabled $tls.ca.existingSecret }}
ssl_ca_file: {{ $folder }}/ca.crt
{{- end }}
{{- if and $tls.enabled $tls.client.existingSecret }}
ssl_certificate_file: {{ $folder }}/tls.crt
ssl_key_file: {{ $folder }}/tls.key
{{- end }}
{{- if $sasl.mechanism }}
sasl_mechanism: {{ $sasl.mechanism }}
{{- if ne $sasl.mechanism "OAUTHBEARER" }}
sasl_username: {{ required "kafka.sasl.username is missing: the user that logs in to the brokers" $sasl.username | quote }}
sasl_password_file: {{ $folder }}/password
{{- else if $sasl.oauth.tokenFile }}
oauth_token_file: {{ $sasl.oauth.tokenFile }}
{{- else }}
oauth_token_url: {{ required "kafka.sasl.oauth.tokenUrl is missing: the endpoint that gives tokens (or tokenFile)" $sasl.oauth.tokenUrl }}
oauth_client_id: {{ required "kafka.sasl.oauth.clientId is missing" $sasl.oauth.clientId | quote }}
oauth_client_secret_file: {{ $folder }}/client-secret
{{- with $sasl.oauth.scope }}
oauth_scope: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What is the same for all pods, as YAML: TURNMILL_* -> text. */}}
{{- define "turnmill.variables" -}}
{{- $settings := deepCopy .Values.settings }}
{{- $_ := set $settings "brokers" (include "turnmill.brokers" .) }}
{{- $settings = merge $settings (include "turnmill.security" . | fromYaml) }}
{{- $_ := set $settings "topic_prefix" .Values.topics.prefix }}
{{- $_ := set $settings "partitions" .Values.topics.partitions }}
{{- if not (kindIs "invalid" .Values.topics.replication) }}
{{- $_ := set $settings "replication" .Values.topics.replication }}
{{- end }}
{{- $_ := set $settings "home" "/var/lib/turnmill" }}
{{- $_ := set $settings "cache" "/var/lib/turnmill/cache" }}
{{- $_ := set $settings "host" .Values.listenAddress }}
{{- $_ := set $settings "port" .Values.worker.port }}
{{- $_ := set $settings "gateway_host" .Values.listenAddress }}
{{- $_ := set $settings "gateway_port" .Values.gateway.port }}
{{- range $name, $value := $settings }}
{{- if not (kindIs "invalid" $value) }}
TURNMILL_{{ upper $name }}: {{ include "turnmill.text" $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* (root, settings, tokens?) -> what differs for one component, and what comes out of Secrets: a list of EnvVar. */}}
{{- define "turnmill.env" -}}
{{- range $name, $value := .settings }}
{{- if not (kindIs "invalid" $value) }}
- {name: TURNMILL_{{ upper $name }}, value: {{ include "turnmill.text" $value | quote }}}
{{- end }}
{{- end }}
{{- with .root.Values.store }}
{{- if $.root.Values.dev.postgres.enabled }}
- {name: TURNMILL_STORE, value: "postgresql://turnmill:development@{{ include "turnmill.fullname" $.root }}-postgres:5432/turnmill"}
{{- else if .existingSecret }}
- name: TURNMILL_STORE
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .key }}}}
{{- else }}
{{- if regexMatch "(://[^/@]*:[^/@]*@)|([?&](ssl)?password=)" .url }}
{{- fail "store.url has a password in it, which every reader of the release would see: put the address into a Secret, and name that in store.existingSecret" }}
{{- end }}
{{- if not (regexMatch "^(postgres(ql)?://[^/]+/.+)?$" .url) }}
{{- fail "store.url: postgresql://user@host:port/database is expected" }}
{{- end }}
- {name: TURNMILL_STORE, value: {{ required "store.existingSecret is missing: a Secret with the database's address, postgresql://user:password@host:port/database" .url | quote }}}
{{- end }}
{{- end }}
{{- with .root.Values.kafka.tls }}
{{- if and .enabled .client.existingSecret .client.passwordKey }}
- name: TURNMILL_SSL_KEY_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .client.existingSecret }}, key: {{ .client.passwordKey }}}}
{{- end }}
{{- end }}
{{- if .tokens }}
- {name: TURNMILL_GATEWAY_TOKENS, value: /etc/turnmill/gateway/tokens}
{{- end }}
{{- end }}

{{/* Certificates and secrets for the brokers: the sources of one projected volume. */}}
{{- define "turnmill.kafkaFiles" -}}
{{- with .Values.kafka }}
{{- if and .tls.enabled .tls.ca.existingSecret }}
- secret: {name: {{ .tls.ca.existingSecret }}, items: [{key: {{ .tls.ca.key }}, path: ca.crt}]}
{{- end }}
{{- if and .tls.enabled .tls.client.existingSecret }}
- secret:
    name: {{ .tls.client.existingSecret }}
    items:
      - {key: {{ .tls.client.certificateKey }}, path: tls.crt}
      - {key: {{ .tls.client.privateKeyKey }}, path: tls.key}
{{- end }}
{{- if and .sasl.mechanism (ne .sasl.mechanism "OAUTHBEARER") }}
- secret:
    name: {{ required "kafka.sasl.existingSecret is missing: the Secret with the user's password" .sasl.existingSecret }}
    items: [{key: {{ .sasl.passwordKey }}, path: password}]
{{- end }}
{{- if and (eq .sasl.mechanism "OAUTHBEARER") (not .sasl.oauth.tokenFile) }}
- secret:
    name: {{ required "kafka.sasl.oauth.existingSecret is missing: the Secret with the client's secret" .sasl.oauth.existingSecret }}
    items: [{key: {{ .sasl.oauth.secretKey }}, path: client-secret}]
{{- end }}
{{- end }}
{{- end }}

{{- define "equipoise.labels" -}}
app.kubernetes.io/name: equipoise
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

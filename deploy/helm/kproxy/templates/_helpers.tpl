{{- define "kproxy.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kproxy.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kproxy.labels" -}}
{{ include "kproxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* All ports of the clusters, as a JSON list of {name, port}: the bootstrap of each, then its brokers. */}}
{{- define "kproxy.ports" -}}
{{- $ports := list -}}
{{- $taken := dict "9644" "the admin server" -}}
{{- range $number, $cluster := .Values.clusters -}}
{{- $base := int $cluster.port -}}
{{- $wanted := list (dict "name" (printf "c%d" $number) "port" $base) -}}
{{- range $node := $cluster.nodeIds -}}
{{- $wanted = append $wanted (dict "name" (printf "c%d-%d" $number (int $node)) "port" (add $base 1 (int $node))) -}}
{{- end -}}
{{- range $one := $wanted -}}
{{- $port := toString $one.port -}}
{{- if hasKey $taken $port -}}
{{- fail (printf "clusters[%d]: port %s is that of %s already" $number $port (get $taken $port)) -}}
{{- end -}}
{{- if gt (int $one.port) 65535 -}}
{{- fail (printf "clusters[%d]: broker's port %s is above 65535; choose a lower port" $number $port) -}}
{{- end -}}
{{- $_ := set $taken $port (printf "clusters[%d]" $number) -}}
{{- $ports = append $ports $one -}}
{{- end -}}
{{- end -}}
{{- dict "ports" $ports | toJson -}}
{{- end -}}

{{/* kproxy.yaml: what the values say of each cluster, then what its extra adds. */}}
{{- define "kproxy.config" -}}
{{- $host := printf "%s.%s.svc" (include "kproxy.name" .) .Release.Namespace -}}
{{- $clusters := list -}}
{{- range .Values.clusters -}}
{{- $addresses := dict "mode" "port" "advertise" (default $host .advertise) "node_ids" .nodeIds -}}
{{- $cluster := dict "name" .name "listen" (printf ":%d" (int .port)) "bootstrap" .bootstrap "addresses" $addresses -}}
{{- $clusters = append $clusters (mergeOverwrite $cluster (deepCopy (default (dict) .extra))) -}}
{{- end -}}
{{- $config := dict "admin" "0.0.0.0:9644" "logs" "json" "clusters" $clusters -}}
{{- if .Values.log.size -}}
{{- $_ := set $config "analysis" (dict "log" (dict "path" "/var/log/kproxy/kafka.jsonl" "most_size" .Values.log.partSize "keep" (int .Values.log.keep))) -}}
{{- end -}}
{{- mergeOverwrite $config (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{/* Prefix of the names of objects: the release's name, with the chart's if that is not in it. */}}
{{- define "dra-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name of the service account. */}}
{{- define "dra-operator.account" -}}
{{- default (ternary (include "dra-operator.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Labels by which the pods are selected: those of manifests/, as the selector of a Deployment that is there cannot change. */}}
{{- define "dra-operator.selectorLabels" -}}
app.kubernetes.io/name: dra-operator
{{- end -}}

{{/* Labels of every object. */}}
{{- define "dra-operator.labels" -}}
{{ include "dra-operator.selectorLabels" . }}
app.kubernetes.io/part-of: dra-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Name of an object of manifests/ in this release. Admission policies keep theirs, as the operator asks for them by name, and so
does the role of readers. */}}
{{- define "dra-operator.renamed" -}}
{{- if and (hasPrefix "dra-operator" .name) (not (hasPrefix "admissionregistration" .group)) -}}
{{- printf "%s%s" (include "dra-operator.fullname" .root) (trimPrefix "dra-operator" .name) -}}
{{- else -}}
{{- .name -}}
{{- end -}}
{{- end -}}

{{/* Objects of a file of manifests/ as YAML, with names, namespace, labels and user of this release.
Parameters: root; file, below manifests/, or of crds/ as kinds/FILE; labels, more of them (optional);
without, a kind that is left out (optional). */}}
{{- define "dra-operator.objects" -}}
{{- $root := .root -}}
{{- $more := .labels | default dict -}}
{{- $without := .without | default "" -}}
{{- $user := printf "system:serviceaccount:%s:%s" $root.Release.Namespace (include "dra-operator.account" $root) -}}
{{- $path := ternary .file (printf "manifests/%s" .file) (hasPrefix "kinds/" .file) -}}
{{- $text := $root.Files.Get $path -}}
{{- if not $text -}}
{{- fail (printf "%s is not in this chart" $path) -}}
{{- end -}}
{{- range regexSplit "(?m)^---$" ($text | replace "system:serviceaccount:dra-operator:dra-operator" $user) -1 }}
{{- $object := fromYaml . -}}
{{- if hasKey $object "Error" -}}
{{- fail $object.Error -}}
{{- end -}}
{{- $group := $object.apiVersion -}}
{{- $metadata := $object.metadata -}}
{{- $_ := set $metadata "name" (include "dra-operator.renamed" (dict "root" $root "name" $metadata.name "group" $group)) -}}
{{- if or (hasKey $metadata "namespace") (has $object.kind (list "Role" "RoleBinding")) -}}
{{- $_ := set $metadata "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- $_ := set $metadata "labels" (merge (include "dra-operator.labels" $root | fromYaml) $more) -}}
{{- if eq $object.kind "CustomResourceDefinition" -}}
{{- $_ := set $metadata "annotations" (dict "helm.sh/resource-policy" "keep") -}}
{{- end -}}
{{- if hasKey $object "roleRef" -}}
{{- $_ := set $object.roleRef "name" (include "dra-operator.renamed" (dict "root" $root "name" $object.roleRef.name "group" $group)) -}}
{{- end -}}
{{- range $object.subjects -}}
{{- $_ := set . "name" (include "dra-operator.account" $root) -}}
{{- $_ := set . "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- if eq $object.kind "ServiceAccount" -}}
{{- $_ := set $metadata "name" (include "dra-operator.account" $root) -}}
{{- with $root.Values.serviceAccount.annotations -}}
{{- $_ := set $metadata "annotations" . -}}
{{- end -}}
{{- end -}}
{{- if and (eq $object.kind "ValidatingAdmissionPolicyBinding") (eq $metadata.name "dra-operator-owned-tolerations") -}}
{{- $_ := set $object.spec "validationActions" (list $root.Values.ownership.tolerations) -}}
{{- end -}}
{{- if and (ne $object.kind $without) (or (ne $object.kind "ServiceAccount") $root.Values.serviceAccount.create) }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end -}}

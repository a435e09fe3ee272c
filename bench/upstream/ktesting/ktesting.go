// Package ktesting stands for k8s.io/ktesting, which the modules of Kubernetes 1.38 name for their tests alone.
package ktesting

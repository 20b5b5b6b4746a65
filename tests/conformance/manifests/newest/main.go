// SPDX-License-Identifier: Apache-2.0

// Manifests as the newest Kubernetes that is built here takes them, with its own code.
//
//	newest check [NAME]   objects on standard input: decoded strictly, with defaults, validated; what has no namespace
//	                      is in this one
//	newest policy FILE    the ValidatingAdmissionPolicy on standard input against the cases of FILE
//	newest kustomize DIR  what kustomize builds
//
// check prints a line for each problem; policy one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	mpi "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	mpivalidation "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/validation"
	securityv1 "github.com/openshift/api/security/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	admissionvalidation "k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func decoder() (runtime.Decoder, error) {
	scheme := legacyscheme.Scheme
	capabilities.Setup(true, 0) // as every server is started: who may be privileged is another's decision
	for _, add := range []func(*runtime.Scheme) error{securityv1.AddToScheme, monitoringv1.AddToScheme, mpi.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme,
		serializer.SerializerOptions{Yaml: true, Strict: true}), nil
}

// As the API server does before it stores one.
func validate(object runtime.Object) (field.ErrorList, error) {
	kind := object.GetObjectKind().GroupVersionKind()
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(object,
		schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return nil, err
	}
	switch of := internal.(type) {
	case *apps.DaemonSet:
		return appsvalidation.ValidateDaemonSet(of, corevalidation.PodValidationOptions{}), nil
	case *batch.Job:
		// The server makes one of an id that the job does not have here.
		manual := true
		of.Spec.ManualSelector = &manual
		of.Spec.Selector = &metav1.LabelSelector{MatchLabels: of.Spec.Template.Labels}
		return batchvalidation.ValidateJob(of, batchvalidation.JobValidationOptions{}), nil
	case *core.Pod:
		return corevalidation.ValidatePodCreate(of, corevalidation.PodValidationOptions{}), nil
	case *core.PersistentVolume:
		return corevalidation.ValidatePersistentVolume(of, corevalidation.PersistentVolumeSpecValidationOptions{}), nil
	case *core.PersistentVolumeClaim:
		return corevalidation.ValidatePersistentVolumeClaim(of, corevalidation.PersistentVolumeClaimSpecValidationOptions{}), nil
	case *storage.StorageClass:
		return storagevalidation.ValidateStorageClass(of), nil
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(of), nil
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(of), nil
	case *core.Namespace:
		return corevalidation.ValidateNamespace(of), nil
	case *core.Service:
		of.Spec.ClusterIPs = []string{of.Spec.ClusterIP} // as the server does
		return corevalidation.ValidateServiceCreate(of), nil
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(of, networkingvalidation.NetworkPolicyValidationOptions{}), nil
	case *rbac.Role:
		return rbacvalidation.ValidateRole(of), nil
	case *rbac.RoleBinding:
		return rbacvalidation.ValidateRoleBinding(of), nil
	case *rbac.ClusterRole:
		return rbacvalidation.ValidateClusterRole(of, rbacvalidation.ClusterRoleValidationOptions{}), nil
	case *rbac.ClusterRoleBinding:
		return rbacvalidation.ValidateClusterRoleBinding(of), nil
	case *admissionregistration.ValidatingAdmissionPolicy:
		return admissionvalidation.ValidateValidatingAdmissionPolicy(of), nil
	case *admissionregistration.ValidatingAdmissionPolicyBinding:
		return admissionvalidation.ValidateValidatingAdmissionPolicyBinding(of), nil
	}
	return nil, fmt.Errorf("nothing here validates it")
}

func rules(object *monitoringv1.PrometheusRule) error {
	for _, group := range object.Spec.Groups {
		for _, rule := range group.Rules {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr.String()); err != nil {
				return fmt.Errorf("%s%s: %w", rule.Record, rule.Alert, err)
			}
		}
	}
	return nil
}

// Of what people write without a namespace: kubectl adds theirs.
func needsNamespace(object runtime.Object) bool {
	switch object.(type) {
	case *corev1.Pod, *corev1.ConfigMap, *corev1.PersistentVolumeClaim, *batchv1.Job, *mpi.MPIJob:
		return true
	}
	return false
}

func one(decode runtime.Decoder, namespace string, text []byte) error {
	object, _, err := decode.Decode(text, nil, nil)
	if err != nil {
		return err
	}
	if about, err := meta.Accessor(object); err == nil && about.GetNamespace() == "" && needsNamespace(object) {
		about.SetNamespace(namespace)
	}
	switch of := object.(type) {
	case *securityv1.SecurityContextConstraints, *monitoringv1.ServiceMonitor:
		return nil // decoded strictly; what validates them is part of their servers
	case *monitoringv1.PrometheusRule:
		return rules(of)
	case *mpi.MPIJob:
		mpi.SetObjectDefaults_MPIJob(of)
		return mpivalidation.ValidateMPIJob(of).ToAggregate()
	}
	found, err := validate(object)
	if err != nil {
		return err
	}
	return found.ToAggregate()
}

// Calls for each object on standard input.
func each(call func([]byte) error) error {
	reader := yaml.NewYAMLReader(bufferedInput())
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = call(text)
		}
		if err != nil {
			return err
		}
	}
}

func check(namespace string) error {
	decode, err := decoder()
	if err != nil {
		return err
	}
	count := 0
	err = each(func(text []byte) error {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal(text, &head); err != nil || head.Kind == "" {
			return err // comments between two separators
		}
		count++
		if err := one(decode, namespace, text); err != nil {
			fmt.Printf("%s %s: %v\n", head.Kind, head.Metadata.Name, err)
		}
		return nil
	})
	fmt.Printf("%d objects\n", count)
	return err
}

func policy(file string) error {
	decode, err := decoder()
	if err != nil {
		return err
	}
	cases, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var answers []answer
	err = each(func(text []byte) error {
		object, _, err := decode.Decode(text, nil, nil)
		if err != nil {
			return err
		}
		answers, err = evaluate(context.Background(), object, cases)
		return err
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func build(directory string) error {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return err
	}
	text, err := made.AsYaml()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

func main() {
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 1 && arguments[0] == "check":
		err = check("")
	case len(arguments) == 2 && arguments[0] == "check":
		err = check(arguments[1])
	case len(arguments) == 2 && arguments[0] == "policy":
		err = policy(arguments[1])
	case len(arguments) == 2 && arguments[0] == "kustomize":
		err = build(arguments[1])
	default:
		err = errors.New("usage: newest check [NAME] | policy FILE | kustomize DIR")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

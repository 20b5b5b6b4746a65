// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"k8s.io/apimachinery/pkg/runtime"
)

func bufferedInput() *bufio.Reader { return bufio.NewReader(os.Stdin) }

// A request, as Python writes it.
type request struct {
	Name, User, Operation, Subresource, Target string
	Extra                                      map[string][]string
	Before, After                              *corev1.Node
}

type answer struct {
	Name    string   `json:"name"`
	Action  string   `json:"action"` // admit, deny, or "" where the policy is not about it
	Reasons []string `json:"reasons"`
}

// As the API server compiles one (its own function is private):
// https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go
func compile(policy *v1.ValidatingAdmissionPolicy) (validating.Validator, error) {
	set := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	compiler, err := cel.NewCompositedCompiler(set)
	if err != nil {
		return nil, err
	}
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, variable := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: variable.Name, Expression: variable.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var conditions, validations, messages []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, validation := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{
			Expression: validation.Expression, Message: validation.Message, Reason: validation.Reason})
		messages = append(messages, nil)
	}
	failure := policy.Spec.FailurePolicy
	matcher := matchconditions.NewMatcher(
		compiler.CompileCondition(conditions, options, environment.StoredExpressions), failure, "policy", "validate",
		policy.Name)
	return validating.NewValidator(
		compiler.CompileCondition(validations, options, environment.StoredExpressions), matcher,
		compiler.CompileCondition(nil, options, environment.StoredExpressions),
		compiler.CompileCondition(messages, options, environment.StoredExpressions), failure, nil), nil
}

func attributes(of *request) *admission.VersionedAttributes {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	var before, after runtime.Object
	if of.Before != nil {
		before = of.Before
	}
	if of.After != nil {
		after = of.After
	}
	plain := admission.NewAttributesRecord(after, before, kind, "", of.Target, resource, of.Subresource,
		admission.Operation(of.Operation), nil, false, &user.DefaultInfo{Name: of.User, Extra: of.Extra})
	return &admission.VersionedAttributes{Attributes: plain, VersionedKind: kind, VersionedObject: after,
		VersionedOldObject: before}
}

func evaluate(ctx context.Context, object runtime.Object, text []byte) ([]answer, error) {
	policy, ok := object.(*v1.ValidatingAdmissionPolicy)
	if !ok {
		return nil, fmt.Errorf("no ValidatingAdmissionPolicy: %T", object)
	}
	var requests []request
	if err := json.Unmarshal(text, &requests); err != nil {
		return nil, err
	}
	validator, err := compile(policy)
	if err != nil {
		return nil, err
	}
	var answers []answer
	for i := range requests {
		made := attributes(&requests[i])
		result := validator.Validate(ctx, made.GetResource(), made, nil, nil, celconfig.RuntimeCELCostBudget, nil)
		of := answer{Name: requests[i].Name, Reasons: []string{}}
		for _, decision := range result.Decisions {
			if of.Action == "" || decision.Action == validating.ActionDeny {
				of.Action = string(decision.Action)
			}
			if decision.Action == validating.ActionDeny {
				of.Reasons = append(of.Reasons, decision.Message)
			}
		}
		answers = append(answers, of)
	}
	return answers, nil
}

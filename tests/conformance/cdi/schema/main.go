// SPDX-License-Identifier: Apache-2.0

// schema validates files with the CDI project's JSON schema, and prints a line "FILE: why" for each that is refused.
// Newer releases have the schema in a module of its own, which the module proxy does not serve.
package main

import (
	"fmt"
	"os"

	"tags.cncf.io/container-device-interface/schema"
)

func main() {
	status := 0
	for _, path := range os.Args[1:] {
		if err := schema.ValidateFile(path); err != nil {
			fmt.Printf("%s: %v\n", path, err)
			status = 1
		}
	}
	os.Exit(status)
}

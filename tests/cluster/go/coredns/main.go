// SPDX-License-Identifier: Apache-2.0

// CoreDNS with the plugins that the names of one cluster take. The program as released adds the clients of three clouds.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	coremain.Run()
}

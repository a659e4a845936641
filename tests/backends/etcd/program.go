//go:build never

// Names the program that ../build makes, so that go.mod and go.sum cover all that goes into it.
package program

import _ "go.etcd.io/etcd/server/v3"

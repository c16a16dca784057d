//go:build !old

package main

import "github.com/twmb/franz-go/pkg/kgo"

var groupCapabilities = []string{"groups", "groups-consumer"}

// The consumer protocol (KIP-848), which franz-go has since 1.21.0.
var serverSideBalancer = kgo.ServerSideBalancer

//go:build old

package main

import "github.com/twmb/franz-go/pkg/kgo"

var groupCapabilities = []string{"groups"}

func serverSideBalancer() kgo.Opt { panic("this version of franz-go has no consumer protocol") }

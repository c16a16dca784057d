// Package lines reads the requests of docs/use/your-own-client.md from standard input and writes the answers. It is
// shared by the client programs written in Go; a program gives one function for each request that it supports.
package lines

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
)

// Program is what one client library adds: a name, the capabilities, and a function for each request. A function
// returns what follows "ok" in the answer, or an error; Later means that the answer is given by Answer or Fail.
type Program struct {
	Library      string
	Version      string
	Capabilities []string
	Describe     func(error) Error
	Do           map[string]func(*Request) (any, error)
}

// Later is returned by a request that is answered later.
var Later = new(int)

// Empty is the answer {}.
var Empty = struct{}{}

// Lines is the connection to the harness.
type Lines struct {
	program  Program
	requests chan *Request
	stdout   *os.File
	output   sync.Mutex
	pending  sync.WaitGroup // sends that are not answered yet
	turn     sync.Mutex     // held by whoever serves requests: the main loop, or an event within a poll
	polling  int64          // the id of the poll or close that events belong to
}

// New returns the connection of a program; nothing is read before Serve.
func New(program Program) *Lines {
	return &Lines{program: program, requests: make(chan *Request, 1000), stdout: polled(os.Stdout)}
}

// polled returns a standard stream in non-blocking mode. A goroutine that reads from a blocking stream occupies a
// thread, and Go's scheduler replaces this thread for each request, which costs more than the send itself.
func polled(stream *os.File) *os.File {
	descriptor := int(stream.Fd())
	if err := syscall.SetNonblock(descriptor, true); err != nil {
		return stream
	}
	return os.NewFile(uintptr(descriptor), stream.Name())
}

// Serve answers requests until standard input ends; then the process exits.
func (l *Lines) Serve() {
	go func() {
		input := bufio.NewReaderSize(polled(os.Stdin), 1<<16)
		for {
			line, err := input.ReadBytes('\n')
			if err == io.EOF {
				os.Exit(0)
			}
			request := &Request{}
			if err == nil {
				err = json.Unmarshal(line, request)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "a request could not be read:", err)
				os.Exit(1)
			}
			l.requests <- request
		}
	}()
	l.turn.Lock()
	l.serve()
}

// serve answers requests, up to the request "continue".
func (l *Lines) serve() {
	for request := range l.requests {
		switch request.Do {
		case "continue":
			return
		case "hello":
			l.Answer(request, map[string]any{"protocol": 1, "library": l.program.Library,
				"version": l.program.Version, "capabilities": l.program.Capabilities})
		case "flush":
			l.pending.Wait()
			l.Answer(request, Empty)
		case "send":
			l.pending.Add(1)
			l.do(request)
		case "poll", "close":
			l.polling = request.ID
			l.do(request)
		default:
			l.do(request)
		}
	}
}

func (l *Lines) do(request *Request) {
	function := l.program.Do[request.Do]
	if function == nil {
		l.Fail(request, fmt.Errorf("%s has no request %q", l.program.Library, request.Do))
		return
	}
	ok, err := function(request)
	if err != nil {
		l.Fail(request, err)
	} else if ok != Later {
		l.Answer(request, ok)
	}
}

// AllowEvents runs the part of a poll or close in which the library may call back. At its end, an event that has been
// written gets its "continue" first.
func (l *Lines) AllowEvents(part func()) {
	l.turn.Unlock()
	part()
	l.turn.Lock()
}

// Event writes a rebalance event and serves requests up to its "continue". It is called by the library's rebalance
// callback, in any goroutine but that of the requests; it waits for AllowEvents.
func (l *Lines) Event(name string, partitions []Partition, committed []Position) {
	if len(partitions) == 0 {
		return
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	polling := l.polling
	event := map[string]any{"id": polling, "event": name, "partitions": partitions}
	if committed != nil {
		event["committed"] = committed
	}
	l.write(event)
	l.serve()
	l.polling = polling
}

// Answer writes the answer of a request that succeeded.
func (l *Lines) Answer(request *Request, ok any) {
	l.write(map[string]any{"id": request.ID, "ok": ok})
	l.answered(request)
}

// Fail writes the answer of a request that failed.
func (l *Lines) Fail(request *Request, err error) {
	reported, _ := errors.AsType[reportedError](err)
	if reported.error != nil {
		err = reported.error
	}
	described := l.program.Describe(err)
	described.Kind, described.Sent = cmp.Or(reported.kind, described.Kind), cmp.Or(reported.sent, described.Sent)
	l.write(map[string]any{"id": request.ID, "error": described})
	l.answered(request)
}

func (l *Lines) answered(request *Request) {
	if request.Do == "send" {
		l.pending.Done()
	}
}

func (l *Lines) write(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	l.output.Lock()
	defer l.output.Unlock()
	if _, err := l.stdout.Write(append(line, '\n')); err != nil {
		os.Exit(0)
	}
}

type reportedError struct {
	error
	kind, sent string
}

func (e reportedError) Unwrap() error { return e.error }

// WithKind returns the error with the "kind" that it is reported with.
func WithKind(err error, kind string) error { return reportedError{err, kind, ""} }

// NotSent returns the error of a request that the library has not even taken, nil for nil.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return reportedError{err, "", "no"}
}

// Context returns a context with the deadline of the request.
func (r *Request) Context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), r.Timeout())
}

// Version returns the version of a module that the program is built with.
func Version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, each := range info.Deps {
			if each.Path == module {
				return strings.TrimPrefix(each.Version, "v")
			}
		}
	}
	return "unknown"
}

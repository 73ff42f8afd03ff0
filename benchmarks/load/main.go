// Command load replays pre-built, pre-signed HTTP requests over a few
// keep-alive connections and reports their responses.
//
// It reads a plan (JSON) from the file named by its argument and writes a
// report (JSON) to standard output. The plan decides everything: requests,
// signatures, expected responses. One thread over epoll serves all connections,
// so that this program takes little of the processor that it shares with the
// server.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
)

// Plan lists the requests to send.
type Plan struct {
	Address     string    `json:"address"`
	Connections int       `json:"connections"`
	Seconds     float64   `json:"seconds"` // repeat the requests for this long; 0 sends each once
	Once        bool      `json:"once"`    // send each at most once, even if time remains
	Chains      []int     `json:"chains"`  // lengths of runs of requests: each has its own connection, and is sent once in order
	Rate        int64     `json:"rate"`    // bytes a second and connection, each way; 0 is unpaced
	Bodies      []string  `json:"bodies"`  // files
	Requests    []Request `json:"requests"`
	ETags       bool      `json:"etags"` // report the ETag of each response, in the order of the requests
}

// Request is one request and its expected response.
type Request struct {
	Head     string `json:"head"`     // request line and headers, with the empty line
	Tail     []byte `json:"tail"`     // a short inline body
	Body     int    `json:"body"`     // index into Bodies, or -1
	Bodyless bool   `json:"bodyless"` // the response announces a length but has no body
	Status   int    `json:"status"`
	Shortest int64  `json:"shortest"` // bounds of the response's length
	Longest  int64  `json:"longest"`
}

// Report has the measurements.
type Report struct {
	Operations         int            `json:"operations"`
	Bytes              int64          `json:"bytes"` // bodies, both ways
	Elapsed            float64        `json:"elapsed_seconds"`
	P50                float64        `json:"p50_seconds"`
	P99                float64        `json:"p99_seconds"`
	Slowest            float64        `json:"slowest_seconds"`
	CPU                float64        `json:"cpu_seconds"` // of this program, while sending
	Errors             map[string]int `json:"errors"`
	FirstErrorResponse string         `json:"first_error_answer"`
	ETags              []string       `json:"etags,omitempty"`
	Chains             []int          `json:"chains,omitempty"` // expected responses of each

	latencies []time.Duration
}

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: load PLAN"))
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	var plan Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		fail(err)
	}
	bodies, err := openBodies(plan.Bodies)
	if err != nil {
		fail(err)
	}
	loop, err := newLoop(&plan, bodies)
	if err != nil {
		fail(err)
	}
	debug.SetGCPercent(-1) // little is allocated from here on, and a collection would wait for waitForEvents
	cpu, begin := cpuSeconds(), time.Now()
	if err := loop.run(begin); err != nil {
		fail(err)
	}
	report := loop.report
	report.Elapsed, report.CPU = time.Since(begin).Seconds(), cpuSeconds()-cpu
	if len(plan.Chains) > 0 {
		for _, q := range loop.queues {
			report.Chains = append(report.Chains, q.done)
		}
	}
	report.summarise()
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fail(err)
	}
}

func (r *Report) summarise() {
	count := len(r.latencies)
	if r.Operations = count; count == 0 {
		return
	}
	slices.Sort(r.latencies)
	r.P50 = r.latencies[count/2].Seconds()
	r.P99 = r.latencies[count*99/100].Seconds()
	r.Slowest = r.latencies[count-1].Seconds()
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "load:", err)
	os.Exit(1)
}

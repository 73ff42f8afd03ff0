package main

import (
	"errors"
	"syscall"
	"time"
	"unsafe"
)

const (
	// Time without any event after which the run fails.
	timeout = 2 * time.Minute
	// Interval at which paced connections are driven.
	tick = 5 * time.Millisecond
)

// edges requests edge-triggered events, so that nothing is registered again during the run. (EPOLLET is negative in
// package syscall.)
const edges = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | 1<<31

// queue holds requests that are sent in order, by one connection or by all.
type queue struct {
	first, next, end int
	again            bool // start over after the last
	chained          bool // each depends on the one before: an unexpected response ends the chain
	done             int
}

// loop serves all connections from one thread.
type loop struct {
	plan   *Plan
	bodies []body
	report Report
	epoll  int
	conns  map[int32]*conn
	queues []*queue
	until  time.Time
}

func newLoop(plan *Plan, bodies []body) (*loop, error) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	l := &loop{plan: plan, bodies: bodies, epoll: epoll, conns: map[int32]*conn{}, queues: queues(plan)}
	l.report.Errors = map[string]int{}
	if plan.ETags {
		l.report.ETags = make([]string, len(plan.Requests))
	}
	connections := plan.Connections
	if len(plan.Chains) > 0 {
		connections = len(plan.Chains)
	}
	for i := range connections {
		own := l.queues[i%len(l.queues)]
		if err := l.connect(&conn{in: make([]byte, bufferSize), rate: plan.Rate, queue: own}); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func queues(plan *Plan) []*queue {
	if len(plan.Chains) == 0 {
		return []*queue{{end: len(plan.Requests), again: plan.Seconds > 0 && !plan.Once}}
	}
	var all []*queue
	first := 0
	for _, length := range plan.Chains {
		all = append(all, &queue{first: first, next: first, end: first + length, chained: true})
		first += length
	}
	return all
}

func (l *loop) connect(c *conn) error {
	if err := c.dial(l.plan.Address); err != nil {
		return err
	}
	l.conns[int32(c.fd)] = c
	event := syscall.EpollEvent{Events: edges, Fd: int32(c.fd)}
	return syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, c.fd, &event)
}

// run sends until the time is up or all requests are sent, then waits for outstanding responses.
func (l *loop) run(begin time.Time) error {
	l.until = begin.Add(time.Duration(l.plan.Seconds * float64(time.Second)))
	for _, c := range l.conns {
		l.drive(c, true)
	}
	events := make([]syscall.EpollEvent, 64)
	quiet := time.Now()
	for len(l.conns) > 0 {
		wait := timeout
		if l.plan.Rate > 0 {
			wait = tick
		}
		n, err := waitForEvents(l.epoll, events, wait)
		if err != nil {
			return err
		}
		for _, event := range events[:n] {
			if c := l.conns[event.Fd]; c != nil {
				l.drive(c, false)
			}
		}
		if n > 0 {
			quiet = time.Now()
		} else if time.Since(quiet) > timeout {
			return errors.New("no event for two minutes")
		}
		if l.plan.Rate > 0 {
			for _, c := range l.conns {
				l.drive(c, false)
			}
		}
	}
	return nil
}

// waitForEvents calls epoll_wait without Go's scheduler, which would wake other threads to use the processor in the
// meantime; there is nothing else to run.
func waitForEvents(epoll int, events []syscall.EpollEvent, wait time.Duration) (int, error) {
	n, _, code := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(wait.Milliseconds()), 0, 0)
	switch code {
	case 0:
		return int(n), nil
	case syscall.EINTR:
		return 0, nil
	default:
		return 0, code
	}
}

// drive advances a connection until it blocks, and starts its next requests.
func (l *loop) drive(c *conn, idle bool) {
	for {
		if idle {
			if !l.begin(c) {
				delete(l.conns, int32(c.fd))
				syscall.Close(c.fd)
				return
			}
		}
		done, err := c.advance()
		switch {
		case err != nil:
			l.report.Errors[err.Error()]++
			if l.report.FirstErrorResponse == "" {
				l.report.FirstErrorResponse = string(c.in[:min(c.filled, 1200)])
			}
			if c.queue.chained {
				c.queue.next = c.queue.end
			}
			delete(l.conns, int32(c.fd))
			syscall.Close(c.fd)
			if err := l.connect(c); err != nil {
				l.report.Errors[err.Error()]++
				return
			}
		case !done:
			return
		default:
			c.queue.done++
			l.report.latencies = append(l.report.latencies, time.Since(c.began))
			l.report.Bytes += c.moved
			if l.plan.ETags {
				l.report.ETags[c.index] = string(c.response.etag)
			}
		}
		idle = true
	}
}

// begin gives the connection its next request, if there is one.
func (l *loop) begin(c *conn) bool {
	now := time.Now()
	if l.plan.Seconds > 0 && !now.Before(l.until) {
		return false
	}
	q := c.queue
	if q.next >= q.end {
		if !q.again {
			return false
		}
		q.next = q.first
	}
	index := q.next
	q.next++
	request := &l.plan.Requests[index]
	var b *body
	if request.Body >= 0 {
		b = &l.bodies[request.Body]
	}
	c.begin(index, request, b, now)
	return true
}

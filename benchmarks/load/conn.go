package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// Bodies up to this size are sent in one write with the head, longer ones with sendfile.
	inlineLimit = 64 << 10
	bufferSize  = 64 << 10
	// Maximum bytes of one send or discard.
	stride = 1 << 20
	// The same for a paced connection.
	pace = 64 << 10
	// Bytes of a long response that wake the connection.
	wakeful = 256 << 10
)

// body is a request body: a file, and its bytes if it is short.
type body struct {
	file  *os.File
	size  int64
	bytes []byte
}

func openBodies(paths []string) ([]body, error) {
	bodies := make([]body, len(paths))
	for i, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		stat, err := file.Stat()
		if err != nil {
			return nil, err
		}
		bodies[i] = body{file: file, size: stat.Size()}
		if stat.Size() <= inlineLimit {
			if bodies[i].bytes, err = io.ReadAll(file); err != nil {
				return nil, err
			}
		}
	}
	return bodies, nil
}

type phase int

const (
	sendingHead phase = iota
	sendingBody
	readingHead
	drainingBody
	drainingChunks
)

// conn is one keep-alive connection with at most one request in flight.
type conn struct {
	fd       int
	rate     int64
	queue    *queue
	index    int
	request  *Request
	began    time.Time
	phase    phase
	out      []byte // the head, with a short body, not yet sent
	file     *os.File
	offset   int64 // of the file, sent so far
	size     int64 // of the request's body
	in       []byte
	filled   int // bytes in `in`: the response's head and the start of its body
	response response
	left     int64 // of the response's body
	wake     int64 // received bytes that trigger an event
	chunks   chunks
	paced    int64 // bytes that count against the rate since `began`
	moved    int64 // bytes of bodies, both ways
}

func (c *conn) dial(address string) error {
	target, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return err
	}
	c.fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.wake = 1
	if c.rate > 0 {
		// A small receive buffer, or the kernel would hide the slow client from the server.
		err = syscall.SetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, bufferSize)
	}
	err = errors.Join(err, syscall.SetsockoptInt(c.fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1))
	err = errors.Join(err, syscall.Connect(c.fd, &syscall.SockaddrInet4{Port: target.Port, Addr: [4]byte(target.IP.To4())}))
	return errors.Join(err, syscall.SetNonblock(c.fd, true))
}

func (c *conn) begin(index int, request *Request, b *body, now time.Time) {
	c.index, c.request, c.began = index, request, now
	c.phase, c.filled, c.paced, c.moved = sendingHead, 0, 0, 0
	c.out, c.file, c.offset, c.size = append(c.out[:0], request.Head...), nil, 0, int64(len(request.Tail))
	c.out = append(c.out, request.Tail...)
	if b != nil {
		c.size = b.size
		if b.bytes != nil {
			c.out = append(c.out, b.bytes...)
		} else {
			c.file = b.file
		}
	}
}

// advance continues until the response is complete (true), or the socket or the pace blocks (false).
func (c *conn) advance() (bool, error) {
	for {
		before := c.phase
		ready, err := c.step()
		if err == syscall.EAGAIN {
			return false, nil
		}
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			// A server that refuses a body responds before it closes; the report includes that response.
			if n, _ := syscall.Read(c.fd, c.in); c.filled == 0 && n > 0 {
				c.filled = n
			}
			return false, err
		}
		if ready {
			return true, c.judge()
		}
		// No response arrives right after the request: waiting for the event saves an empty read.
		if c.phase == readingHead && before != readingHead {
			return false, nil
		}
	}
}

// step makes one system call; true when the response is complete.
func (c *conn) step() (bool, error) {
	switch c.phase {
	case sendingHead:
		if err := c.wakeAt(1); err != nil {
			return false, err
		}
		n, err := syscall.Write(c.fd, c.out)
		if err != nil {
			return false, err
		}
		if c.out = c.out[n:]; len(c.out) == 0 {
			c.phase = readingHead
			if c.file != nil {
				c.phase = sendingBody
			}
		}
		return false, nil
	case sendingBody:
		n, err := c.allowance(c.size - c.offset)
		if err != nil {
			return false, err
		}
		sent, err := syscall.Sendfile(c.fd, int(c.file.Fd()), &c.offset, int(n))
		if err != nil {
			return false, err
		}
		c.paced += int64(sent)
		if c.offset == c.size {
			c.phase = readingHead
		}
		return false, nil
	case readingHead:
		return c.readHead()
	case drainingBody:
		n, err := c.allowance(c.left)
		if err != nil {
			return false, err
		}
		if err := c.wakeAt(min(c.left, wakeful)); err != nil {
			return false, err
		}
		// MSG_TRUNC: the kernel counts and discards the bytes without copying them (tcp(7)).
		n, err = received(syscall.Recvfrom(c.fd, nowhere[:n], syscall.MSG_TRUNC))
		c.left -= n
		c.paced += n
		return c.left == 0 && err == nil, err
	default:
		n, err := received(syscall.Recvfrom(c.fd, nowhere[:], 0))
		if err != nil {
			return false, err
		}
		return c.chunks.feed(nowhere[:n])
	}
}

var nowhere [stride]byte

// wakeAt sets how many received bytes trigger an event: a long body takes fewer and larger reads.
func (c *conn) wakeAt(size int64) error {
	if c.wake == size || c.rate > 0 {
		return nil
	}
	c.wake = size
	return syscall.SetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, int(size))
}

func (c *conn) readHead() (bool, error) {
	n, err := syscall.Read(c.fd, c.in[c.filled:])
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, ended(n)
	}
	c.filled += n
	end := bytes.Index(c.in[:c.filled], []byte("\r\n\r\n"))
	if end < 0 {
		if c.filled == len(c.in) {
			return false, errors.New("response head too long")
		}
		return false, nil
	}
	if c.response, err = parseHead(c.in[:end+2]); err != nil {
		return false, err
	}
	rest := c.in[end+4 : c.filled]
	if c.response.chunked {
		c.phase, c.chunks = drainingChunks, chunks{}
		return c.chunks.feed(rest)
	}
	c.phase, c.left = drainingBody, c.response.length-int64(len(rest))
	if c.request.Bodyless {
		c.left = -int64(len(rest))
	}
	if c.left < 0 {
		return false, errors.New("response longer than announced")
	}
	return c.left == 0, nil
}

// allowance returns how much of size may be transferred now; EAGAIN if the pace blocks.
func (c *conn) allowance(size int64) (int64, error) {
	size = min(size, stride)
	if c.rate == 0 {
		return size, nil
	}
	size = min(size, pace)
	if due := int64(time.Since(c.began).Seconds()*float64(c.rate)) - c.paced; due < size {
		return 0, syscall.EAGAIN
	}
	return size, nil
}

// judge compares the complete response with the expected one.
func (c *conn) judge() error {
	length := c.response.length
	if c.response.chunked {
		length = c.chunks.total
	}
	switch {
	case c.response.status != c.request.Status:
		return fmt.Errorf("status %d", c.response.status)
	case length < c.request.Shortest || length > c.request.Longest:
		return fmt.Errorf("length %d not in %d..%d", length, c.request.Shortest, c.request.Longest)
	case c.response.close:
		return errors.New("connection closed by the server")
	}
	if c.moved = c.size; !c.request.Bodyless {
		c.moved += length
	}
	return nil
}

func received(n int, _ syscall.Sockaddr, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return int64(n), ended(n)
}

func ended(n int) error {
	if n == 0 {
		return errors.New("connection closed within a response")
	}
	return nil
}

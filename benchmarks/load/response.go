package main

import (
	"bytes"
	"errors"
	"strconv"
)

// response is the parsed head of a response.
type response struct {
	status  int
	length  int64
	chunked bool
	close   bool
	etag    []byte // a slice of the parsed head
}

// parseHead parses a response head whose lines all end in CRLF.
func parseHead(head []byte) (response, error) {
	var a response
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return a, errors.New("not an HTTP/1.1 response")
	}
	var err error
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, err
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch len(name) { // the length of its name rules out most headers
		case len("content-length"):
			if bytes.EqualFold(name, []byte("content-length")) {
				if a.length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
					return a, err
				}
			}
		case len("transfer-encoding"):
			a.chunked = a.chunked || bytes.EqualFold(name, []byte("transfer-encoding"))
		case len("connection"):
			a.close = a.close || bytes.EqualFold(name, []byte("connection")) && bytes.EqualFold(value, []byte("close"))
		case len("etag"):
			if bytes.EqualFold(name, []byte("etag")) {
				a.etag = value
			}
		}
	}
	return a, nil
}

// chunks tracks a chunked body to its end, in pieces of any size.
type chunks struct {
	total int64 // bytes of the body so far
	left  int64 // of the current chunk, with the line end after it
	line  []byte
	last  bool // the last chunk was read; trailers follow
}

// feed consumes the next piece of the stream; true at the end of the body.
func (c *chunks) feed(piece []byte) (bool, error) {
	for len(piece) > 0 {
		if c.left > 0 {
			n := min(c.left, int64(len(piece)))
			c.left -= n
			piece = piece[n:]
			continue
		}
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			c.line = append(c.line, piece...)
			return false, nil
		}
		line := bytes.TrimRight(append(c.line, piece[:end]...), "\r")
		piece, c.line = piece[end+1:], c.line[:0]
		if c.last {
			if len(line) == 0 {
				return true, nil
			}
			continue
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseInt(string(digits), 16, 62)
		if err != nil || size < 0 {
			return false, errors.New("bad chunk size")
		}
		if c.last = size == 0; !c.last {
			c.total += size
			c.left = size + 2
		}
	}
	return false, nil
}

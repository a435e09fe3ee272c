// Command upstream answers questions about Dynamic Resource Allocation with the code that Kubernetes itself runs: the
// published module k8s.io/dynamic-resource-allocation, through its public API only.
//
// It reads JSON, one object a line, from stdin and writes one JSON object a line to stdout, in the same order. The one
// argument says what the lines are:
//
//	allocate    allocator scenarios, all claims of each together (allocate.go)
//	sequential  allocator scenarios, the claims of each one after the other, with times (sequential.go)
//	cel         CEL expressions, with a device or alone (expressions.go, values.go)
//	time-cel    selectors and devices, all read before the first answer (timing.go)
//	decode      Kubernetes objects, decoded strictly (decode.go)
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/dynamic-resource-allocation/structured"
)

// answer is what is written for one line.
type answer map[string]any

func main() {
	deadline := flag.Duration("deadline", 10*time.Second, "how long one scenario may take, or one of its claims if they are allocated one after the other")
	rehearsal := flag.String("rehearsal", "", "a file of scenarios that sequential decides before it reads its first line and before the first claim of each")
	rounds := flag.Int("rounds", 3, "how often time-cel measures; the median counts")
	anyAllocator := flag.Bool("any-allocator", false, "take the first allocator that has the features which are on, as kube-scheduler does")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: upstream [-deadline 10s] [-any-allocator] [-rehearsal FILE] [-rounds 3] allocate|sequential|cel|time-cel|decode <LINES >LINES")
		flag.PrintDefaults()
	}
	flag.Parse()
	// The only one that has all features; that of 1.37 with the fewest walks pools in random order.
	if !*anyAllocator {
		structured.EnableAllocators("experimental")
	}
	var err error
	switch flag.Arg(0) {
	case "allocate":
		err = eachLine(os.Stdin, os.Stdout, func(line []byte) answer { return allocate(line, *deadline) })
	case "sequential":
		if err = rehearse(*rehearsal, *deadline); err == nil {
			err = eachLine(os.Stdin, os.Stdout, func(line []byte) answer { return sequential(line, *deadline, *rehearsal) })
		}
	case "cel":
		err = eachLine(os.Stdin, os.Stdout, newExpressions().answer)
	case "time-cel":
		err = timeSelectors(os.Stdin, os.Stdout, *rounds)
	case "decode":
		err = eachLine(os.Stdin, os.Stdout, decode)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

// eachLine answers line by line. Each answer is flushed, so that a caller may wait for it before it asks on.
func eachLine(in io.Reader, out io.Writer, respond func([]byte) answer) error {
	writer := bufio.NewWriterSize(out, 1<<16)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	return readLines(in, func(line []byte) error {
		if err := encoder.Encode(guarded(line, respond)); err != nil {
			return err
		}
		return writer.Flush()
	})
}

// readLines calls take for each line that is not empty, of any length.
func readLines(in io.Reader, take func([]byte) error) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			if err := take(line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// guarded makes a panic of upstream's an answer of its own.
func guarded(line []byte, respond func([]byte) answer) (result answer) {
	defer func() {
		if cause := recover(); cause != nil {
			result = answer{"name": nameOf(line), "panic": fmt.Sprint(cause)}
		}
	}()
	return respond(line)
}

// nameOf returns the name that a line carries, for answers that are given before the line is understood.
func nameOf(line []byte) string {
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(line, &named)
	return named.Name
}

// inputError is the answer to a line that cannot be read.
func inputError(line []byte, err error) answer {
	return answer{"name": nameOf(line), "error": err.Error(), "errorKind": "input"}
}

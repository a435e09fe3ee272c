// Guest is the one program of the image that the tests' pods run. It prints what its container has been given, as one
// line of JSON, and ends as the name that it is called by says: "report" at once, "sleep SECONDS" later, "pause" never,
// and without having printed anything.
package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Where drivers mount the metadata of devices (KEP-5304).
const metadataFolder = "/var/run/kubernetes.io/dra-device-attributes"

type report struct {
	Environment map[string]string `json:"environment"`
	// Names in /dev of what can be opened for reading and writing.
	Devices []string `json:"devices"`
	// Contents by path below the folder of metadata.
	Metadata map[string]string `json:"metadata"`
}

func main() {
	ended := make(chan os.Signal, 1)
	// The first process of a container is not ended by a signal that it does not handle.
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	name := filepath.Base(os.Args[0])
	if name == "pause" {
		<-ended
		return
	}
	json.NewEncoder(os.Stdout).Encode(report{environment(), devices(), metadata()})
	if name == "sleep" && len(os.Args) > 1 {
		seconds, _ := strconv.Atoi(os.Args[1])
		select {
		case <-ended:
		case <-time.After(time.Duration(seconds) * time.Second):
		}
	}
}

func environment() map[string]string {
	found := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		found[name] = value
	}
	return found
}

func devices() []string {
	found := []string{}
	entries, _ := os.ReadDir("/dev")
	for _, entry := range entries {
		if entry.Type()&fs.ModeDevice == 0 {
			continue
		}
		if file, err := os.OpenFile("/dev/"+entry.Name(), os.O_RDWR, 0); err == nil {
			file.Close()
			found = append(found, entry.Name())
		}
	}
	return found
}

func metadata() map[string]string {
	found := map[string]string{}
	filepath.WalkDir(metadataFolder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if content, err := os.ReadFile(path); err == nil {
			found[strings.TrimPrefix(path, metadataFolder+"/")] = string(content)
		}
		return nil
	})
	return found
}

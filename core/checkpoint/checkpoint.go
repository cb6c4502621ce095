// Package checkpoint reads and writes the file that stores a run or a policy: a zip archive of
// named parts, which other programs can open (weights are safetensors).
//
//   - A file is complete or absent. Save writes a temporary file in the same folder, without a name
//     if the file system can, flushes it to the disk and renames it. After a failure (a full disk,
//     a power cut) the older file remains.
//   - The last entry is the manifest, a JSON object. Its fields are "what", which identifies the
//     file, the format, the kind, the caller's content, and the name, version, length and CRC-32C
//     of each part. The manifest is last because lengths and checksums are known only after the
//     parts are written, and a replay memory of gigabytes should not be serialised twice. The
//     archive must hold exactly the manifest's parts in the manifest's order. Otherwise damage to
//     the archive's directory could remove a part unnoticed.
//   - Entries are stored without compression and are together not larger than the file. Therefore
//     the size of the file bounds the sizes that its parts can claim. Read gets the length n of its
//     part and must bound its memory by n.
//   - A Load has two phases. First it reads all parts into new memory and compares their checksums.
//     If all parts are valid, adopt replaces the old state, which cannot fail. A Load that fails
//     leaves the run unchanged.
//   - Damage is ErrFormat, a newer version ErrVersion, the former format ErrOld. If a valid file
//     does not fit (another network, too little memory), the error is that of the part's Read.
//
// Later formats keep the name of the manifest, its fields "what" and "format", and stored entries,
// so that every version recognises the files that it cannot read.
//
// Different goroutines may save and read different files concurrently. A Reader must not be used
// concurrently.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/paceline-rl/paceline/core/fault"
)

// Format is the number of the only format that this version writes and reads.
const Format = 2

const (
	manifestName = "paceline.json"
	magic        = "paceline checkpoint"

	maxManifest = 16 << 20 // bytes
	maxElements = 1 << 16  // values in the content
	maxParts    = 1400
	maxPartList = 256 << 10 // bytes of maxParts entries
)

// Errors that callers distinguish, besides those of the file system.
var (
	// ErrFormat says that a file is damaged or not a checkpoint.
	ErrFormat = errors.New("not a whole checkpoint of paceline")
	// ErrVersion says that a newer version of the library wrote a file.
	ErrVersion = errors.New("checkpoint of a newer version")
	// ErrOld says that a file is of format 1.
	ErrOld = errors.New("checkpoint of format 1, from before ABI 2: it cannot be loaded")
)

// Damaged returns err, which refuses the content of a file, as an ErrFormat. A *fault.Memory says
// nothing about the file, and Damaged returns it as it is.
func Damaged(err error) error {
	if memory := (*fault.Memory)(nil); errors.As(err, &memory) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// Part is a named part of a file: how it is written, and how it is read in two phases.
type Part struct {
	// Name has 1 to 100 of the characters a-z 0-9 . _ -
	Name string
	// Version is the version of the format of Write, at least 1. Load refuses other versions.
	Version int
	// Optional says that the part may be missing in a file.
	Optional bool
	// Alone says that the part can be loaded without those that are not. Read then refuses a file that
	// does not have the part, if it is needed.
	Alone bool
	// Write writes the part. If Write is nil, Save omits the part, which must be Optional.
	Write func(w io.Writer) error
	// Read reads the n bytes of the part into new memory. adopt replaces the old state by it and
	// must not fail; nil: nothing to do. Discard must undo other changes of Read. r is nil if the
	// part is Optional and the file does not have it. Load compares the checksum after Read and
	// ignores the result and the error of Read if the bytes are damaged. If Read is nil, Load skips
	// the part.
	Read func(r io.Reader, n int64) (adopt func(), err error)
	// Discard (nil: nothing to do) frees the result of a successful Read if adopt will not be
	// called: after an error of another part, or in Close.
	Discard func()
}

type manifest struct {
	What    string          `json:"what"`
	Format  int             `json:"format"`
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"`
	Parts   partList        `json:"parts"`
}

// entry is the manifest's description of a part.
type entry struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Length  int64  `json:"length"`
	CRC32C  uint32 `json:"crc32c"`
}

type partList []entry

// UnmarshalJSON refuses a long list, which would need much more memory than its text.
func (l *partList) UnmarshalJSON(text []byte) error {
	if len(text) > maxPartList {
		return fmt.Errorf("parts: %d bytes, must be at most %d", len(text), maxPartList)
	}
	return strictJSON(text, (*[]entry)(l))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func validName(name string) bool {
	if name == "" || len(name) > 100 || name == manifestName {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

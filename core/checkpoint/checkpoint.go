// Package checkpoint reads and writes the file that stores a run or a policy: a
// zip archive of named parts, which other programs can open (weights are
// safetensors).
//
//   - A file is either complete or absent: Save writes a temporary file in the
//     same folder, without a name where the file system allows it, flushes it to
//     the disk and renames it. A failure (a full disk, a power cut) leaves the
//     older file.
//   - The last entry is the manifest, a JSON object: "what" says that the file is
//     ours, then its format and kind, the caller's content, and every part's
//     name, version, length and CRC-32C. It is last because lengths and checksums
//     are known only then, and a replay memory of gigabytes must not be
//     serialised twice. The archive must hold exactly the manifest's parts in the
//     manifest's order, so damage to the archive's directory cannot make a part
//     disappear.
//   - Entries are stored, never compressed, and together not larger than the
//     file, so the size of a file bounds what its parts can claim. Each Read is
//     given the length n of its part and must bound its own memory by it.
//   - Loading has two phases. First every part is read into new memory and its
//     checksum is compared. Only when all parts are good does adopt put them in
//     place, which cannot fail. So a refused Load leaves a run as it was.
//   - Damage is ErrFormat, a newer version ErrVersion, the former format ErrOld.
//     Where a file is whole but does not fit (another network, too little memory),
//     the error is the one that the part's Read returned.
//
// Later formats keep the name of the manifest, its fields "what" and "format", and
// stored entries, so that every version can say which files it cannot read.
//
// Different files may be saved and read by different goroutines at once; a Reader
// belongs to one.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Format is the number of the format that this version writes, and the only one
// it reads.
const Format = 2

const (
	manifestName = "paceline.json"
	magic        = "paceline checkpoint"

	maxManifest = 16 << 20 // bytes
	maxElements = 1 << 16  // values in the content
	maxParts    = 1000
	maxPartList = 256 << 10 // bytes of maxParts entries
)

// Errors that callers distinguish, besides those of the file system.
var (
	// ErrFormat says that a file is damaged, or none of ours.
	ErrFormat = errors.New("not a whole checkpoint of paceline")
	// ErrVersion says that a newer version of the library wrote a file.
	ErrVersion = errors.New("checkpoint of a newer version")
	// ErrOld says that a file is of format 1.
	ErrOld = errors.New("checkpoint of format 1, from before ABI 2: it cannot be loaded")
)

// Part is one named piece of a file: how it is written, and how it is read in
// two phases.
type Part struct {
	// Name is 1 to 100 of the characters a-z 0-9 . _ -
	Name string
	// Version of what Write writes, 1 or more. Load refuses another.
	Version int
	// Optional parts may be missing in a file.
	Optional bool
	// Alone says that the part can be loaded without the others.
	Alone bool
	// Write writes the part. nil: Save leaves it out, if it is Optional.
	Write func(w io.Writer) error
	// Read reads all n bytes of the part into new memory. What it changes besides,
	// Discard must undo. adopt (nil: nothing to do) puts the part in place and must
	// not fail. r is nil where the part is Optional and the file has none. The
	// checksum is compared after Read, whose result or error is dropped if the bytes
	// were damaged. A nil Read: Load skips the part.
	Read func(r io.Reader, n int64) (adopt func(), err error)
	// Discard, if not nil, frees what a successful Read has made, when adopt will
	// not be called: because another part was refused, or because of Close.
	Discard func()
}

type manifest struct {
	What    string          `json:"what"`
	Format  int             `json:"format"`
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"`
	Parts   partList        `json:"parts"`
}

// entry is what the manifest says about a part.
type entry struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Length  int64  `json:"length"`
	CRC32C  uint32 `json:"crc32c"`
}

type partList []entry

// UnmarshalJSON refuses a list that would take much more memory than its text.
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

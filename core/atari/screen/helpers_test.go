package screen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// splitmix is a generator. testdata/golden.py has the same splitmix, noise and blocks.
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// noise returns n random bytes, each masked.
func noise(n int, seed uint64, mask byte) []byte {
	r := splitmix(seed)
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.next()) & mask
	}
	return p
}

// blocks returns an image of random blocks of 4 x 3 pixels.
func blocks(rows int, seed uint64, mask byte) []byte {
	few := noise((rows+2)/3*(Width/4), seed, mask)
	p := make([]byte, rows*Width)
	for i := range p {
		y, x := i/Width, i%Width
		p[i] = few[y/3*(Width/4)+x/4]
	}
	return p
}

// plain is a palette in which the grey of a byte is the byte. Its channels rise, fall and jump, so
// that the maximum of two colours is usually a mixture of both.
var plain = func() *Palette {
	p := new(Palette)
	for i := range p.Grey {
		p.Grey[i] = uint8(i)
		p.RGB[i] = [3]uint8{uint8(i), uint8(255 - i), uint8(7 * i)}
	}
	return p
}()

// onPaths runs f on each code path of this build.
func onPaths(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for _, path := range paths() {
		t.Run(path.name, func(t *testing.T) {
			defer path.use()()
			f(t)
		})
	}
}

// golden returns the sums of testdata/golden.txt.
func golden(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, sum, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Fatalf("testdata/golden.txt has the line %q", line)
		}
		sums[name] = sum
	}
	return sums
}

func sum(p []byte) string {
	s := sha256.Sum256(p)
	return hex.EncodeToString(s[:])
}

// guarded returns n bytes and a function that fails the test if memory around them was written.
func guarded(t *testing.T, n int) (p []byte, check func()) {
	t.Helper()
	const margin = 64
	memory := bytes.Repeat([]byte{0xa5}, n+2*margin)
	want := bytes.Clone(memory[:margin])
	return memory[margin : margin+n : margin+n], func() {
		t.Helper()
		if !bytes.Equal(memory[:margin], want) || !bytes.Equal(memory[margin+n:], want) {
			t.Error("bytes around dst were overwritten")
		}
	}
}

// panics fails the test unless f panics with a message that contains want.
func panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if s, ok := recover().(string); !ok || !strings.Contains(s, want) {
			t.Errorf("the panic was %q, want one with %q", s, want)
		}
	}()
	f()
}

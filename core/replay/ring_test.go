package replay

import (
	"bytes"
	"testing"
)

// Checks every run of records at every position of small rings, with and without a wrap, before and
// after growth.
func TestRingReadsWhatWasWritten(t *testing.T) {
	record := func(i int64) []byte { return []byte{byte(i), byte(i >> 8), 7} }
	run := func(i, n int64) (b []byte) {
		for k := range n {
			b = append(b, record(i+k)...)
		}
		return b
	}
	for slots := int64(1); slots <= 5; slots++ {
		for first := range 3 * slots {
			for live := range slots + 1 {
				for more := range int64(4) {
					r := must(newRing(3, slots))
					for i := range first + live {
						r.write(i, record(i))
					}
					if r.fits(first, first+slots+1) || !r.fits(first, first+live) {
						t.Fatal("fits")
					}
					check(t, r.grow(first, first+live, slots+more))
					for i := first + live; i < first+slots+more; i++ { // fill the ring
						r.write(i, record(i))
					}
					for i := first; i < first+slots+more; i++ {
						for n := int64(0); i+n <= first+slots+more; n++ {
							want, got := run(i, n), make([]byte, 3*n)
							r.read(got, i, n)
							if !bytes.Equal(got, want) || !r.equal(i, want) {
								t.Fatalf("slots %d+%d, first %d, live %d: records %d+%d are %v", slots, more, first, live, i, n, got)
							}
							for k := range want {
								want[k]++
								if r.equal(i, want) {
									t.Fatalf("byte %d of %d records from %d is ignored", k, n, i)
								}
								want[k]--
							}
						}
					}
					got := []byte{}
					check(t, r.each(first, first+slots+more, func(b []byte) error { got = append(got, b...); return nil }))
					if !bytes.Equal(got, run(first, slots+more)) {
						t.Fatal("each")
					}
					r.write(first, run(first, slots+more))
					if !r.equal(first, got) {
						t.Fatal("write of several")
					}
					r.close()
				}
			}
		}
	}
}

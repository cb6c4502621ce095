package replay

import (
	"bytes"
	"os"
)

// ring holds records of one width under numbers that only grow: record i is in slot (i-origin) mod
// slots. The owner keeps track of the live records.
type ring struct {
	mem    []byte // slots * width bytes, from allocate
	width  int
	slots  int64
	origin int64 // at most the number of the oldest live record

	registered int64    // slots below this are page-locked, or cannot be
	release    []func() // end the page-locking
}

// pieceBytes is about the size of the memory that register page-locks at a time. Page-locked memory
// is resident, whether it was written or not.
const pieceBytes = 16 << 20

// register page-locks the memory of a slot for copies to a GPU, in pieces of whole pages, and
// returns how many slots from that slot on are in the same piece. After an error the remaining
// memory is not page-locked.
func (r *ring) register(slot int64, prepare func(memory []byte) (release func(), err error)) int64 {
	w, page := int64(r.width), int64(os.Getpagesize())
	unit := page / gcd(w, page) // slots of whole pages
	piece := (max(1, pieceBytes/w) + unit - 1) / unit * unit
	for offHeap && r.registered <= slot {
		next := min(r.registered+piece, r.slots)
		release, err := prepare(r.mem[r.registered*w : next*w])
		if err != nil {
			r.registered = r.slots
			break
		}
		r.registered, r.release = next, append(r.release, release)
	}
	return min(piece-slot%piece, r.slots-slot)
}

// unregister ends the page-locking, before the memory moves or is freed.
func (r *ring) unregister() {
	for _, release := range r.release {
		release()
	}
	r.registered, r.release = 0, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func newRing(width int, slots int64) (ring, error) {
	mem, err := allocate(int64(width) * slots)
	return ring{mem: mem, width: width, slots: slots}, err
}

func (r *ring) close() {
	r.unregister()
	release(r.mem)
	r.mem = nil // a later use panics instead of reading unmapped memory
}

func (r *ring) bytes() int64 { return r.slots * int64(r.width) }

// fits reports whether records first..next-1 can be live at once.
func (r *ring) fits(first, next int64) bool { return next-first <= r.slots }

// span returns n consecutive records from number i on, in one piece, or in two if they wrap.
func (r *ring) span(i, n int64) (a, b []byte) {
	w := int64(r.width)
	slot := (i - r.origin) % r.slots
	if over := slot + n - r.slots; over > 0 {
		return r.mem[slot*w : r.slots*w], r.mem[:over*w]
	}
	return r.mem[slot*w : (slot+n)*w], nil
}

// at returns record i, in place.
func (r *ring) at(i int64) []byte {
	a, _ := r.span(i, 1)
	return a
}

func (r *ring) read(dst []byte, i, n int64) {
	a, b := r.span(i, n)
	copy(dst[copy(dst, a):], b)
}

// write stores the records in src from number i on.
func (r *ring) write(i int64, src []byte) {
	a, b := r.span(i, int64(len(src)/r.width))
	copy(b, src[copy(a, src):])
}

// equal reports whether the records from number i on are those in want.
func (r *ring) equal(i int64, want []byte) bool {
	a, b := r.span(i, int64(len(want)/r.width))
	return bytes.Equal(a, want[:len(a)]) && bytes.Equal(b, want[len(a):])
}

// each calls f with the memory of records first..next-1, in order, in pieces of whole records.
// Pieces have at most about a megabyte, so that they fit into the cache and an error ends the loop
// early.
func (r *ring) each(first, next int64, f func([]byte) error) error {
	step := max(1, int64(1<<20/r.width))
	for i := first; i < next; i += step {
		a, b := r.span(i, min(step, next-i))
		if err := f(a); err != nil {
			return err
		}
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

// grow enlarges the ring. Records first..next-1 are live and have the same numbers afterwards. The
// memory is extended in place, so the ring is never in memory twice. An error changes nothing.
func (r *ring) grow(first, next, slots int64) error {
	r.unregister()
	mem, err := extend(r.mem, slots*int64(r.width))
	if err != nil {
		return err
	}
	w := int64(r.width)
	slot := (first - r.origin) % r.slots
	if slot+next-first > r.slots { // the records wrap: the older part moves to the new end
		moved := slot + slots - r.slots
		copy(mem[moved*w:slots*w], mem[slot*w:r.slots*w])
		slot = moved
	}
	r.mem, r.slots, r.origin = mem, slots, first-slot
	return nil
}

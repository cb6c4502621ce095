package order

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

// withSum returns the bytes of an order with their checksum.
func withSum(data []byte) []byte {
	return binary.LittleEndian.AppendUint32(slices.Clone(data), crc32.Checksum(data, castagnoli))
}

// recordedRace returns the order of a race with stops, and the digest of its world.
func recordedRace(t testing.TB, k, shards int, p programme) (order []byte, digest string) {
	w := newWorld(p, k, shards, 4, false)
	turns := newTurns(t, Config{Schedule: Race}, w, 2)
	for until := int64(100); until <= 400; until += 100 {
		if err := w.run(turns, until, nil); err != nil {
			t.Fatal(err)
		}
	}
	return turns.Order(), w.digest()
}

// The file of an order, byte for byte, as the documentation describes it.
func TestTheFileOfAnOrder(t *testing.T) {
	r := newRecorder(Fingerprint{{"seed", "7"}, {"env", ""}}, Shape{Learners: 2, Shards: 2, Steps: 4})
	learners := make([]learner, 2)
	note := func(k int, numbers []int64, heads []uint64, steps []int64) {
		learners[k].log = visitLog{numbers, heads, steps}
	}
	note(1, []int64{0, 1, 2, 4}, []uint64{2 * 5}, []int64{200})
	note(0, []int64{3}, []uint64{2*300 + 1}, []int64{204})
	r.merge(learners, 5)
	r.stop(208, 209, []int64{0, 6}, false) // beyond its until
	r.stop(212, 212, []int64{0, 7}, false)
	r.stop(220, 220, []int64{0, 9}, false) // no visit since the stop before, which it replaces
	r.stop(0, 0, []int64{0, 9}, true)
	r.stop(30, 28, []int64{1, 9}, false) // interrupted
	r.forget(0)
	want := append([]byte(orderMagic), 2, 4, 's', 'e', 'e', 'd', 1, '7', 3, 'e', 'n', 'v', 0,
		2, 2, 4, 0,
		2, 10, 2, 2, 0xc8, 1, // learner 1 after 5 rounds: two pushes, then the pull of shard 0 with T = 200
		1, 0xd9, 4, 4, // learner 0 after 300 rounds: a pull of shard 0 alone, with T = 204
		2,                   // learner 1 pulls shard 1
		0, 0xd1, 1, 2, 0, 6, // T = 209 is beyond until, 208
		0, 0xdc, 1, 1, 0, 9, // T = 220 = until
		0, 0, 1, 0, 9, // T is 0 now
		0, 28, 0, 1, 9, // interrupted at T = 28
		3, 0) // learner 0 forgets its pull of shard 1
	if got := r.file(); !bytes.Equal(got, withSum(want)) {
		t.Errorf("%v, must be %v", got, withSum(want))
	}
	o, err := ParseOrder(r.file())
	if err != nil {
		t.Fatal(err)
	}
	if o.Shape != r.shape || !slices.Equal(o.Fingerprint, Fingerprint{{"seed", "7"}, {"env", ""}}) || o.visits != 5 || fmt.Sprint(o.tracks, o.stops) !=
		"[{[{300 0 204 0 1 2}] [3] 1} {[{5 0 200 0 4 4}] [0 1 2 4] 9}] [{5 5767168 208 209 0 [0 6]} {5 5767169 220 220 0 [0 9]} {5 5767170 0 0 1 [0 9]} {5 5767171 29 28 1 [1 9]}]" {
		t.Errorf("%+v %v %v", o.Shape, o.tracks, o.stops)
	}
	if again := o.writing; !bytes.Equal(again.file(), r.file()) || again.visits != 5 || again.places[0] != (place{}) {
		t.Errorf("%+v", again)
	}
}

// A joined order, of a run that was saved and continued, has the visits of both. A file, and the
// checkpoint of a race, are read.
func TestReadOrder(t *testing.T) {
	dir := t.TempDir()
	order, want := recordedRace(t, 3, 2, programme{rounds: 3, updates: 1})
	plain, saved := filepath.Join(dir, "order"), filepath.Join(dir, "run.paceline")
	if err := os.WriteFile(plain, order, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(programme{rounds: 3, updates: 1}, 3, 2, 4, false)
	o, err := ReadOrder(plain)
	if err != nil {
		t.Fatal(err)
	}
	turns := newTurns(t, Config{Schedule: Recorded, Order: o}, w, 2)
	if err := w.run(turns, 400, nil); err != nil || w.digest() != want {
		t.Errorf("%v, %s, must be %s", err, w.digest(), want)
	}
	if err := w.run(turns, 500, nil); err == nil || !strings.HasPrefix(err.Error(), "order: ends at step 400, after ") {
		t.Errorf("after the end of the order: %v", err)
	}
	if err := checkpoint.Save(saved, "run", nil, turns.Parts()); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadOrder(saved); err != nil || !bytes.Equal(again.data, order) {
		t.Errorf("from a checkpoint: %v", err)
	}
	second := mustDuration(t, "1")
	virtual := newTurns(t, Config{Schedule: Virtual, Latency: &Latency{second, second, second, second, second, ""}}, w, 2)
	if err := checkpoint.Save(saved, "run", nil, virtual.Parts()); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(plain, order[:len(order)/2], 0o600)
	for path, says := range map[string]string{
		saved: "a checkpoint without a recorded order", plain: "do not have their checksum", dir: "must be a file", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := ReadOrder(path); err == nil || !strings.HasPrefix(err.Error(), "order: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, must say %q", path, err, says)
		}
	}
}

// An order of other settings is refused before the run, or at the first event in which the run
// differs.
func TestOrdersOfOtherRuns(t *testing.T) {
	data, _ := recordedRace(t, 3, 2, programme{rounds: 3, updates: 1})
	o, err := ParseOrder(data)
	if err != nil {
		t.Fatal(err)
	}
	for says, c := range map[string]Config{
		"order: learners: the record has 3, this run has 4":                  {Learners: 4, Shards: 2, Steps: 4},
		"order: shards: the record has 2, this run has 3":                    {Learners: 3, Shards: 3, Steps: 4},
		"order: environments of a learner: the record has 4, this run has 5": {Learners: 3, Shards: 2, Steps: 5},
		"order: recorded with another rule":                                  {Learners: 3, Shards: 2, Steps: 4, Barrier: true},
	} {
		c.Schedule, c.Order = Recorded, o
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, must say %q", err, says)
		}
	}
	for says, p := range map[string]programme{
		"visits after 4 rounds, the recorded order has 3":            {rounds: 4, updates: 1},
		"makes 2 visits after its visit 0, the recorded order has 4": {rounds: 6, updates: 1, pulls: 3},
		"visits after 2 rounds, the recorded order has 3":            {rounds: 2, updates: 1},
	} {
		w := newWorld(p, 3, 2, 4, false)
		if err := w.run(newTurns(t, Config{Schedule: Recorded, Order: o}, w, 2), 400, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, must say %q", err, says)
		}
	}
}

// Every truncation and every changed bit is noticed.
func TestDamagedOrders(t *testing.T) {
	data, _ := recordedRace(t, 3, 2, programme{rounds: 3, updates: 1, pulls: 2})
	for n := range data {
		if _, err := ParseOrder(data[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are read", n, len(data))
		}
	}
	for bit := range 8 * len(data) {
		damaged := slices.Clone(data)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := ParseOrder(damaged); err == nil {
			t.Fatalf("bit %d is changed, and the order is read", bit)
		}
	}
	header := append([]byte(orderMagic), 0, 2, 1, 4, 0)
	for says, entries := range map[string][]byte{
		"learners is 0, must be 1 to 1024":                  nil,
		"entry is 4, must be 0 to 3":                        {4},
		"rounds before a visit is cut off":                  {1},
		"T at a pull is cut off":                            {1, 11},
		"a stop is cut off":                                 {0, 1, 1, 5},
		"rounds before a stop is 1, must be 2":              {0, 1, 1, 2, 0, 0, 1, 1, 1, 0},
		"learner 0 has 1 rounds before a visit, must be at": {0, 1, 1, 2, 0, 1, 2},
		"steps of a stop after until is 9, must be 0 to 2":  {0, 1, 9, 0, 0},
		"learner 1 has no visits to forget":                 {3, 1},
		"entry is cut off":                                  bytes.Repeat([]byte{0xff}, 12),
		"T at a stop is 9007199254740992":                   {0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10},
	} {
		data := append(slices.Clone(header), entries...)
		if entries == nil {
			data[len(orderMagic)+1] = 0
		}
		if _, err := ParseOrder(withSum(data)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, must say %q", err, says)
		}
	}
	barrier := append([]byte(orderMagic), 0, 2, 1, 4, 1)
	for says, entries := range map[string][]byte{
		"learner 0 pulls before learner 1 has pushed": {1, 10, 1, 5},
		"learner 0 pulls without a push":              {1, 11, 5},
	} {
		if _, err := ParseOrder(withSum(append(slices.Clone(barrier), entries...))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, must say %q", err, says)
		}
	}
}

// Any bytes are an order or an error of one sentence, with little memory. A run that repeats such
// an order ends.
func FuzzOrder(f *testing.F) {
	for _, p := range []programme{{rounds: 3, updates: 1}, {rounds: 3, updates: 2, pulls: 2}, {rounds: 1, updates: 1}} {
		data, _ := recordedRace(f, 2, 2, p)
		f.Add(data[:len(data)-4])
		f.Add(data[:len(data)/2])
	}
	f.Add(append([]byte(orderMagic), 1, 1, 'a', 0, 2, 2, 4, 1, 1, 10, 2, 10, 1, 2, 1, 3, 0, 12, 1, 0, 0))
	f.Add([]byte(orderMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		o, err := ParseOrder(withSum(data))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20+4*orderMemory*uint64(len(data)) {
			t.Fatalf("%d bytes of memory for %d bytes of data", used, len(data))
		}
		if err != nil {
			oneSentence(t, err)
			return
		}
		if o.Learners > 8 || o.Shards > 8 || o.Steps > 100 || o.visits > 1000 {
			return
		}
		w := newWorld(programme{rounds: 3, updates: 1}, o.Learners, o.Shards, o.Steps, false)
		turns := newTurns(t, Config{Schedule: Recorded, Order: o, Fingerprint: o.Fingerprint, Barrier: o.Barrier}, w, 2)
		for _, until := range []int64{20, 200} {
			if err := w.run(turns, until, nil); err != nil {
				oneSentence(t, err)
			}
		}
	})
}

func oneSentence(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); text == "" || strings.Contains(text, "\n") || len(text) > 500 {
		t.Errorf("%q, must be a sentence", text)
	}
}

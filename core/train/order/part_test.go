package order

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

// written returns the bytes of each part.
func written(t testing.TB, turns *Turns) (list [][]byte) {
	for _, p := range turns.Parts() {
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		list = append(list, b.Bytes())
	}
	return list
}

// read reads the bytes of parts, and adopts them if all are accepted.
func read(turns *Turns, list [][]byte) error {
	var adopts []func()
	for i, p := range turns.Parts() {
		adopt, err := p.Read(bytes.NewReader(list[i]), int64(len(list[i])))
		if err != nil {
			return err
		}
		if adopt != nil {
			adopts = append(adopts, adopt)
		}
	}
	for _, adopt := range adopts {
		adopt()
	}
	return nil
}

// A state in which a number has been changed is refused, or it is the state of another run: the
// learners go on to the end or report an error of one sentence. Nothing hangs.
func TestChangedStates(t *testing.T) {
	refusals, runs := 0, 0
	for i := range times(2000, 200) {
		s := randomSetup(t, i%100)
		if s.k > 8 {
			continue
		}
		s.delays = 0
		r := rand.New(rand.NewPCG(uint64(i), 43))
		schedule := []Schedule{Virtual, Virtual, Race, Recorded}[r.IntN(4)]
		config, w := s.config(schedule), s.world()
		if schedule == Recorded {
			race := s.world()
			turns := newTurns(t, s.config(Race), race, 2)
			if err := race.run(turns, 100, nil); err != nil {
				t.Fatal(err)
			}
			config.Order, _ = ParseOrder(turns.Order())
		}
		turns := newTurns(t, config, w, 2)
		interrupt := new(stopAfter)
		interrupt.left.Store(r.Int64N(100))
		if err := w.run(turns, 100, interrupt); err != nil && err != errInterrupted {
			t.Fatal(err)
		}
		parts := written(t, turns)
		parts[0] = changeNumber(t, parts[0], r)
		other := newTurns(t, config, w, 2)
		if err := read(other, parts); err != nil {
			oneSentence(t, err)
			if !errors.Is(err, checkpoint.ErrFormat) {
				t.Errorf("%v, must be ErrFormat", err)
			}
			refusals++
			continue
		}
		runs++
		other.SetSteps(0)
		for range 3 {
			if err := w.run(other, 100, nil); err != nil {
				oneSentence(t, err)
			}
		}
	}
	if t.Logf("%d refused, %d run", refusals, runs); refusals < 20 || runs < 20 {
		t.Error("the changes do not reach both")
	}
}

// changeNumber changes a number of a JSON text.
func changeNumber(t *testing.T, text []byte, r *rand.Rand) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type span struct{ from, to int64 }
	var numbers []span
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := token.(json.Number); ok {
			numbers = append(numbers, span{d.InputOffset() - int64(len(n)), d.InputOffset()})
		}
	}
	at := numbers[r.IntN(len(numbers))]
	old := json.Number(text[at.from:at.to])
	n, err := old.Int64()
	if err != nil {
		t.Fatal(err)
	}
	n = []int64{-1, 0, 1, 2, n + 1, n - 1, 2 * n, n / 2, 1 << 40, 1 << 61, 1<<63 - 1}[r.IntN(11)]
	changed, _ := json.Marshal(n)
	return append(append(bytes.Clone(text[:at.from]), changed...), text[at.to:]...)
}

// A checkpoint of another schedule or shape is refused, and an order that does not belong to the
// state.
func TestStatesOfOtherRuns(t *testing.T) {
	p := programme{rounds: 3, updates: 1}
	model := &Latency{Step: mustDuration(t, "1e-3"), Forward: mustDuration(t, "1e-3"), Gradient: mustDuration(t, "1e-3"), Pull: mustDuration(t, "1e-3"), Push: mustDuration(t, "1e-3")}
	make := func(k int, schedule Schedule) (*world, *Turns) {
		w := newWorld(p, k, 2, 4, false)
		return w, newTurns(t, Config{Schedule: schedule, Latency: model}, w, 2)
	}
	w, race := make(3, Race)
	if err := w.run(race, 100, nil); err != nil {
		t.Fatal(err)
	}
	_, virtual := make(3, Virtual)
	_, four := make(4, Race)
	early, later := written(t, race), [][]byte(nil)
	if err := w.run(race, 200, nil); err != nil {
		t.Fatal(err)
	}
	later = written(t, race)
	unknown := bytes.Replace(later[0], []byte(`"race"`), []byte(`"rice"`), 1)
	for says, err := range map[string]error{
		`schedule: "rice", must be "race"`:                           read(race, [][]byte{unknown, later[1]}),
		`the checkpoint has 3 learners, 2 shards and 4 environments`: read(four, later),
		`must be the`: read(race, [][]byte{later[0], early[1]}),
	} {
		if err == nil || !strings.Contains(err.Error(), says) || !errors.Is(err, checkpoint.ErrFormat) {
			t.Errorf("%v, must say %q", err, says)
		}
	}
	const says = `schedule: the checkpoint has "race", this trainer has "virtual", must be equal where experience is loaded`
	if err := read(virtual, later); err == nil || err.Error() != says || errors.Is(err, checkpoint.ErrFormat) {
		t.Errorf("%v, must be %q and not ErrFormat", err, says)
	}
	if err := read(race, early); err != nil || race.Steps() < 100 || race.Steps() >= 200 {
		t.Errorf("%v, T is %d", err, race.Steps())
	}
}

// Times that have become large are shifted at the next Begin, and the order stays as it is.
func TestTimesStaySmall(t *testing.T) {
	for i := range times(100, 5) {
		s := randomSetup(t, i)
		want := s.naive()
		w := s.world()
		turns := newTurns(t, s.config(Virtual), w, 2)
		for k := range turns.learners {
			turns.learners[k].end = 2 * latest
		}
		for j, until := range s.slices {
			if err := w.run(turns, until, nil); err != nil {
				t.Fatal(err)
			}
			if got := w.digest(); got != want[j] {
				t.Fatalf("configuration %d (%v), slice %d: %s, must be %s", i, s, j, got, want[j])
			}
		}
		for k := range turns.learners {
			if end := turns.learners[k].end; end > latest && end != never {
				t.Errorf("learner %d is at time %d", k, end)
			}
		}
	}
}

// The state does not grow with the run.
func TestTheStateStaysSmall(t *testing.T) {
	s := randomSetup(t, 3)
	s.k, s.delays = 4, 0
	for _, varies := range []bool{false, true} {
		s.varies = varies
		w := s.world()
		turns := newTurns(t, s.config(Virtual), w, 2)
		if err := w.run(turns, 100_000, nil); err != nil {
			t.Fatal(err)
		}
		for k := range turns.learners {
			if n := len(turns.learners[k].ends); n > 10_000 {
				t.Errorf("%d rounds are kept of learner %d", n, k)
			}
		}
	}
}

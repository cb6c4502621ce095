package nn

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// copied is a batch by rows with observations of its own.
func copied(s Spec, b Batch, kept []byte) Batch {
	size := s.Obs.Bytes()
	for _, row := range b.Rows {
		if row < 0 {
			b.Obs = append(b.Obs, make([]byte, size)...)
		} else {
			b.Obs = append(b.Obs, kept[int(row)*size:][:size]...)
		}
	}
	b.Rows = nil
	return b
}

// oddBytes is a network on observations whose size is no multiple of 4.
func oddBytes() Spec {
	return actorCritic(env.ObsSpec{Shape: []int{7}}, 3, Trunk{Arch: "mlp", Hidden: []int{8}})
}

// A batch that names rows of those that were kept has the gradients, steps and reports of one
// with copies of them, to the bit, and -1 is a row of zeros; another Keep replaces them, also by
// more or by fewer. Batches of both kinds may follow each other.
func TestRowsAreCopies(t *testing.T) { onBoth(t, testRowsAreCopies) }

func testRowsAreCopies(t *testing.T) {
	const rows = 6
	for _, s := range []Spec{twoMLPs(), oneCNN(), oddBytes(), smallMLP()} {
		loss, d := lossOf(s), mustDevice(t, tested, 2)
		c := StepperConfig{Net: s, Rows: rows, Loss: loss, Optimizer: OptimizerConfig{Name: "adam"}, MaxGradNorm: 0.5}
		byRows, byCopies := must(d.Stepper(c))(t), must(d.Stepper(c))(t)
		learner := must(d.Learner(s, rows, loss))(t)
		p, q := mustInit(t, s, 1), mustInit(t, s, 1)
		var have, want Report
		for k, many := range []int{9, 4, 21, 21, 9} {
			r := rng.New(1, "test", k)
			all := randomObs(s, r, many)
			check(t, byRows.Keep(all))
			check(t, learner.Keep(all))
			for range 2 {
				b := randomBatch(s, loss, r, rows)
				b.Obs, b.Rows = nil, make([]int32, rows)
				for i := range b.Rows {
					b.Rows[i] = int32(r.Intn(many+1)) - 1
				}
				b.Rows[1], b.Rows[2], b.Rows[3] = -1, int32(many-1), int32(many-1)
				whole := copied(s, b, all)
				gradients := [2][]float32{make([]float32, len(p.Host())), make([]float32, len(p.Host()))}
				check(t, learner.Gradient(p, b, gradients[0], &have))
				check(t, learner.Gradient(p, whole, gradients[1], &want))
				if !slices.Equal(gradients[0], gradients[1]) || !reflect.DeepEqual(have, want) {
					t.Fatalf("%s: Keep %d: the gradient of the rows is not that of their copies: %+v, want %+v", s.name(), k, have, want)
				}
				check(t, byRows.Update(p, b, 1e-2, &have))
				check(t, byCopies.Update(q, whole, 1e-2, &want))
				if !slices.Equal(p.Host(), q.Host()) || !reflect.DeepEqual(have, want) {
					t.Fatalf("%s: Keep %d: the update by rows is not that by their copies: %+v, want %+v", s.name(), k, have, want)
				}
				check(t, byRows.Learn(p, whole, &have)) // a copy may come between
				check(t, byCopies.Learn(q, whole, &want))
				check(t, byRows.Step(p, 1e-2, &have))
				check(t, byCopies.Step(q, 1e-2, &want))
			}
		}
		if !slices.Equal(p.Host(), q.Host()) {
			t.Errorf("%s: the parameters differ", s.name())
		}
	}
}

// Rows that there are not, and what is not rows, are refused in a sentence.
func TestRowsRefused(t *testing.T) { onBoth(t, testRowsRefused) }

func testRowsRefused(t *testing.T) {
	const rows = 3
	s := twoMLPs()
	st := must(mustDevice(t, tested, 1).Stepper(StepperConfig{Net: s, Rows: rows, Loss: lossOf(s), Optimizer: OptimizerConfig{Name: "adam"}}))(t)
	p := mustInit(t, s, 1)
	before := p.Clone()
	refused := func(want string, edit func(*Batch)) {
		t.Helper()
		b := randomBatch(s, lossOf(s), rng.New(1, "test", 0), rows)
		b.Obs, b.Rows = nil, []int32{0, 1, -1}
		edit(&b)
		if err := st.Update(p, b, 1, &Report{}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	refused("batch.rows: 3, must be nil: nothing was given to Keep", func(*Batch) {})
	obs := randomObs(s, rng.New(2, "test", 0), 5)
	for want, obs := range map[string][]byte{"keep: 0 bytes, must be": nil, "keep: 99 bytes, must be 1 to 2147483646 rows of 20 bytes": obs[:99], "must be a multiple of 4": obs[1:81]} {
		if err := st.Keep(obs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	check(t, st.Keep(obs))
	refused("batch.rows[1]: 5, must be -1 or a row that was given to Keep: 0 to 4", func(b *Batch) { b.Rows[1] = 5 })
	refused("batch.rows[2]: -2, must be -1 or a row that was given to Keep: 0 to 4", func(b *Batch) { b.Rows[2] = -2 })
	refused("batch.rows: 2, must be 3", func(b *Batch) { b.Rows = b.Rows[:2] })
	refused("batch.obs: 60 bytes, must be nil with batch.rows", func(b *Batch) { b.Obs = obs[:60] })
	check(t, st.Keep(obs[:40]))
	refused("batch.rows[0]: 2, must be -1 or a row that was given to Keep: 0 to 1", func(b *Batch) { b.Rows[0] = 2 })
	if !slices.Equal(p.Host(), before.Host()) {
		t.Error("the parameters have changed")
	}
}

// Outputs, of rows or of copies, have the bits of a Network's, and leave the gradient that Step is
// to take. Rows that a Refresh names are what they have become, also where they go on at row 0.
func TestOutputsOfRows(t *testing.T) { onEveryDevice(t, testOutputsOfRows) }

func testOutputsOfRows(t *testing.T) {
	const rows, many = 6, 9
	rounded := twoMLPs()
	rounded.Precision = BF16
	for _, s := range append(norms(oneCNN(), smallMLP()), twoMLPs(), oneCNN(), oddBytes(), smallMLP(), rounded) {
		loss, size := lossOf(s), s.Obs.Bytes()
		d := mustDevice(t, tested, 2)
		net := must(d.Network(s, 4))(t)
		c := StepperConfig{Net: s, Rows: rows, Loss: loss, Optimizer: OptimizerConfig{Name: "adam"}, MaxGradNorm: 0.5}
		st, twin := must(d.Stepper(c))(t), must(d.Stepper(c))(t)
		p, q, r := mustInit(t, s, 1), mustInit(t, s, 1), rng.New(1, "test", 0)
		all, b := randomObs(s, r, many), randomBatch(s, loss, r, rows)
		b.Obs, b.Rows = nil, []int32{8, 0, -1, 3, 8, 5}
		same := func(b Batch) {
			t.Helper()
			have := must(st.Outputs(p, Batch{Obs: b.Obs, Rows: b.Rows}))(t)
			obs := copied(s, b, all).Obs
			for first := 0; first < rows; first += 3 {
				want := must(net.Forward(p, obs[first*size:(first+3)*size], 3))(t)
				for h := range s.Heads {
					for i := range 3 {
						if have.Rows != rows || !slices.Equal(have.Row(h, first+i), want.Row(h, i)) {
							t.Fatalf("%s: row %d of head %d is %v, want %v", s.name(), first+i, h, have.Row(h, first+i), want.Row(h, i))
						}
					}
				}
			}
		}
		check(t, st.Keep(all))
		for _, span := range [][2]int{{0, 1}, {7, 4}, {3, 3}, {8, 9}, {0, 9}} {
			for k := range span[1] {
				copy(all[(span[0]+k)%many*size:][:size], randomObs(s, r, 1))
			}
			check(t, st.Refresh(span[0], span[1]))
			var have, want Report
			check(t, st.Learn(p, b, &have))
			check(t, twin.Learn(q, copied(s, b, all), &want))
			same(b)
			same(copied(s, b, all))
			same(b)
			check(t, st.Step(p, 1e-2, &have))
			check(t, twin.Step(q, 1e-2, &want))
			same(b)
			if !slices.Equal(p.Host(), q.Host()) || !reflect.DeepEqual(have, want) {
				t.Fatalf("%s: outputs change the step: %+v, want %+v", s.name(), have, want)
			}
		}
	}
}

// What has no outputs, and rows that cannot be brought again, are refused in a sentence.
func TestOutputsRefused(t *testing.T) { onBoth(t, testOutputsRefused) }

func testOutputsRefused(t *testing.T) {
	const rows = 3
	s := twoMLPs()
	st := must(mustDevice(t, tested, 1).Stepper(StepperConfig{Net: s, Rows: rows, Loss: lossOf(s), Optimizer: OptimizerConfig{Name: "adam"}}))(t)
	p, obs := mustInit(t, s, 1), randomObs(s, rng.New(2, "test", 0), 5)
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	outputs := func(p *Params, b Batch) error {
		_, err := st.Outputs(p, b)
		return err
	}
	index := []int32{0, 1, -1}
	refused(st.Refresh(0, 1), "refresh: 1 rows, must follow a Keep")
	refused(outputs(p, Batch{Rows: index}), "batch.rows: 3, must be nil: nothing was given to Keep")
	check(t, st.Keep(obs))
	refused(st.Refresh(-1, 1), "refresh: first row -1, must be 0 to 4")
	refused(st.Refresh(5, 1), "refresh: first row 5, must be 0 to 4")
	refused(st.Refresh(1, 0), "refresh: 0 rows, must be 1 to 5")
	refused(st.Refresh(1, 6), "refresh: 6 rows, must be 1 to 5")
	refused(outputs(p, Batch{}), "batch.obs: 0 bytes, must be 60 for 3 rows of float32 [5]")
	refused(outputs(p, Batch{Obs: obs[:40]}), "batch.obs: 40 bytes, must be 60 for 3 rows of float32 [5]")
	refused(outputs(p, Batch{Rows: index[:2]}), "batch.rows: 2, must be 3")
	refused(outputs(p, Batch{Rows: index, Obs: obs[:60]}), "batch.obs: 60 bytes, must be nil with batch.rows")
	refused(outputs(p, Batch{Rows: []int32{0, 5, 1}}), "batch.rows[1]: 5, must be -1 or a row that was given to Keep: 0 to 4")
	if err := outputs(mustInit(t, oddBytes(), 1), Batch{Rows: index}); err == nil || !strings.Contains(err.Error(), "parameters: ") || !strings.Contains(err.Error(), "must be") {
		t.Error(err)
	}
	check(t, outputs(p, Batch{Rows: index}))
}

// Neither another Keep of as many rows, nor a Refresh, outputs or an update allocate.
func TestRowsAllocateNothing(t *testing.T) { onBoth(t, testRowsAllocateNothing) }

func testRowsAllocateNothing(t *testing.T) {
	const rows = 4
	s := oneCNN()
	st := must(mustDevice(t, tested, 2).Stepper(StepperConfig{Net: s, Rows: rows, Loss: lossOf(s), Optimizer: OptimizerConfig{Name: "adam"}}))(t)
	p, b, all := mustInit(t, s, 1), randomBatch(s, lossOf(s), rng.New(1, "test", 0), rows), randomObs(s, rng.New(2, "test", 0), 9)
	b.Obs, b.Rows = nil, []int32{8, -1, 0, 3}
	var r Report
	update := func() {
		check(t, st.Keep(all))
		for range 2 {
			check(t, st.Refresh(7, 3))
			if _, err := st.Outputs(p, b); err != nil {
				t.Fatal(err)
			}
			check(t, st.Update(p, b, 1e-3, &r))
		}
	}
	if allocs := testing.AllocsPerRun(5, update); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// BenchmarkRows is an update by rows of a rollout of Atari's size.
func BenchmarkRows(b *testing.B) {
	const rows, many = 256, 1024
	s := actorCritic(env.ObsSpec{Shape: []int{4, 84, 84}}, 6, Trunk{Arch: "nature_cnn"})
	st := must(mustCPU(b, 1).Stepper(StepperConfig{Net: s, Rows: rows, Loss: lossOf(s), Optimizer: OptimizerConfig{Name: "adam"}, MaxGradNorm: 0.5}))(b)
	p, r, all := mustInit(b, s, 1), rng.New(1, "test", 0), randomObs(s, rng.New(2, "test", 0), many)
	batch := randomBatch(s, lossOf(s), r, rows)
	order := make([]int32, rows)
	for i := range order {
		order[i] = int32(r.Intn(many))
	}
	size := s.Obs.Bytes()
	var report Report
	check(b, st.Keep(all))
	b.Run("copied by the caller", func(b *testing.B) {
		for b.Loop() {
			for i, row := range order {
				copy(batch.Obs[i*size:(i+1)*size], all[int(row)*size:])
			}
			check(b, st.Update(p, batch, 1e-6, &report))
		}
	})
	batch.Obs, batch.Rows = nil, order
	b.Run("by rows", func(b *testing.B) {
		for b.Loop() {
			check(b, st.Update(p, batch, 1e-6, &report))
		}
	})
}

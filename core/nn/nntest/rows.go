package nntest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// copied returns a batch with Obs instead of Rows, which refers to all.
func copied(s nn.Spec, b nn.Batch, all []byte) nn.Batch {
	size := s.Obs.Bytes()
	for _, row := range b.Rows {
		if row < 0 {
			b.Obs = append(b.Obs, make([]byte, size)...)
		} else {
			b.Obs = append(b.Obs, all[int(row)*size:][:size]...)
		}
	}
	b.Rows = nil
	return b
}

// testRowsAreCopies compares batches with Rows with batches that have the same observations in Obs:
// gradients, steps and reports have the same bits. Row -1 is zeros. Another SetObs replaces the
// rows, also by more or by fewer. Batches of both kinds may alternate.
func (on *suite) testRowsAreCopies(t *testing.T) {
	const rows = 6
	for _, s := range append(Policies(), TwoMLPs(), OneCNN(), OddBytes(), SmallMLP()) {
		loss, d := LossOf(s), on.device(t, 2)
		c := nn.StepperConfig{Net: s, Rows: rows, Loss: loss, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 0.5}
		byRows, byCopies := Must(d.Stepper(c))(t), Must(d.Stepper(c))(t)
		learner := Must(d.Learner(s, rows, loss))(t)
		p, q := Init(t, s, 1), Init(t, s, 1)
		var have, want nn.Report
		for k, many := range []int{9, 4, 21, 21, 9} {
			r := rng.New(1, "test", k)
			all := RandomObs(s, r, many)
			Check(t, byRows.SetObs(all))
			Check(t, learner.SetObs(all))
			for range 2 {
				b := RandomBatch(s, loss, r, rows)
				b.Obs, b.Rows = nil, make([]int32, rows)
				for i := range b.Rows {
					b.Rows[i] = int32(r.Intn(many+1)) - 1
				}
				b.Rows[1], b.Rows[2], b.Rows[3] = -1, int32(many-1), int32(many-1)
				whole := copied(s, b, all)
				gradients := [2][]float32{make([]float32, len(p.Host())), make([]float32, len(p.Host()))}
				Check(t, learner.Gradient(p, b, gradients[0], &have))
				Check(t, learner.Gradient(p, whole, gradients[1], &want))
				if !slices.Equal(gradients[0], gradients[1]) || !reflect.DeepEqual(have, want) {
					t.Fatalf("%s: SetObs %d: the gradient of the rows is not that of their copies: %+v, want %+v", Name(s), k, have, want)
				}
				Check(t, byRows.Update(p, b, 1e-2, &have))
				Check(t, byCopies.Update(q, whole, 1e-2, &want))
				if !slices.Equal(p.Host(), q.Host()) || !reflect.DeepEqual(have, want) {
					t.Fatalf("%s: SetObs %d: the update by rows is not that by their copies: %+v, want %+v", Name(s), k, have, want)
				}
				Check(t, byRows.Learn(p, whole, &have)) // a copy may come between
				Check(t, byCopies.Learn(q, whole, &want))
				Check(t, byRows.Step(p, 1e-2, &have))
				Check(t, byCopies.Step(q, 1e-2, &want))
			}
		}
		if !slices.Equal(p.Host(), q.Host()) {
			t.Errorf("%s: the parameters differ", Name(s))
		}
	}
}

// testRowsRefused tests that row numbers out of range and invalid observations are refused.
func (on *suite) testRowsRefused(t *testing.T) {
	const rows = 3
	s := TwoMLPs()
	st := Must(on.device(t, 1).Stepper(nn.StepperConfig{Net: s, Rows: rows, Loss: LossOf(s), Optimizer: nn.OptimizerConfig{Name: "adam"}}))(t)
	p := Init(t, s, 1)
	before := p.Clone()
	refused := func(want string, edit func(*nn.Batch)) {
		t.Helper()
		b := RandomBatch(s, LossOf(s), rng.New(1, "test", 0), rows)
		b.Obs, b.Rows = nil, []int32{0, 1, -1}
		edit(&b)
		if err := st.Update(p, b, 1, &nn.Report{}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	refused("batch.rows: 3, must be nil before SetObs", func(*nn.Batch) {})
	obs := RandomObs(s, rng.New(2, "test", 0), 5)
	for want, obs := range map[string][]byte{"set_obs: 0 bytes, must be": nil, "set_obs: 99 bytes, must be 1 to 2147483646 rows of 20 bytes": obs[:99], "must be a multiple of 4": obs[1:81]} {
		if err := st.SetObs(obs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	Check(t, st.SetObs(obs))
	refused("batch.rows[1]: 5, must be -1 or a row of SetObs, 0 to 4", func(b *nn.Batch) { b.Rows[1] = 5 })
	refused("batch.rows[2]: -2, must be -1 or a row of SetObs, 0 to 4", func(b *nn.Batch) { b.Rows[2] = -2 })
	refused("batch.rows: 2, must be 3", func(b *nn.Batch) { b.Rows = b.Rows[:2] })
	refused("batch.obs: 60 bytes, must be nil with batch.rows", func(b *nn.Batch) { b.Obs = obs[:60] })
	Check(t, st.SetObs(obs[:40]))
	refused("batch.rows[0]: 2, must be -1 or a row of SetObs, 0 to 1", func(b *nn.Batch) { b.Rows[0] = 2 })
	if !slices.Equal(p.Host(), before.Host()) {
		t.Error("the parameters have changed")
	}
}

// testOutputsOfRows compares Outputs, for Rows and for Obs, with those of a Network. They have the
// same bits and do not change the gradient of the next Step. After a Refresh the outputs are those
// of the new rows, also where they wrap.
func (on *suite) testOutputsOfRows(t *testing.T) {
	const rows, many = 6, 9
	rounded := TwoMLPs()
	rounded.Precision = nn.BF16
	for _, s := range slices.Concat(Norms(OneCNN(), SmallMLP()), Policies(), []nn.Spec{TwoMLPs(), OneCNN(), OddBytes(), SmallMLP(), rounded}) {
		loss, size := LossOf(s), s.Obs.Bytes()
		d := on.device(t, 2)
		net := Must(d.Network(s, 4))(t)
		c := nn.StepperConfig{Net: s, Rows: rows, Loss: loss, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 0.5}
		st, twin := Must(d.Stepper(c))(t), Must(d.Stepper(c))(t)
		p, q, r := Init(t, s, 1), Init(t, s, 1), rng.New(1, "test", 0)
		all, b := RandomObs(s, r, many), RandomBatch(s, loss, r, rows)
		b.Obs, b.Rows = nil, []int32{8, 0, -1, 3, 8, 5}
		same := func(b nn.Batch) {
			t.Helper()
			have := Must(st.Outputs(p, nn.Batch{Obs: b.Obs, Rows: b.Rows}))(t)
			obs := copied(s, b, all).Obs
			for first := 0; first < rows; first += 3 {
				want := Must(net.Forward(p, obs[first*size:(first+3)*size], 3))(t)
				for h := range s.Heads {
					for i := range 3 {
						if have.Rows != rows || !slices.Equal(have.Row(h, first+i), want.Row(h, i)) {
							t.Fatalf("%s: row %d of head %d is %v, want %v", Name(s), first+i, h, have.Row(h, first+i), want.Row(h, i))
						}
					}
				}
			}
		}
		Check(t, st.SetObs(all))
		for _, span := range [][2]int{{0, 1}, {7, 4}, {3, 3}, {8, 9}, {0, 9}} {
			for k := range span[1] {
				copy(all[(span[0]+k)%many*size:][:size], RandomObs(s, r, 1))
			}
			Check(t, st.Refresh(span[0], span[1]))
			var have, want nn.Report
			Check(t, st.Learn(p, b, &have))
			Check(t, twin.Learn(q, copied(s, b, all), &want))
			same(b)
			same(copied(s, b, all))
			same(b)
			Check(t, st.Step(p, 1e-2, &have))
			Check(t, twin.Step(q, 1e-2, &want))
			same(b)
			if !slices.Equal(p.Host(), q.Host()) || !reflect.DeepEqual(have, want) {
				t.Fatalf("%s: outputs change the step: %+v, want %+v", Name(s), have, want)
			}
		}
	}
}

// testOutputsRefused tests that invalid batches of Outputs and rows of Refresh are refused.
func (on *suite) testOutputsRefused(t *testing.T) {
	const rows = 3
	s := TwoMLPs()
	st := Must(on.device(t, 1).Stepper(nn.StepperConfig{Net: s, Rows: rows, Loss: LossOf(s), Optimizer: nn.OptimizerConfig{Name: "adam"}}))(t)
	p, obs := Init(t, s, 1), RandomObs(s, rng.New(2, "test", 0), 5)
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	outputs := func(p *nn.Params, b nn.Batch) error {
		_, err := st.Outputs(p, b)
		return err
	}
	index := []int32{0, 1, -1}
	refused(st.Refresh(0, 1), "refresh: 1 rows, must follow SetObs")
	refused(outputs(p, nn.Batch{Rows: index}), "batch.rows: 3, must be nil before SetObs")
	Check(t, st.SetObs(obs))
	refused(st.Refresh(-1, 1), "refresh: first row -1, must be 0 to 4")
	refused(st.Refresh(5, 1), "refresh: first row 5, must be 0 to 4")
	refused(st.Refresh(1, 0), "refresh: 0 rows, must be 1 to 5")
	refused(st.Refresh(1, 6), "refresh: 6 rows, must be 1 to 5")
	refused(outputs(p, nn.Batch{}), "batch.obs: 0 bytes, must be 60 for 3 rows of float32 [5]")
	refused(outputs(p, nn.Batch{Obs: obs[:40]}), "batch.obs: 40 bytes, must be 60 for 3 rows of float32 [5]")
	refused(outputs(p, nn.Batch{Rows: index[:2]}), "batch.rows: 2, must be 3")
	refused(outputs(p, nn.Batch{Rows: index, Obs: obs[:60]}), "batch.obs: 60 bytes, must be nil with batch.rows")
	refused(outputs(p, nn.Batch{Rows: []int32{0, 5, 1}}), "batch.rows[1]: 5, must be -1 or a row of SetObs, 0 to 4")
	if err := outputs(Init(t, OddBytes(), 1), nn.Batch{Rows: index}); err == nil || !strings.Contains(err.Error(), "parameters: ") || !strings.Contains(err.Error(), "must be") {
		t.Error(err)
	}
	Check(t, outputs(p, nn.Batch{Rows: index}))
}

// testRowsAllocateNothing tests that SetObs of as many rows, Refresh, Outputs and Update do not
// allocate.
func (on *suite) testRowsAllocateNothing(t *testing.T) {
	const rows = 4
	s := OneCNN()
	st := Must(on.device(t, 2).Stepper(nn.StepperConfig{Net: s, Rows: rows, Loss: LossOf(s), Optimizer: nn.OptimizerConfig{Name: "adam"}}))(t)
	p, b, all := Init(t, s, 1), RandomBatch(s, LossOf(s), rng.New(1, "test", 0), rows), RandomObs(s, rng.New(2, "test", 0), 9)
	b.Obs, b.Rows = nil, []int32{8, -1, 0, 3}
	var r nn.Report
	update := func() {
		Check(t, st.SetObs(all))
		for range 2 {
			Check(t, st.Refresh(7, 3))
			if _, err := st.Outputs(p, b); err != nil {
				t.Fatal(err)
			}
			Check(t, st.Update(p, b, 1e-3, &r))
		}
	}
	if allocs := testing.AllocsPerRun(5, update); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// testBatchIsCompleted tests that Complete gets the outputs of the batch and sets the columns
// before the loss is computed, and that its error ends the call.
func (on *suite) testBatchIsCompleted(t *testing.T) {
	const rows = 5
	for _, s := range append(Policies(), SmallMLP(), OneCNN(), WithNorm(TwoMLPs(), "layer_all")) {
		loss, r, p := LossOf(s), rng.New(1, "test", 0), Init(t, s, 1)
		learner, twin := on.learner(t, s, rows, loss), on.learner(t, s, rows, loss)
		var have, want nn.Report
		gradients := [2][]float32{make([]float32, len(p.Host())), make([]float32, len(p.Host()))}
		for range 3 {
			whole := RandomBatch(s, loss, r, rows)
			b := whole
			b.Columns = nil
			for _, c := range whole.Columns {
				b.Columns = append(b.Columns, make([]float32, len(c)))
			}
			outputs := Must(twin.Outputs(p, whole))(t)
			b.Complete = func(out nn.Outputs) error {
				if !reflect.DeepEqual(out, outputs) {
					t.Errorf("%s: outputs %v, want %v", Name(s), out, outputs)
				}
				for k, c := range whole.Columns {
					copy(b.Columns[k], c)
				}
				return nil
			}
			Check(t, learner.Gradient(p, b, gradients[0], &have))
			Check(t, twin.Gradient(p, whole, gradients[1], &want))
			if !slices.Equal(gradients[0], gradients[1]) || !reflect.DeepEqual(have, want) {
				t.Fatalf("%s: the completed batch has another gradient: %+v, want %+v", Name(s), have, want)
			}
			b.Complete = func(nn.Outputs) error { return errors.New("incomplete") }
			if err := learner.Gradient(p, b, gradients[0], &have); err == nil || err.Error() != "incomplete" {
				t.Errorf("%s: error %v", Name(s), err)
			}
		}
	}
}

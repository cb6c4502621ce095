package replay

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/rng"
)

// saveBoth returns a checkpoint of a memory and its sampler.
func saveBoth(m *Memory, p *Prioritised) []byte {
	part, _ := p.Part("priorities")
	return must(checkpoint.SaveBytes("run", nil, []checkpoint.Part{m.Part("replay", anyAction), part}))
}

func loadBoth(m *Memory, p *Prioritised, file []byte) error {
	part, _ := p.Part("priorities")
	r := must(checkpoint.OpenBytes(file))
	defer r.Close()
	adopt, err := r.Load([]checkpoint.Part{m.Part("replay", anyAction), part})
	if err == nil {
		adopt()
	}
	return err
}

// A run that goes on from a checkpoint is bit-identical to one that was never stopped, also where
// the memory that loads holds something else.
func TestPrioritisedResumes(t *testing.T) {
	everyFormula(t, func(t *testing.T, c Priorities) {
		c.N = 2
		cfg := Config{Obs: stackSpec(1, 1), Envs: 3, Capacity: 50, Window: 30}
		var files [2][]byte
		var all [2]bytes.Buffer
		for run := range 2 {
			m, draws := must(New(cfg)), rng.New(1, "replay", 0)
			p := must(NewPrioritised(m, c))
			picks, errors, weights := make([]int, 8), make([]float32, 8), make([]float32, 8)
			for window := range 8 {
				addEpisodes(t, m, 7)
				p.Flushed()
				for u := range 6 {
					if window == 5 && u == 3 {
						files[run] = saveBoth(m, p)
						if run == 1 {
							other := cfg
							other.Window = 5
							m.Close()
							m = must(New(other))
							p = must(NewPrioritised(m, c))
							addEpisodes(t, m, 23)
							p.Flushed()
							p.Update([]int{0, 1}, []float32{9, 9})
							check(t, loadBoth(m, p, files[run]))
						}
					}
					p.Draw(draws, picks)
					p.Weights(0.7, weights)
					fmt.Fprintln(&all[run], picks, weights)
					for row := range errors {
						errors[row] = weights[row] * float32(picks[row])
					}
					p.Update(picks, errors)
				}
			}
			fmt.Fprintf(&all[run], "%x", saveBoth(m, p))
			m.Close()
		}
		if !bytes.Equal(files[0], files[1]) || all[0].String() != all[1].String() {
			t.Error("the resumed run differs")
		}
	})
}

// A file without priorities, and experience alone, make all transitions ones that were never drawn.
func TestFilesWithoutPriorities(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: 2, Capacity: 20, Window: 30}))
	defer m.Close()
	c := Priorities{Formula: Kaixhin, Alpha: 1, N: 1}
	p := must(NewPrioritised(m, c))
	addEpisodes(t, m, 9)
	p.Flushed()
	p.Update([]int{3}, []float32{7})
	without := must(checkpoint.SaveBytes("run", nil, []checkpoint.Part{m.Part("replay", anyAction)}))
	check(t, loadBoth(m, p, without))
	for i := range m.Len() {
		if got := p.masses.get(p.drawable.leafOf(i)); got != 1 {
			t.Errorf("transition %d: priority %v", i, got)
		}
	}
	p.Update([]int{3}, []float32{7})
	r := must(checkpoint.OpenBytes(without))
	adopt := must(r.Load([]checkpoint.Part{m.Part("replay", anyAction)}))
	adopt()
	panics(t, "replay: a Sampler before Flushed", func() { p.Draw(rng.New(1, "replay", 0), make([]int, 1)) })
	p.Flushed()
	for i := range m.Len() {
		if got := p.masses.get(p.drawable.leafOf(i)); got != 7 {
			t.Errorf("transition %d of experience alone: priority %v", i, got)
		}
	}
	// No experience at all.
	check(t, loadBoth(m, p, must(checkpoint.SaveBytes("run", nil, []checkpoint.Part{{Name: "x", Version: 1, Write: partNamed(p, "x").Write}}))))
	if p.Len() != 0 || p.masses.total() != 0 {
		t.Errorf("%d transitions are left", p.Len())
	}
}

// Errors that wait take effect in the load where priorities are not Deferred, and at the next
// Flushed where they are, as in the run that was saved.
func TestErrorsThatWaitAreLoaded(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: 2, Capacity: 20, Window: 30}))
	defer m.Close()
	c := Priorities{Formula: Kaixhin, Alpha: 1, N: 1, Deferred: true}
	p := must(NewPrioritised(m, c))
	addEpisodes(t, m, 9)
	p.Flushed()
	p.Update([]int{3, 4, 3}, []float32{9, 8, 7})
	file := saveBoth(m, p)
	priorities := func(p *Prioritised) [3]float64 {
		return [3]float64{p.masses.get(p.drawable.leafOf(2)), p.masses.get(p.drawable.leafOf(3)), p.masses.get(p.drawable.leafOf(4))}
	}
	for _, deferred := range []bool{true, false} {
		c.Deferred = deferred
		into := must(NewPrioritised(m, c))
		if deferred {
			into.Update([]int{2}, []float32{5}) // which the load discards
		}
		check(t, loadBoth(m, into, file))
		if got := priorities(into); deferred && got != [3]float64{1, 1, 1} || !deferred && got != [3]float64{1, 7, 8} {
			t.Errorf("deferred %v: %v", deferred, got)
		}
		m.Flush()
		into.Flushed()
		if got := priorities(into); got != [3]float64{1, 7, 8} || into.largest != 8 {
			t.Errorf("deferred %v, flushed: %v, largest %v", deferred, got, into.largest)
		}
	}
}

// Damaged and forged priorities, and those of other settings, are refused, and nothing changes.
func TestForgedPrioritiesAreRefused(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: 2, Capacity: 20, Window: 30}))
	defer m.Close()
	c := Priorities{Formula: Kaixhin, Alpha: 1, N: 3}
	p := must(NewPrioritised(m, c))
	addEpisodes(t, m, 7)
	p.Flushed()
	p.Update([]int{3}, []float32{7})
	var b bytes.Buffer
	check(t, p.save(&b))
	before := saveBoth(m, p)
	const header = 16 + 16 + 8 + 2*8
	at := func(i int) int { return header + 8*i }
	put := func(b []byte, at int, x float64) {
		for i := range 8 {
			b[at+i] = byte(math.Float64bits(x) >> (8 * i))
		}
	}
	contradict := "the priorities contradict the replay memory"
	for i, c := range []struct {
		want   string
		change func(b []byte) []byte
	}{
		{contradict, func(b []byte) []byte { put(b, at(0), -1); return b }},
		{contradict, func(b []byte) []byte { put(b, at(0), math.NaN()); return b }},
		{contradict, func(b []byte) []byte { put(b, at(0), math.Inf(1)); return b }},
		{contradict, func(b []byte) []byte { put(b, at(0), 7.01); return b }},
		{contradict, func(b []byte) []byte { put(b, at(6), 1); return b }}, // is not ripe
		{contradict, func(b []byte) []byte { put(b, 24, 0.5); return b }},  // the largest
		{contradict, func(b []byte) []byte { b[32]++; return append(b, make([]byte, 8)...) }},
		{contradict, func(b []byte) []byte { return b[:len(b)-8] }},
		{contradict, func(b []byte) []byte { return b[:20] }},
		{contradict, func(b []byte) []byte { b[0] = 77; return b }},
		{contradict, func(b []byte) []byte { b[header-1] = 1; return b }}, // a position
		{"prioritized: priorities saved with dopamine, must be kaixhin", func(b []byte) []byte { b[0] = byte(Dopamine); return b }},
		{"distribution: priorities saved from", func(b []byte) []byte { b[4] = 1; return b }},
		{"n_steps: priorities saved with 2, must be 3", func(b []byte) []byte { b[8] = 2; return b }},
		{"n_step_tails: priorities saved with drop, must be keep", func(b []byte) []byte { b[12] = 2; return b }},
		{"priority_alpha: priorities saved with 0, must be 1", func(b []byte) []byte { put(b, 16, 0); return b }},
	} {
		data := c.change(bytes.Clone(b.Bytes()))
		part, _ := p.Part("x")
		if _, err := part.Read(bytes.NewReader(data), int64(len(data))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v, must be ...%s", i, err, c.want)
		}
	}
	deferred := must(NewPrioritised(m, Priorities{Formula: Kaixhin, Alpha: 1, N: 3, Deferred: true}))
	deferred.Update([]int{3, 1, 3}, []float32{6, 5, 7})
	var waiting bytes.Buffer
	check(t, deferred.save(&waiting))
	wait, few := waiting.Len()-2*12, waiting.Len()-12
	for i, change := range []func(b []byte) []byte{
		func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { return append(b, b[wait:]...) },
		func(b []byte) []byte { b[wait] = 3; return b },
		func(b []byte) []byte { b[few] = 6; return b }, // is not ripe
		func(b []byte) []byte { b[few+7] = 1; return b },
		func(b []byte) []byte { b[few+10], b[few+11] = 0x80, 0x7f; return b },
		func(b []byte) []byte { return append(b, make([]byte, 12*m.Len())...) },
	} {
		data := change(bytes.Clone(waiting.Bytes()))
		part, _ := p.Part("x")
		if _, err := part.Read(bytes.NewReader(data), int64(len(data))); err == nil || !strings.Contains(err.Error(), contradict) {
			t.Errorf("errors that wait, %d: %v", i, err)
		}
	}
	if !bytes.Equal(saveBoth(m, p), before) {
		t.Error("a refusal changed something")
	}
	part, _ := p.Part("x")
	_, err := part.Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	check(t, err)
	// The file's memory is another one.
	other := must(New(m.cfg))
	defer other.Close()
	addEpisodes(t, other, 6)
	file := must(checkpoint.SaveBytes("run", nil, []checkpoint.Part{other.Part("replay", anyAction), partNamed(p, "priorities")}))
	if err := loadBoth(m, p, file); err == nil || !strings.Contains(err.Error(), "contradict") {
		t.Error(err)
	}
	if m.loading != nil || !bytes.Equal(saveBoth(m, p), before) {
		t.Error("a refused load changed something")
	}
}

func partNamed(p *Prioritised, name string) checkpoint.Part {
	part, _ := p.Part(name)
	return part
}

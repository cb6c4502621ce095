package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
)

// seen is a learner with Look alone, which reports alive[k] for layer k, and flat.
type seen struct {
	nn.Learner
	alive [][]bool
	flat  bool
	looks int
}

func (s *seen) Look(a *nn.Activity) {
	s.looks++
	for k, units := range s.alive {
		for i, alive := range units {
			a.Layers[k].Alive[i] = a.Layers[k].Alive[i] || alive
		}
	}
	a.Flat = s.flat
}

func newSeen() (*Units, *seen) {
	net := nn.Spec{Obs: env.ObsSpec{Shape: []int{3}}, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{4, 5}}}, Heads: []nn.Head{{Name: "q", Out: 2}}}
	return NewUnits(net), &seen{alive: [][]bool{make([]bool, 4), make([]bool, 5)}}
}

// report returns the shares and the notices.
func report(u *Units) (shares []float64, said []string) {
	var m Metrics
	mon := newMonitor(1)
	u.Metrics(&m, mon)
	for _, x := range m.list {
		shares = append(shares, x.Value)
	}
	return shares, mon.notices
}

// In every run the first 32 updates at and past each multiple of 10,000 steps are checked. The
// shares are those of units that are 0 in all of them.
func TestUnitsAreCheckedPeriodically(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, every := range []int64{1, 7, 400, 25_000} {
		u, l := newSeen()
		obs := []byte{1, 2, 3, 1, 2, 4}
		var want []float64
		var found [2]map[int]bool
		multiple, left := int64(0), 0
		for run := range 2 {
			for step := int64(0); step < 60_000; step += every {
				for k := range l.alive {
					for i := range l.alive[k] {
						l.alive[k][i] = r.IntN(60) == 0
					}
				}
				begins := left == 0 && step/10_000 > multiple
				if left == 0 {
					multiple = step / 10_000
				}
				if begins {
					left, found = 32, [2]map[int]bool{{}, {}}
				}
				before := l.looks
				if run == 0 {
					u.Look(l, step, obs)
				} else {
					u.LookRows(l, step, obs, []int32{0, 1})
				}
				if looked := l.looks > before; looked != (left > 0) {
					t.Fatalf("every %d, run %d, step %d: looked at: %v, %d left", every, run, step, looked, left)
				}
				if left == 0 {
					continue
				}
				for k := range l.alive {
					for i, alive := range l.alive[k] {
						if alive {
							found[k][i] = true
						}
					}
				}
				if left--; left == 0 {
					want = []float64{1 - float64(len(found[0]))/4, 1 - float64(len(found[1]))/5}
				}
				got, _ := report(u)
				if want == nil {
					if len(got) != 2 || !math.IsNaN(got[0]) || !math.IsNaN(got[1]) {
						t.Fatalf("step %d: %v before the first look", step, got)
					}
				} else if math.Abs(got[0]-want[0]) > 1e-12 || math.Abs(got[1]-want[1]) > 1e-12 {
					t.Fatalf("every %d, step %d: %v, want %v", every, step, got, want)
				}
			}
		}
	}
}

// A dead layer and constant outputs are reported once each. Constant outputs of equal observations
// and layers with some dead units are not reported.
func TestUnitsNotifyOnce(t *testing.T) {
	u, l := newSeen()
	step := int64(10_000)
	look := func(obs ...byte) []string {
		for range 32 {
			u.Look(l, step, obs)
		}
		step += 10_000
		_, said := report(u)
		return said
	}
	l.alive[0][1], l.alive[1][4], l.flat = true, true, true
	if said := look(1, 2, 3, 1, 2, 3); said != nil {
		t.Errorf("of equal observations: %q", said)
	}
	l.flat, l.alive[1][4] = false, false
	if said := look(1, 2, 3, 1, 2, 4); len(said) != 1 || !strings.HasPrefix(said[0], "dead units: every unit of q_net.2 is 0") {
		t.Errorf("%q", said)
	}
	l.flat = true
	if said := look(1, 2, 3, 4, 2, 3); len(said) != 1 || !strings.HasPrefix(said[0], "outputs: the same for every observation") {
		t.Errorf("%q", said)
	}
	if said := look(1, 2, 3, 4, 2, 3); said != nil {
		t.Errorf("said twice: %q", said)
	}
	if shares, _ := report(u); !slices.Equal(shares, []float64{0.75, 1}) {
		t.Errorf("%v", shares)
	}
}

// The other stream of a dueling head still feeds the layers below: the notice is true of them.
func TestUnitsOfADeadStream(t *testing.T) {
	u := NewUnits(nn.Spec{Obs: env.ObsSpec{Shape: []int{3}}, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{2, 2}}}, Heads: []nn.Head{{Name: "q", Out: 2, Dueling: true}}})
	l := &seen{alive: [][]bool{{true, true}, {false, false}, {true, true}}}
	for range 32 {
		u.Look(l, 10_000, []byte{1, 2, 3, 1, 2, 4})
	}
	want := "dead units: every unit of q_net.value.0 is 0 on all observations of 32 minibatches, so weights that act only through these units no longer learn; begin anew with a lower learning_rate"
	if shares, said := report(u); !slices.Equal(shares, []float64{0, 1, 0}) || !slices.Equal(said, []string{want}) {
		t.Errorf("%v, %q", shares, said)
	}
}

// Row numbers give the same result as copies of the rows, also for a row of zeros and for row -1.
func TestEqualRowsAreFoundByRowNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	kept := []byte{0, 0, 0, 1, 2, 3, 1, 2, 4, 1, 2, 3, 0, 0, 0}
	found := map[bool]int{}
	for range 500 {
		rows, obs := make([]int32, 1+r.IntN(3)), []byte{}
		for i := range rows {
			rows[i] = int32(r.IntN(6)) - 1
			if rows[i] < 0 {
				obs = append(obs, 0, 0, 0)
			} else {
				obs = append(obs, kept[3*rows[i]:3*rows[i]+3]...)
			}
		}
		want := allEqual(obs, 3)
		if found[want]++; allEqualRows(kept, 3, rows) != want {
			t.Fatalf("rows %v of %v: not %v", rows, kept, want)
		}
	}
	if found[true] < 50 || found[false] < 50 {
		t.Errorf("%v: the test shows little", found)
	}
}

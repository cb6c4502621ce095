package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/threads"
)

func newTeam(t testing.TB, n int) *Team {
	t.Helper()
	team, err := NewTeam(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(team.Close)
	return team
}

func TestTeamSizeIsChecked(t *testing.T) {
	for _, n := range []int{-1, 0, threads.Max + 1} {
		if _, err := NewTeam(n, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("threads: %d, must be 1 to 1024", n)) {
			t.Errorf("NewTeam(%d): %v", n, err)
		}
	}
	var none *Team
	if none.Threads() != 1 || newTeam(t, 3).Threads() != 3 {
		t.Error("wrong number of threads")
	}
	none.Close()
}

// teamWork is calls with enough work for every helper.
type teamWork struct {
	conv   []*convCase
	dense  []*denseCase
	arrays map[string][]float32
	guards *arena
}

// newTeamWork has shapes around the sizes at which calls are cut: images of a part and of a block,
// panels of 32, 65,536 elements.
func newTeamWork(p Precision) *teamWork {
	r := rand.New(rand.NewPCG(41, 42))
	w := &teamWork{guards: updateArrays(200_001)}
	w.arrays = w.guards.slices(200_001)
	for i, n := range []int{1, 3, 8, 9, 33} {
		c := bitShapes[i]
		c.OutC += 31 * i
		w.conv = append(w.conv, newConvData(n, c, r).with(i%2 == 0, i/2%2 == 0, p))
	}
	for _, d := range []Dense{{In: 200, Out: 97, ReLU: true}, {In: 33, Out: 600}, {In: 31, Out: 3}, {In: 600, Out: 97, Tiled: true}} {
		d.Precision = p
		w.dense = append(w.dense, newDenseCase(33, d, r))
	}
	return w
}

// run computes everything with a team and returns the results.
func (w *teamWork) run(t *testing.T, team *Team) map[string][]float32 {
	all := map[string][]float32{}
	for i, k := range w.conv {
		k.reset(k.c.Precision)
		k.on(team).run()
		k.a.check(t)
		for name, s := range k.results() {
			all[fmt.Sprintf("%s %d", name, i)] = s
		}
	}
	for i, k := range w.dense {
		k = k.fresh().on(team)
		k.run()
		k.a.check(t)
		for name, s := range map[string][]float32{"out": k.out, "dw": k.dw, "db": k.db, "dx": k.dx} {
			all[fmt.Sprintf("dense %s %d", name, i)] = s
		}
	}
	a := newArena()
	var s [4][]float32
	for i, name := range []string{"theta", "grad", "s1", "s2"} {
		s[i] = a.copied(name, w.arrays[name])
		all[name] = s[i]
	}
	RMSProp(team, s[0], s[1], 1, s[2], s[3], 0.01, 0.95, 0.01, true, true)
	Adam(team, s[0], s[1], 1, s[2], s[3], 0.01, 0.9, 0.999, 1e-8, 1)
	RAdam(team, s[0], s[1], 1, s[2], s[3], 0.01, 0.9, 0.999, 1e-8, 9)
	AdaGrad(team, s[0], s[1], 1, s[3], 0.01, 1e-10)
	Average(team, s[2], s[1], 0.3)
	all["sum of squares"] = []float32{float32(SumSquares(team, s[0]))}
	a.check(t)
	return all
}

// The bits depend neither on the number of threads nor on the number of free cores.
func TestTeamsGiveTheSameBits(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		if ISA() == "go" {
			t.Skip("the Go path computes on the calling thread")
		}
		w := newTeamWork(p)
		want := w.run(t, nil)
		same := func(team *Team, setup string) {
			for name, s := range w.run(t, team) {
				sameBits(t, setup+": "+name, s, want[name])
			}
		}
		for _, n := range []int{1, 2, 3, 5} {
			same(newTeam(t, n), fmt.Sprintf("%d threads", n))
		}
		for cores := 1; cores <= 3; cores++ {
			budget, err := threads.NewBudget(cores)
			if err != nil {
				t.Fatal(err)
			}
			team, err := NewTeam(3, budget)
			if err != nil {
				t.Fatal(err)
			}
			budget.Acquire()
			same(team, fmt.Sprintf("%d cores", cores))
			budget.Release(1)
			if left := budget.TryAcquire(10); left != cores {
				t.Errorf("%d of %d cores are free after the calls", left, cores)
			}
			team.Close()
		}
	})
}

// A call gets one helper per free core, and fewer helpers than parts.
func TestHelpersTakeFreeCores(t *testing.T) {
	budget, err := threads.NewBudget(4)
	if err != nil {
		t.Fatal(err)
	}
	team, err := NewTeam(3, budget)
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	for taken := 1; taken <= 4; taken++ {
		budget.Acquire()
		for parts := 1; parts <= 5; parts++ {
			helpers, want := team.begin(parts), min(2, parts-1, 4-taken)
			if helpers != want {
				t.Errorf("%d cores taken, %d parts: %d helpers, want %d", taken, parts, helpers, want)
			}
			team.end(helpers)
		}
	}
}

func TestMisuseOfTeamsPanics(t *testing.T) {
	panics := func(misuse string, f func()) {
		t.Helper()
		defer func() {
			if r, _ := recover().(string); !strings.Contains(r, "closed, or in another call") {
				t.Errorf("%s: panic %q", misuse, r)
			}
		}()
		f()
	}
	team := newTeam(t, 2)
	helpers := team.begin(2)
	panics("a call in a call", func() { team.begin(2) })
	panics("Close in a call", team.Close)
	team.end(helpers)
	team.Close()
	team.Close()
	panics("a call after Close", func() { team.begin(2) })
}

// Many teams run many short calls concurrently, with pauses around the time after which helpers
// sleep, and are closed while others work. Every result is that of one thread, and all calls
// return.
func TestConcurrentTeamsUnderLoad(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	const n = 300_000 // five parts
	x := randomFloats(n, rand.New(rand.NewPCG(51, 52)))
	want := SumSquares(nil, x)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(53, uint64(g)))
			mine := append([]float32(nil), x[:70_000]...)
			for round := 0; round < rounds; {
				team, err := NewTeam(1+r.IntN(6), nil)
				if err != nil {
					t.Error(err)
					return
				}
				for range r.IntN(100) {
					round++
					if r.IntN(4) == 0 {
						Average(team, mine, x[:], 0.5)
					} else if got := SumSquares(team, x[:]); got != want {
						t.Errorf("%v, want %v", got, want)
					}
					switch r.IntN(8) {
					case 0:
						time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
					case 1:
						runtime.Gosched()
					}
				}
				team.Close()
			}
		})
	}
	all.Wait()
}

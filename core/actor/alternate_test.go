package actor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// slowNetwork sleeps for a time per row in each Forward.
type slowNetwork struct {
	nn.Network
	row    time.Duration
	before func()
}

func (s slowNetwork) Forward(p *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	s.before()
	time.Sleep(time.Duration(rows) * s.row)
	return s.Network.Forward(p, obs, rows)
}

// Eight environments wait in their steps for as long as acting in all of them takes, on one core.
// Of two halves, one acts while the other steps; an undivided group does not act during its steps.
func TestOneGroupActsWhileTheOtherSteps(t *testing.T) {
	const w, rounds = 8, 10
	for _, halves := range []int{1, 2} {
		x, together := makeTrial(t, w, 1, kind{waits: true, halves: halves}), 0
		var steps inside
		for _, walk := range x.walks {
			walk.BeforeStep = func() error {
				steps.enter()
				defer steps.leave()
				time.Sleep(nap)
				return nil
			}
		}
		c := x.config
		c.Joint = slowNetwork{c.Joint, nap / w, func() {
			if steps.now.Load() > 0 {
				together++
			}
		}}
		g := must(actor.New(c))(t)
		check(t, g.Reset())
		for k := range rounds {
			ran := must(g.Round(int64(k*w), half(), k < rounds-1))(t)
			if ran.Taken != w || g.InRound() != (halves == 2 && k < rounds-1) {
				t.Errorf("%d halves, round %d: %+v, in a round: %v", halves, k, ran, g.InRound())
			}
		}
		if halves == 1 && together > 0 || halves == 2 && together < rounds/2 {
			t.Errorf("%d halves acted %d times in %d rounds while steps waited", halves, together, rounds)
		}
		g.Close()
		coresLeft(t, c.Cores, 0) // the caller has the core
	}
}

// Between two rounds the first group takes its steps of the next round without recording them. The
// caller records the steps that are done by then; threads record the others.
func TestEarlyStepsAreRecordedInTheirRound(t *testing.T) {
	const w, rounds = 6, 12
	var want journal
	for _, c := range []struct {
		halves        int
		step, between time.Duration
	}{{1, 0, 0}, {2, 0, nap}, {2, nap / 4, 0}} {
		x := makeTrial(t, w, 2, kind{halves: c.halves})
		for _, walk := range x.walks {
			walk.BeforeStep = func() error {
				time.Sleep(c.step)
				return nil
			}
		}
		check(t, x.Reset())
		for k := range int64(rounds) {
			ran := must(x.Round(k*w, half(), k < rounds-1))(t)
			time.Sleep(c.between)
			if got := x.journal.steps(); ran.Taken != w || got != (k+1)*w {
				t.Errorf("%+v, round %d: %d steps, %d recorded in all", c, k, ran.Taken, got)
			}
		}
		if want == nil {
			want = x.journal
		}
		differ(t, "two halves", x.journal, want)
	}
}

// If an environment of either group fails, the other environments finish the round in progress, and
// every step that was taken is recorded.
func TestFailuresInTwoGroupsLoseNoStep(t *testing.T) {
	for _, waits := range []bool{false, true} {
		for _, failing := range []int{1, 4} {
			for _, how := range []string{"error", "panic"} {
				x := makeTrial(t, 6, 2, kind{waits: waits, halves: 2})
				calls := 0
				x.walks[failing].BeforeStep = func() error {
					switch calls++; {
					case calls%5 != 0:
						return nil
					case how == "panic":
						panic("division by zero")
					}
					return traintest.ErrSimulator
				}
				check(t, x.Reset())
				taken, failed, ahead := int64(0), 0, 0
				for taken < 300 || x.InRound() {
					ran, err := x.Round(taken, half(), taken < 290)
					if taken += ran.Taken; err == nil {
						continue
					}
					failed++
					for x.InRound() { // the caller must finish the round
						ahead++
						again, err := x.Round(taken, half(), false)
						check(t, err)
						if taken += again.Taken; again.Taken != 5 || again.Asked != 5 {
							t.Errorf("%+v, want the steps of all but one", again)
						}
					}
					check(t, x.Repair())
					coresLeft(t, x.config.Cores, 1)
				}
				made := int64(0)
				for _, walk := range x.walks {
					made += walk.Taken.Load()
				}
				if failed < 8 || x.journal.steps() != made || taken != made {
					t.Errorf("environment %d, waits %v, %s: %d failures; %d steps recorded, %d counted, the environments took %d", failing, waits, how, failed, x.journal.steps(), taken, made)
				}
				if (ahead > 0) != (failing == 4) {
					t.Errorf("environment %d: %d rounds were in progress at a failure", failing, ahead)
				}
			}
		}
	}
}

// After an error of the network, every step that was taken is recorded.
func TestNetworkErrorsInTwoGroupsLoseNoStep(t *testing.T) {
	x := makeTrial(t, 6, 2, kind{halves: 2})
	c := x.config
	broken := &brokenNetwork{Network: c.Joint}
	c.Joint = broken
	g := must(actor.New(c))(t)
	defer g.Close()
	check(t, g.Reset())
	for k := range 40 {
		broken.at = 1 + k%4
		before := x.journal.steps()
		var made int64
		var err error
		for anotherFollows := true; err == nil; {
			var ran actor.Ran
			ran, err = g.Round(0, half(), anotherFollows)
			made += ran.Taken
		}
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		for g.InRound() {
			ran := must(g.Round(0, half(), false))(t)
			made += ran.Taken
		}
		if got := x.journal.steps() - before; got != made {
			t.Errorf("call %d: %d steps recorded, %d counted", broken.at, got, made)
		}
	}
}

var errBroken = errors.New("the network is broken")

type brokenNetwork struct {
	nn.Network
	at int // the number of the call that fails, counted from now
}

func (b *brokenNetwork) Forward(p *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	if b.at--; b.at == 0 {
		return nn.Outputs{}, errBroken
	}
	return b.Network.Forward(p, obs, rows)
}

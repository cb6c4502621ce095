package atari

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// After Seed the episodes do not depend on earlier episodes, nor on the environment. Different
// seeds give different episodes.
func TestSeedStartsOver(t *testing.T) {
	for _, options := range manyRecipes {
		p, fresh := newTrial(t, options), newTrial(t, options)
		episode := func(p *trial, seed uint64) []byte {
			p.Seed(seed)
			p.reset()
			return append(slices.Clone(p.obs), p.random(rng.New(1, "explore", 0), 120)...)
		}
		want := episode(fresh, 5)
		p.random(rng.New(2, "explore", 0), 77)
		p.Seed(9)
		for what, got := range map[string][]byte{"": episode(p, 5), ", twice": episode(p, 5)} {
			if !bytes.Equal(got, want) {
				t.Errorf("%s%s: equal seeds, different futures", options, what)
			}
		}
		// One of a few seeds gives a different episode, if the recipe draws anything.
		differs := false
		for seed := range uint64(5) {
			differs = differs || !bytes.Equal(episode(p, seed), want)
		}
		if random := options != `{"continuous": true}`; differs != random {
			t.Errorf("%s: seeds differ: %v", options, differs)
		}
		// Without a new seed the next game differs, because RAM survives.
		p.Seed(5)
		p.reset()
		first := slices.Clone(p.obs)
		for range 20 {
			p.reset()
		}
		if bytes.Equal(p.obs, first) && p.recipe.Reset == "ale" {
			t.Errorf("%s: the first and the 21st game start with the same observation", options)
		}
	}
}

// A restored environment goes on with the same bits, in every phase of an episode.
func TestEnvSaveRestore(t *testing.T) {
	for _, options := range manyRecipes {
		phases := map[string]bool{}
		p, actions := newTrial(t, options), rng.New(4, "explore", 0)
		p.Seed(3)
		for k := range 260 {
			switch {
			case k%90 == 89:
				p.Seed(uint64(k)) // the state has a seed for the next reset
			case k > 0 && !p.running:
				p.reset()
			case k > 0:
				p.random(actions, 1)
			}
			phase := fmt.Sprintf("running %v, life over %v, first %v, seed %v, over %v", p.running, p.lifeOver, p.atStart, p.seed != nil, p.gameOver())
			if phases[phase] && (k%20 != 0 || testing.Short()) {
				continue
			}
			phases[phase] = true
			saved, err := p.Save()
			if err != nil {
				t.Fatal(err)
			}
			q := newTrial(t, options)
			q.Seed(8)
			q.random(rng.New(5, "explore", 0), k%70)
			if err := q.Restore(saved); err != nil {
				t.Fatal(err)
			}
			if again, err := q.Save(); err != nil || !bytes.Equal(again, saved) {
				t.Fatalf("%s, %s: saved again, the state differs, %v", options, phase, err)
			}
			if q.running {
				shown := make([]byte, len(p.obs))
				if q.Observe(shown); !bytes.Equal(shown, p.obs) {
					t.Errorf("%s, %s: the observation differs", options, phase)
				}
			}
			r := newTrial(t, options) // replaces p
			if err := r.Restore(saved); err != nil {
				t.Fatal(err)
			}
			want := p.random(rng.New(6, "explore", k), 60)
			if got := q.random(rng.New(6, "explore", k), 60); !bytes.Equal(got, want) {
				t.Errorf("%s, %s: the restored environment goes on differently", options, phase)
			}
			copy(r.obs, p.obs)
			if r.running {
				r.Observe(r.obs)
			}
			p = r
		}
		if len(phases) < 4 {
			t.Errorf("%s: only the phases %v", options, phases)
		}
	}
}

// Advance and any number of Observes equal Step.
func TestAdvanceAndObserveEqualStep(t *testing.T) {
	for _, options := range manyRecipes {
		p, q := newTrial(t, options), newTrial(t, options)
		actions := rng.New(4, "explore", 0)
		for range 200 {
			if !p.running {
				p.reset()
				q.reset()
			} else {
				action := int32(actions.Intn(10))
				p.step(action)
				var box []float32
				if q.Spec().Action.N == 0 {
					box = []float32{1, float32(action)/3 - math.Pi, float32(action % 2)}
				}
				reward, end, err := q.Advance([]int32{action}, box)
				if err != nil {
					t.Fatal(err)
				}
				q.reward, q.end = reward, end
				q.Inform(q.infos, 0)
				clear(q.obs)
				elsewhere := make([]byte, len(q.obs))
				q.Observe(elsewhere)
				q.Observe(q.obs)
				if !bytes.Equal(elsewhere, q.obs) {
					t.Fatalf("%s: a second Observe writes a different observation", options)
				}
			}
			if p.report() != q.report() || !bytes.Equal(p.obs, q.obs) {
				t.Fatalf("%s: %s and %s", options, p.report(), q.report())
			}
		}
	}
	p := newTrial(t, "")
	if _, _, err := p.Advance([]int32{0}, nil); err != errNotActive {
		t.Errorf("before the first reset: %v", err)
	}
}

// After Evaluate episodes are whole games and rewards are not clipped. The next episode is a new
// game.
func TestEvaluatePlaysWholeGames(t *testing.T) {
	for _, options := range []string{`{"recipe": "mnih2015"}`, `{"life_loss_info": true}`} {
		p := newTrial(t, options)
		p.reset()
		for p.end == 0 {
			p.step(leftA)
		}
		p.Evaluate()
		p.reset()
		if p.info("lives") != 3 {
			t.Errorf("%s: starts with %d lives", options, p.info("lives"))
		}
		if p.step(rightA); p.reward != 4 {
			t.Errorf("%s: reward %v for 4 points", options, p.reward)
		}
		for range 2 {
			for lives := p.info("lives"); p.info("lives") == lives; {
				if p.end != 0 {
					t.Fatalf("%s: %s", options, p.report())
				}
				p.step(leftA)
			}
		}
		for p.end == 0 {
			p.step(leftA)
		}
		if p.end != env.Terminated || p.info("game_over") != 1 {
			t.Errorf("%s: %s", options, p.report())
		}
	}
}

// With cached resets a game starts at one of the 30 stored states, which the seed selects, without
// further frames. After the loss of a life the game continues as with other resets.
func TestCachedResetsStartAtStoredStates(t *testing.T) {
	p := newTrial(t, `{"reset": "cached", "noop_min": 500, "noop_max": 900, "start_actions": true}`)
	states, err := startsOf(startKey{p.console.rom, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	rams := map[[128]byte]bool{}
	for i := range states {
		rams[*states[i].machine.ram()] = true
	}
	seen := map[[128]byte]bool{}
	for range 300 {
		p.reset()
		ram := *p.console.RAM()
		if !rams[ram] {
			t.Fatal("a game did not start at a stored state")
		}
		seen[ram] = true
		p.random(rng.New(1, "explore", 0), 3)
	}
	if len(seen) != len(rams) {
		t.Errorf("300 resets used %d of %d stored states", len(seen), len(rams))
	}
	p = newTrial(t, `{"reset": "cached", "episodic_life": true, "noop_min": 9, "noop_max": 10, "use_fire_reset": false}`)
	p.reset()
	if p.info("episode_frame_number") != 0 {
		t.Error(p.report())
	}
	for p.end == 0 {
		p.step(leftA)
	}
	p.reset()
	if p.report() != "reward 0, end 0, lives 2, raw 0, over 0, frame 21 of 21" {
		t.Error(p.report())
	}
}

// The machine's inputs show the effect of a continuous action.
func TestContinuousActions(t *testing.T) {
	p := newTrial(t, `{"continuous": true}`)
	p.reset()
	for _, c := range []struct {
		box            []float32
		sticks, button byte
	}{
		{[]float32{0, 0, 0}, 0xFF, 0x80},
		{[]float32{1, 0, 1}, 0x7F, 0},
		{[]float32{1, math.Pi / 4, 0}, 0x6F, 0x80},
		{[]float32{1, -3 * math.Pi / 4, 0.5}, 0x9F, 0x80},
		{[]float32{0.5, 0, 0.51}, 0xFF, 0},
	} {
		if _, _, err := p.StepAction(nil, c.box, p.obs); err != nil {
			t.Fatal(err)
		}
		ram := p.console.RAM()
		if ram[seenSticks] != c.sticks || ram[seenButton]&0x80 != c.button {
			t.Errorf("%v: sticks %#x, button %#x; must be %#x and %#x", c.box, ram[seenSticks], ram[seenButton]&0x80, c.sticks, c.button)
		}
	}
	// The radius scales the turn of a paddle.
	paddles, err := NewEnv(newROM(t, "pong", paddleImage()), parse(t, `{"continuous": true, "continuous_action_threshold": 0.1}`))
	if err != nil {
		t.Fatal(err)
	}
	obs := make([]byte, paddles.Spec().Obs.Bytes())
	if err := paddles.Reset(obs); err != nil {
		t.Fatal(err)
	}
	for _, radius := range []float32{0.25, 0.5, 1} {
		before := paddles.console.paddle[0]
		if _, _, err := paddles.StepAction(nil, []float32{radius, 0, 0}, obs); err != nil {
			t.Fatal(err)
		}
		if turned := before - paddles.console.paddle[0]; turned != 4*int(radius*paddleStep) {
			t.Errorf("radius %v turns the paddle by %d", radius, turned)
		}
	}
}

// full_action_space gives all 18 actions, and ram_info adds RAM to the infos.
func TestActionsAndRAM(t *testing.T) {
	p := newTrial(t, `{"full_action_space": true, "ram_info": true}`)
	if specs := p.Infos(); len(specs) != 6 || specs[5] != (env.InfoSpec{Name: "ram", DType: env.Uint8, Len: 128}) {
		t.Errorf("%v", specs)
	}
	p.reset()
	for a := range int32(games.NumActions) {
		p.step(a)
		want := ^byte(parts(games.Action(a)) & (up | down | left | right) << 4)
		if ram := p.infos[5]; ram[seenSticks] != want || ram[seenButton]&0x80 == 0 != (parts(games.Action(a))&fire != 0) {
			t.Errorf("action %d: sticks %#x, must be %#x; button %#x", a, ram[seenSticks], want, ram[seenButton])
		}
		if p.end.Over() {
			p.reset()
		}
	}
	q := newTrial(t, `{"obs_type": "ram", "stack_num": 2, "ram_info": true}`)
	q.reset()
	if !bytes.Equal(q.obs[:128], make([]byte, 128)) || !bytes.Equal(q.obs[128:], q.infos[5]) {
		t.Error("the first observation of RAM is wrong")
	}
	last := slices.Clone(q.infos[5])
	q.step(rightA)
	if !bytes.Equal(q.obs[:128], last) || !bytes.Equal(q.obs[128:], q.infos[5]) {
		t.Error("the second observation of RAM is wrong")
	}
	// Inform changes only its own row of each column.
	two := [][]byte{make([]byte, 12), make([]byte, 12), make([]byte, 3), make([]byte, 12), make([]byte, 12), make([]byte, 384)}
	for _, c := range two {
		for k := range c {
			c[k] = 0xEE
		}
	}
	q.Inform(two, 1)
	for k, c := range two {
		size := len(c) / 3
		if !bytes.Equal(c[size:2*size], q.infos[k]) || bytes.Count(c[:size], []byte{0xEE}) != size || bytes.Count(c[2*size:], []byte{0xEE}) != size {
			t.Errorf("column %d: %x", k, c)
		}
	}
}

// After Restart a reset starts a new game, for every recipe and after every end of an episode.
func TestRestartStartsANewGame(t *testing.T) {
	for _, recipe := range []string{"ale", "mnih2015", "stooke_abbeel", "sb3"} {
		p := newTrial(t, fmt.Sprintf(`{"recipe": %q, "episodic_life": true, "use_fire_reset": false}`, recipe))
		for _, restart := range []bool{false, true} {
			p.Seed(1)
			p.reset()
			for p.running {
				p.step(leftA)
			}
			if p.info("lives") != 2 || p.info("game_over") != 0 {
				t.Fatalf("%s: %s, want a lost life", recipe, p.report())
			}
			want := 2
			if restart {
				p.Restart()
				want = 3
			}
			if p.reset(); p.info("lives") != want {
				t.Errorf("%s, restart %v: starts with %d lives", recipe, restart, p.info("lives"))
			}
		}
	}
}

package atari

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// The numbers of Amidar's actions that livesImage uses.
const (
	rightA = 3
	leftA  = 4
	downA  = 5
)

// trial plays an environment and keeps the latest results.
type trial struct {
	*Env
	t      *testing.T
	obs    []byte
	infos  [][]byte
	reward float32
	end    env.End
}

func newTrial(t *testing.T, options string) *trial {
	t.Helper()
	e, err := NewEnv(newROM(t, "amidar", livesImage()), parse(t, options))
	if err != nil {
		t.Fatal(err)
	}
	p := &trial{Env: e, t: t, obs: make([]byte, e.Spec().Obs.Bytes())}
	for _, s := range e.Infos() {
		p.infos = append(p.infos, make([]byte, s.Bytes()))
	}
	return p
}

func (p *trial) reset() {
	p.t.Helper()
	if err := p.Reset(p.obs); err != nil {
		p.t.Fatal(err)
	}
	p.reward, p.end = 0, 0
	p.Inform(p.infos, 0)
}

func (p *trial) step(action int32) {
	p.t.Helper()
	var err error
	if p.Spec().Action.N > 0 {
		p.reward, p.end, err = p.Step(action, p.obs)
	} else {
		box := []float32{1, float32(action)/3 - math.Pi, float32(action % 2)}
		p.reward, p.end, err = p.StepAction(nil, box, p.obs)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.Inform(p.infos, 0)
}

func (p *trial) info(name string) int {
	for k, s := range p.Infos() {
		if s.Name != name {
			continue
		}
		if s.DType == env.Int32 {
			return int(int32(binary.NativeEndian.Uint32(p.infos[k])))
		}
		return int(p.infos[k][0])
	}
	p.t.Fatalf("no info %q", name)
	return 0
}

// report returns the results other than observations, as text.
func (p *trial) report() string {
	return fmt.Sprintf("reward %v, end %d, lives %d, raw %d, over %d, frame %d of %d", p.reward, p.end,
		p.info("lives"), p.info("raw_reward"), p.info("game_over"), p.info("episode_frame_number"), p.info("frame_number"))
}

// random plays a number of random steps, resets after ends, and returns all results.
func (p *trial) random(actions *rng.Stream, steps int) (record []byte) {
	p.t.Helper()
	n := p.Spec().Action.N
	if n == 0 {
		n = 18
	}
	for range steps {
		if action := int32(actions.Intn(n)); p.running {
			p.step(action)
		} else {
			p.reset()
		}
		record = append(append(record, p.report()...), p.obs...)
	}
	return record
}

// manyRecipes are options that cover most settings of recipes.
var manyRecipes = []string{
	``, `{"recipe": "mnih2015"}`, `{"recipe": "machado2018"}`, `{"recipe": "dopamine"}`, `{"recipe": "stooke_abbeel"}`, `{"recipe": "sb3"}`,
	`{"reset": "cached", "episodic_life": true}`, `{"obs_type": "rgb", "life_loss_info": true, "max_episode_frames": 91}`,
	`{"obs_type": "ram", "recipe": "mnih2015", "ram_info": true, "repeat_action_probability": 0.5}`,
	`{"frameskip": 1, "stack_num": 1, "episodic_life": true}`, `{"continuous": true, "frameskip": 3, "maxpool": false}`,
	`{"reset": "cached", "recipe": "machado2018", "max_episode_frames": 101}`,
}

// goldenFrames are the hashes of 200 observations of each recipe on the tests' cartridges. They may
// change only if a recipe changes. Python tests compare observations with ale-py and OpenCV.
var goldenFrames = map[string]string{
	"tetris ale":               "b5a0fba5ae34ba280cd6c3b751cf90369e71c87f900caf3fcd11a66951b10bff",
	"tetris dopamine":          "84f383cfb1bf941a74d36d909654a6e2813c0adcdc54a8c4b8f284f31b4d390d",
	"tetris machado2018":       "1b158555d9d0dc9f62ab0240aeaa36a8a8c8137ac7b69a9c44efd40274e7de7e",
	"tetris mnih2015":          "0db7b8385a99e4035261d5d2aea1b8fa3b21d88410259f68e593e46e0011fea0",
	"tetris sb3":               "811ecf22e2a2c53a6a68fd0e71f7dcefaef06b23ccd785a18d1b68c18c4267e3",
	"tetris stooke_abbeel":     "58f8b07221c917028b39b7e115c2f0af72634a50f76a90d2ee005f5526ed4608",
	"amidar ale":               "3cef5ca65fac75039a6f5fbc4a28ac472b5196018d861b575ea8dd3a20b577b8",
	"amidar dopamine":          "6048a0a9d6399250b1cae38f5fa5963af912d2e15794dca1aa8e1755394c7e7b",
	"amidar machado2018":       "99f5e524b0e618b639375afec80f9d05733c0244a86a0042603a734d97581898",
	"amidar mnih2015":          "52771a9b832995e171b2b23ef619790507abddb16fe72ac5cf885517666d3651",
	"amidar sb3":               "2a6173cfc174264881419882fc0a576997bde7e8b6f7428b0d2b0b71ede92966",
	"amidar stooke_abbeel":     "775a96a77c8c1cffb21772f2ddb02c30a09fba723a4f8f4a79cbba10b419fad4",
	"amidar pal ale":           "cb4ba7bba5627e95008c833039b925278ce001c8efa63fe8316dcc7085ea9dfe",
	"amidar pal dopamine":      "a38fae776168245f9aa04251f5a8c311e1845811f00113712d58e594efbbe5e5",
	"amidar pal machado2018":   "3aab7946c9dbbf00e2ee0d128e1392beb857e5538772cd98f609bfce59d56567",
	"amidar pal mnih2015":      "f9fdffcd292392591c48d280c8eb23a7d88fdbe281547481a5622c406c867bbb",
	"amidar pal sb3":           "3766365ec9fdadd936659afe3bcbec4de3d3994420d314131648d7bbaeb5765f",
	"amidar pal stooke_abbeel": "9eddb4e37ca669152063e3c7e6b966473e052d90ce8317ce13da675ca29c4439",
}

func TestFramesEqualGoldenHashes(t *testing.T) {
	for _, cartridge := range []struct {
		game  string
		image []byte
	}{{"tetris", tetrisImage()}, {"amidar", livesImage()}, {"amidar pal", palImage()}} {
		game, _, _ := strings.Cut(cartridge.game, " ")
		rom := newROM(t, game, cartridge.image)
		for _, recipe := range RecipeNames() {
			e, err := NewEnv(rom, parse(t, fmt.Sprintf(`{"recipe": %q}`, recipe)))
			if err != nil {
				t.Fatal(err)
			}
			e.Seed(1)
			obs, actions, sum := make([]byte, e.Spec().Obs.Bytes()), rng.New(1, "explore", 0), sha256.New()
			for range 200 {
				if !e.running {
					err = e.Reset(obs)
				} else {
					_, _, err = e.Step(int32(actions.Intn(e.Spec().Action.N)), obs)
				}
				if err != nil {
					t.Fatal(err)
				}
				sum.Write(obs)
			}
			what := cartridge.game + " " + recipe
			if got := hex.EncodeToString(sum.Sum(nil)); got != goldenFrames[what] {
				t.Errorf("%q: %q, must be %q", what, got, goldenFrames[what])
			}
		}
	}
}

// The number of frames before the first observation takes all values that the recipe allows, and no
// other.
func TestStartsHaveTheRightFrames(t *testing.T) {
	for _, c := range []struct {
		options   string
		from, to  int
		buttonsAt string // the last three frames: f for FIRE, u for UP, - for neither
	}{
		{``, 1, 29, ""},
		{`{"noop_max": 1}`, 1, 1, "--f"},
		{`{"noop_max": 0}`, 1, 1, "--f"},
		{`{"noop_min": 3, "noop_max": 4}`, 3, 3, "f--"},
		{`{"noop_min": 2, "noop_max": 5, "use_fire_reset": false}`, 2, 4, "---"},
		{`{"noop_min": 40, "use_fire_reset": false}`, 40, 40, "---"},
		{`{"recipe": "machado2018"}`, 0, 0, "---"},
		{`{"recipe": "dopamine"}`, 0, 0, "---"},
		{`{"recipe": "mnih2015"}`, 2, 31, "---"},
		{`{"recipe": "sb3"}`, 1 + 8, 30 + 8, "uuu"}, // FIRE and UP take an act each
		{`{"recipe": "sb3", "noop_min": 7, "noop_max": 8, "use_fire_reset": false}`, 7, 7, "---"},
		{`{"recipe": "stooke_abbeel"}`, 3, 33, "-fu"},
		{`{"recipe": "stooke_abbeel", "noop_min": 0, "noop_max": 1}`, 3, 3, "-fu"},
	} {
		p := newTrial(t, c.options)
		seen := map[int]bool{}
		for seed := range uint64(300) {
			p.Seed(seed)
			p.reset()
			seen[p.info("episode_frame_number")] = true
			var pressed string
			for k := range byte(3) {
				ram := p.console.RAM()
				at := (ram[logged] - 2 + k) % 32
				switch {
				case ram[buttonOf+at]&0x80 == 0:
					pressed += "f"
				case ram[sticksOf+at]&0x10 == 0:
					pressed += "u"
				default:
					pressed += "-"
				}
			}
			if c.buttonsAt != "" && pressed != c.buttonsAt {
				t.Errorf("%s: pressed %s, must be %s", c.options, pressed, c.buttonsAt)
				break
			}
		}
		for n := range 50 {
			if seen[n] != (n >= c.from && n <= c.to) {
				t.Errorf("%s: %d frames: %v; must be %d to %d", c.options, n, seen[n], c.from, c.to)
			}
		}
	}
	// Tetris has FIRE but not UP.
	e := newEnv(t, `{"recipe": "stooke_abbeel", "noop_min": 0, "noop_max": 1}`)
	if err := e.Reset(make([]byte, e.Spec().Obs.Bytes())); err != nil || e.console.EpisodeFrameNumber() != 2 {
		t.Errorf("Tetris starts after %d frames, %v", e.console.EpisodeFrameNumber(), err)
	}
}

// The recipe decides the effect of the loss of a life. The game continues in every recipe.
func TestLostLives(t *testing.T) {
	for options, want := range map[string][]string{
		`{"noop_max": 0, "use_fire_reset": false}`: {
			"reward 0, end 0, lives 2, raw 0, over 0, frame 12 of 12",
			"reward 0, end 0, lives 1, raw 0, over 0, frame 20 of 20",
			"reward 0, end 1, lives 0, raw 0, over 1, frame 30 of 30",
			"reward 0, end 0, lives 3, raw 0, over 0, frame 0 of 30",
		},
		`{"noop_max": 0, "use_fire_reset": false, "life_loss_info": true}`: {
			"reward 0, end 4, lives 2, raw 0, over 0, frame 12 of 12",
			"reward 0, end 4, lives 1, raw 0, over 0, frame 20 of 20",
			"reward 0, end 1, lives 0, raw 0, over 1, frame 30 of 30",
			"reward 0, end 0, lives 3, raw 0, over 0, frame 0 of 30",
		},
		// NOOP frames follow each life.
		`{"recipe": "mnih2015", "noop_min": 5, "noop_max": 6}`: {
			"reward 0, end 1, lives 2, raw 0, over 0, frame 17 of 17",
			"reward 0, end 0, lives 2, raw 0, over 0, frame 22 of 22",
			"reward 0, end 1, lives 1, raw 0, over 0, frame 30 of 30",
			"reward 0, end 0, lives 1, raw 0, over 0, frame 35 of 35",
			"reward 0, end 1, lives 0, raw 0, over 1, frame 45 of 45",
			"reward 0, end 0, lives 3, raw 0, over 0, frame 5 of 50",
		},
		// NOOP, FIRE and UP follow a life, without other NOOP frames.
		`{"recipe": "stooke_abbeel", "noop_min": 9, "noop_max": 10}`: {
			"reward 0, end 1, lives 2, raw 0, over 0, frame 24 of 24",
			"reward 0, end 0, lives 2, raw 0, over 0, frame 27 of 27",
			"reward 0, end 1, lives 1, raw 0, over 0, frame 35 of 35",
			"reward 0, end 0, lives 1, raw 0, over 0, frame 38 of 38",
			"reward 0, end 1, lives 0, raw 0, over 1, frame 48 of 48",
			"reward 0, end 0, lives 3, raw 0, over 0, frame 12 of 60",
		},
		// A life starts with an act each of FIRE and UP. In a game that continues, an act of NOOP
		// comes first.
		`{"recipe": "sb3", "noop_min": 5, "noop_max": 6}`: {
			"reward 0, end 1, lives 2, raw 0, over 0, frame 25 of 25",
			"reward 0, end 0, lives 2, raw 0, over 0, frame 37 of 37",
			"reward 0, end 1, lives 1, raw 0, over 0, frame 45 of 45",
			"reward 0, end 0, lives 1, raw 0, over 0, frame 57 of 57",
			"reward 0, end 1, lives 0, raw 0, over 1, frame 67 of 67",
			"reward 0, end 0, lives 3, raw 0, over 0, frame 13 of 80",
		},
		`{"episodic_life": true, "noop_max": 1}`: {
			"reward 0, end 1, lives 2, raw 0, over 0, frame 13 of 13",
			"reward 0, end 0, lives 2, raw 0, over 0, frame 14 of 14",
			"reward 0, end 1, lives 1, raw 0, over 0, frame 22 of 22",
			"reward 0, end 0, lives 1, raw 0, over 0, frame 23 of 23",
			"reward 0, end 1, lives 0, raw 0, over 1, frame 33 of 33",
			"reward 0, end 0, lives 3, raw 0, over 0, frame 1 of 34",
		},
	} {
		p := newTrial(t, options)
		p.reset()
		lives := 3
		var got []string
		for len(got) < len(want) {
			if p.end.Over() {
				p.reset()
				got = append(got, p.report())
			} else if p.step(leftA); p.info("lives") < lives {
				got = append(got, p.report())
			}
			lives = p.info("lives")
		}
		for k := range want {
			if got[k] != want[k] {
				t.Errorf("%s, %d:\n%s, must be\n%s", options, k, got[k], want[k])
			}
		}
	}
}

// The stack is cleared at the start of an episode, also if the game continues. It is not cleared if
// the episode continues after a life.
func TestStackIsClearedBetweenEpisodes(t *testing.T) {
	for options, black := range map[string]bool{`{"recipe": "mnih2015"}`: true, `{"life_loss_info": true}`: false} {
		p := newTrial(t, options)
		p.reset()
		for p.end == 0 {
			p.step(leftA)
		}
		if p.end.Over() {
			p.reset()
		} else {
			p.step(leftA)
		}
		frame := len(p.obs) / 4
		if got := bytes.Equal(p.obs[:3*frame], make([]byte, 3*frame)); got != black {
			t.Errorf("%s: three frames are black: %v", options, got)
		}
	}
}

// If a game ends in the NOOP frames after a life, a new game starts and its frames are counted from
// 0.
func TestGameEndsInTheStart(t *testing.T) {
	p := newTrial(t, `{"episodic_life": true, "noop_min": 25, "noop_max": 26, "max_episode_frames": 60, "use_fire_reset": false}`)
	p.reset()
	for p.info("lives") == 3 {
		p.step(leftA)
	}
	if p.end != env.Terminated {
		t.Fatal(p.report())
	}
	p.reset()
	p.step(downA) // from now on every tenth frame costs a life
	for p.end == 0 {
		p.step(0)
	}
	if p.info("lives") != 1 || p.info("game_over") != 0 {
		t.Fatal(p.report())
	}
	p.reset() // its 25 frames cost the last life
	if p.info("lives") != 3 || p.info("game_over") != 0 {
		t.Fatal(p.report())
	}
	from := p.info("episode_frame_number")
	for p.end == 0 {
		p.step(0)
	}
	if got := p.info("episode_frame_number") - from; got != 60 || p.end != env.Truncated {
		t.Errorf("truncated after %d frames, must be 60: %s", got, p.report())
	}
}

// MaxFrames counts the frames of all lives from the first observation on, without those of starts.
// After a truncation the next episode is a new game.
func TestMaxFramesTruncatesGames(t *testing.T) {
	for _, c := range []struct {
		options string
		steps   int
	}{
		{`{"max_episode_frames": 103}`, 26},
		{`{"max_episode_frames": 104}`, 26},
		{`{"max_episode_frames": 105, "noop_min": 20}`, 27},
		{`{"max_episode_frames": 3}`, 1},
		{`{"max_episode_frames": 50, "frameskip": 1}`, 50},
		{`{"max_episode_frames": 50, "reset": "cached"}`, 13},
	} {
		p := newTrial(t, c.options)
		for k := range 3 {
			p.reset()
			from := p.info("episode_frame_number")
			var limit int
			fmt.Sscanf(c.options, `{"max_episode_frames": %d`, &limit)
			for step := 1; step <= c.steps; step++ {
				p.step(0)
				want := env.End(0)
				if step == c.steps {
					want = env.Truncated
				}
				if p.end != want || p.info("game_over") != int(want)/2 {
					t.Fatalf("%s, game %d, step %d: %s", c.options, k, step, p.report())
				}
			}
			if got := p.info("episode_frame_number") - from; got != limit {
				t.Errorf("%s, game %d: truncated after %d frames", c.options, k, got)
			}
			if p.Spec().MaxSteps != c.steps {
				t.Errorf("%s: MaxSteps %d, must be %d", c.options, p.Spec().MaxSteps, c.steps)
			}
		}
	}
	// A life takes 10 frames, or 12 with the rest of its step. The third reset starts a new game.
	p := newTrial(t, `{"episodic_life": true, "max_episode_frames": 22, "noop_min": 7, "noop_max": 8}`)
	p.reset()
	var got []string
	for range 8 {
		if p.end.Over() {
			p.reset()
		} else {
			p.step(leftA)
		}
		got = append(got, fmt.Sprintf("%d/%d", p.info("episode_frame_number"), p.end))
	}
	if s := strings.Join(got, " "); s != "11/0 15/0 19/1 26/0 30/0 34/1 41/0 43/2" {
		t.Errorf("%s", s)
	}
	p.reset()
	if p.report() != "reward 0, end 0, lives 3, raw 0, over 0, frame 7 of 50" {
		t.Errorf("after the truncation: %s", p.report())
	}
	// Terminated and truncated in one step.
	p = newTrial(t, `{"episodic_life": true, "max_episode_frames": 12, "noop_max": 0}`)
	p.reset()
	for p.end == 0 {
		p.step(leftA)
	}
	if p.end != env.Terminated|env.Truncated {
		t.Errorf("the loss of a life in the last frames: %s", p.report())
	}
	if p.reset(); p.info("lives") != 3 {
		t.Errorf("the truncated game continues: %s", p.report())
	}
}

func TestRewardsAreClipped(t *testing.T) {
	for options, want := range map[string]string{
		``:                           "1/4 1/4 0/0",
		`{"reward_clipping": false}`: "4/4 4/4 0/0",
		`{"reward_clipping": false, "frameskip": 7}`: "7/7 7/7 0/0",
		`{"recipe": "mnih2015"}`:                     "1/4 1/4 0/0",
	} {
		p := newTrial(t, options)
		p.reset()
		var got []string
		for _, action := range []int32{rightA, rightA, 0} {
			p.step(action)
			got = append(got, fmt.Sprintf("%v/%d", p.reward, p.info("raw_reward")))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, must be %s", options, s, want)
		}
		p.step(rightA)
		if p.reset(); p.info("raw_reward") != 0 {
			t.Errorf("%s: a reset reports a reward", options)
		}
	}
}

// Ending selects the observation after an act that the end of the game cuts short.
func TestEndingSelectsTheLastFrame(t *testing.T) {
	for ending, repeats := range map[string]bool{"stale": true, "last": false} {
		p := newTrial(t, fmt.Sprintf(`{"ending": %q, "noop_max": 0, "use_fire_reset": false}`, ending))
		p.reset()
		before := slices.Clone(p.obs)
		for p.end == 0 {
			copy(before, p.obs)
			p.step(leftA) // over in the second frame of the eighth act
		}
		frame := len(p.obs) / 4
		if !bytes.Equal(p.obs[:3*frame], before[frame:]) {
			t.Errorf("%s: the stack did not move", ending)
		}
		if got := bytes.Equal(p.obs[3*frame:], before[3*frame:]); got != repeats {
			t.Errorf("%s: the newest frame repeats the previous frame: %v", ending, got)
		}
	}
}

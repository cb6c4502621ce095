package atari

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/env"
)

func parse(t *testing.T, options string) env.Options {
	t.Helper()
	o, err := env.ParseOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func recipeOf(t *testing.T, options string) (Recipe, string) {
	t.Helper()
	r, name, err := readRecipe("atari/amidar", parse(t, options))
	if err != nil {
		t.Fatalf("%s: %v", options, err)
	}
	return r, name
}

// recipeHashes identify the recipes of published results. A hash may change only with an intended
// change of its recipe.
var recipeHashes = map[string]string{
	"ale":           "8632b42115a6",
	"dopamine":      "d133599a84c1",
	"machado2018":   "f17422d404f0",
	"mnih2015":      "9bf99c7ec38b",
	"sb3":           "eb84803601d7",
	"stooke_abbeel": "46e6124748ca",
}

func TestRecipesKeepTheirHashes(t *testing.T) {
	var names []string
	for name, hash := range recipeHashes {
		names = append(names, name)
		r, reported := recipeOf(t, fmt.Sprintf(`{"recipe": %q}`, name))
		if reported != name || r.Hash() != hash {
			t.Errorf("%q with hash %q, must be %q with %q", reported, r.Hash(), name, hash)
		}
		if r != recipes[name] {
			t.Errorf("%s: the table has values without effect: %s", name, r.json())
		}
	}
	slices.Sort(names)
	if !slices.Equal(RecipeNames(), names) {
		t.Errorf("%v, want %v", RecipeNames(), names)
	}
	if r, name := recipeOf(t, ""); name != "ale" || r.Hash() != recipeHashes["ale"] {
		t.Errorf("the default is %s", name)
	}
}

// The name lists the values that differ from the recipe's.
func TestRecipeNamesListChanges(t *testing.T) {
	for options, want := range map[string]string{
		`{"stack_num": 4}`:                          "ale",
		`{"stack_num": 1}`:                          "ale(stack_num=1)",
		`{"obs_type": "rgb"}`:                       "ale(obs_type=rgb)",
		`{"grayscale": false}`:                      "ale(obs_type=rgb)",
		`{"grayscale": true}`:                       "ale",
		`{"obs_type": "ram"}`:                       "ale(obs_type=ram)",
		`{"obs_type": "ram", "stack_num": 4}`:       "ale(obs_type=ram, stack_num=4)",
		`{"obs_type": "rgb", "recipe": "mnih2015"}`: "mnih2015(obs_type=rgb)",
		`{"frameskip": 2, "recipe": "machado2018", "episodic_life": true}`: "machado2018(episodic_life=true, frameskip=2)",
		`{"max_episode_frames": 1000}`:                                     "ale(max_num_frames_per_episode=1000)",
		`{"img_height": 104, "recipe": "stooke_abbeel"}`:                   "stooke_abbeel",
		`{"img_height": 84, "recipe": "stooke_abbeel"}`:                    "stooke_abbeel(img_height=84, pixels=area)",
	} {
		if _, name := recipeOf(t, options); name != want {
			t.Errorf("%s: %s, want %s", options, name, want)
		}
	}
}

// Options with the same effect have equal hashes.
func TestEquivalentOptionsHaveEqualHashes(t *testing.T) {
	for _, alike := range [][]string{
		{``, `{}`, `{"recipe": "ale"}`, `{"stack_num": 4, "frameskip": 4}`, `{"maxpool": true, "obs_type": "grayscale"}`, `{"grayscale": true}`},
		{`{"max_episode_frames": 500}`, `{"max_num_frames_per_episode": 500}`, `{"max_num_frames_per_episode": 5e2, "max_episode_frames": 500}`},
		{`{"frameskip": 1}`, `{"frameskip": 1, "maxpool": false}`},
		{`{"noop_max": 0}`, `{"noop_max": 1}`},
		{`{"noop_min": 7, "noop_max": 8}`, `{"noop_min": 7, "noop_max": 7}`},
		{`{"recipe": "mnih2015", "noop_max": 1}`, `{"recipe": "mnih2015", "noop_min": 2, "noop_max": 2}`},
		{``, `{"continuous_action_threshold": 0.3}`},
		{`{"continuous": true}`, `{"continuous": true, "full_action_space": true}`},
		{`{"recipe": "machado2018"}`, `{"recipe": "dopamine", "full_action_space": true}`},
		{`{"maxpool": false}`, `{"maxpool": false, "first_maxpool": true}`},
		{`{"recipe": "stooke_abbeel"}`, `{"recipe": "stooke_abbeel", "use_fire_reset": true}`},
		{`{"recipe": "sb3"}`, `{"recipe": "sb3", "start_actions": true, "first_maxpool": true, "ending": "stale"}`},
		{`{"reset": "cached"}`, `{"reset": "cached", "noop_max": 9, "use_fire_reset": false, "start_actions": true}`},
		{`{"obs_type": "ram"}`, `{"obs_type": "ram", "stack_num": 1, "img_height": 9, "maxpool": false, "ending": "last"}`},
		{`{"grayscale": false}`, `{"obs_type": "rgb"}`, `{"obs_type": "rgb", "grayscale": false}`},
		{`{"recipe": "machado2018"}`, `{"ending": "last", "use_fire_reset": false, "noop_max": 0, "repeat_action_probability": 0.25, "full_action_space": true}`},
		{`{"recipe": "machado2018"}`, `{"recipe": "dopamine", "full_action_space": true}`},
	} {
		first, _ := recipeOf(t, alike[0])
		for _, options := range alike[1:] {
			if r, _ := recipeOf(t, options); r.Hash() != first.Hash() {
				t.Errorf("%s and %s differ:\n%s\n%s", alike[0], options, first.json(), r.json())
			}
		}
	}
}

// Different options have different hashes.
func TestDifferentOptionsHaveDifferentHashes(t *testing.T) {
	hashes := map[string]string{}
	for _, options := range []string{
		``, `{"recipe": "mnih2015"}`, `{"recipe": "machado2018"}`, `{"recipe": "dopamine"}`, `{"recipe": "stooke_abbeel"}`, `{"recipe": "sb3"}`,
		`{"obs_type": "rgb"}`, `{"obs_type": "ram"}`, `{"obs_type": "ram", "stack_num": 4}`, `{"img_height": 83}`, `{"img_width": 83}`,
		`{"stack_num": 3}`, `{"frameskip": 3}`, `{"frameskip": 1}`, `{"maxpool": false}`, `{"noop_min": 1}`, `{"noop_max": 29}`,
		`{"use_fire_reset": false}`, `{"start_actions": true}`, `{"first_maxpool": true}`, `{"episodic_life": true}`, `{"life_loss_info": true}`,
		`{"reward_clipping": false}`, `{"max_episode_frames": 0}`, `{"repeat_action_probability": 0.25}`, `{"full_action_space": true}`,
		`{"continuous": true}`, `{"continuous": true, "continuous_action_threshold": 0.25}`, `{"mode": 0}`, `{"difficulty": 0}`,
		`{"reset": "cached"}`, `{"ending": "last"}`, `{"ram_info": true}`, `{"reset": "cached", "episodic_life": true}`,
		`{"recipe": "mnih2015", "noop_min": 1, "noop_max": 31, "first_maxpool": false, "episodic_life": false, "life_loss_info": true, "max_num_frames_per_episode": 108000}`, // DQN Zoo
	} {
		r, name := recipeOf(t, options)
		if other, ok := hashes[r.Hash()]; ok {
			t.Errorf("%s and %s have equal hashes", options, other)
		}
		hashes[r.Hash()] = options
		if strings.Contains(options, `": `) && name == "ale" {
			t.Errorf("%s: the name is ale", options)
		}
	}
}

func TestSpecFollowsTheRecipe(t *testing.T) {
	rom := newROM(t, "amidar", livesImage())
	pi := float32(math.Pi)
	for options, want := range map[string]string{
		``:                            "[4 84 84] 4, 10 discrete [] [], 27000 15 false",
		`{"recipe": "mnih2015"}`:      "[4 84 84] 4, 10 discrete [] [], 0 15 false",
		`{"recipe": "machado2018"}`:   "[4 84 84] 4, 18 discrete [] [], 27000 15 false",
		`{"recipe": "dopamine"}`:      "[4 84 84] 4, 10 discrete [] [], 27000 15 false",
		`{"recipe": "sb3"}`:           "[4 84 84] 4, 10 discrete [] [], 27000 15 false",
		`{"recipe": "stooke_abbeel"}`: "[4 104 80] 4, 10 discrete [] [], 27000 15 false",
		`{"obs_type": "rgb"}`:         "[4 84 84 3] 4, 10 discrete [] [], 27000 15 false",
		`{"obs_type": "rgb", "stack_num": 1, "img_height": 210, "img_width": 160}`: "[1 210 160 3] 0, 10 discrete [] [], 27000 15 false",
		`{"obs_type": "ram"}`:                                  "[128] 0, 10 discrete [] [], 27000 15 false",
		`{"obs_type": "ram", "stack_num": 3}`:                  "[3 128] 3, 10 discrete [] [], 27000 15 false",
		`{"img_height": 50, "img_width": 60, "stack_num": 64}`: "[64 50 60] 64, 10 discrete [] [], 27000 15 false",
		`{"frameskip": 7, "max_episode_frames": 700}`:          "[4 84 84] 4, 10 discrete [] [], 100 8 false",
		`{"frameskip": 7, "max_episode_frames": 701}`:          "[4 84 84] 4, 10 discrete [] [], 101 8 false",
		`{"frameskip": 1000, "max_episode_frames": 0}`:         "[4 84 84] 4, 10 discrete [] [], 0 1 false",
		`{"life_loss_info": true}`:                             "[4 84 84] 4, 10 discrete [] [], 27000 15 true",
		`{"continuous": true}`:                                 fmt.Sprintf("[4 84 84] 4, a box of 3 [0 %v 0] [1 %v 1], 27000 15 false", -pi, pi),
		`{"full_action_space": true}`:                          "[4 84 84] 4, 18 discrete [] [], 27000 15 false",
	} {
		e, err := NewEnv(rom, parse(t, options))
		if err != nil {
			t.Errorf("%s: %v", options, err)
			continue
		}
		s := e.Spec()
		got := fmt.Sprintf("%v %d, %v %v %v, %d %d %v", s.Obs.Shape, s.Obs.FrameStack, s.Action, s.Action.Low, s.Action.High, s.MaxSteps, s.FPS, s.LifeLoss)
		if got != want || s.ID != "atari/amidar" || s.Obs.DType != env.Uint8 || s.Check() != nil {
			t.Errorf("%s: %s, want %s", options, got, want)
		}
		if name, hash := e.Recipe(); name != e.name || hash != e.recipe.Hash() {
			t.Errorf("%s: %s %s", options, name, hash)
		}
	}
	// A PAL image has 250 rows.
	pal, err := NewEnv(newROM(t, "amidar", palImage()), parse(t, `{"recipe": "stooke_abbeel"}`))
	if err != nil || !slices.Equal(pal.Spec().Obs.Shape, []int{4, 124, 80}) {
		t.Errorf("PAL: %v, %v", pal.Spec().Obs.Shape, err)
	}
}

func TestWrongOptionsAreRefused(t *testing.T) {
	rom := newROM(t, "amidar", livesImage())
	for options, want := range map[string]string{
		`{"recipe": "mnih"}`:                                         `recipe: "mnih", must be ale or dopamine or machado2018 or mnih2015 or sb3 or stooke_abbeel`,
		`{"recipe": null}`:                                           `recipe: null, must be ale or dopamine or machado2018 or mnih2015 or sb3 or stooke_abbeel`,
		`{"obs_type": "gray"}`:                                       `obs_type: "gray", must be grayscale or rgb or ram`,
		`{"grayscale": 1}`:                                           "grayscale: 1, must be true or false",
		`{"img_height": 0}`:                                          "img_height: 0, must be a whole number of 1 to 250",
		`{"img_height": 251}`:                                        "img_height: 251, must be a whole number of 1 to 250",
		`{"img_height": 211}`:                                        "img_height: 211, must be 1 to 210, the rows of the screen",
		`{"img_width": 161}`:                                         "img_width: 161, must be a whole number of 1 to 160",
		`{"img_width": 80.5}`:                                        "img_width: 80.5, must be a whole number of 1 to 160",
		`{"stack_num": 0}`:                                           "stack_num: 0, must be a whole number of 1 to 64",
		`{"frameskip": 0}`:                                           "frameskip: 0, must be a whole number of 1 to 1000",
		`{"frameskip": [2, 5]}`:                                      "frameskip: [2, 5], must be a whole number of 1 to 1000",
		`{"maxpool": "yes"}`:                                         `maxpool: "yes", must be true or false`,
		`{"noop_min": -1}`:                                           "noop_min: -1, must be a whole number of 0 to 10000",
		`{"noop_max": 10001}`:                                        "noop_max: 10001, must be a whole number of 0 to 10000",
		`{"max_episode_frames": -1}`:                                 "max_episode_frames: -1, must be a whole number of 0 to 1073741824",
		`{"repeat_action_probability": 1.5}`:                         "repeat_action_probability: 1.5, must be a number of 0 to 1",
		`{"continuous_action_threshold": -0.5}`:                      "continuous_action_threshold: -0.5, must be a number of 0 to 1",
		`{"reset": "soft"}`:                                          `reset: "soft", must be ale or cached`,
		`{"ending": "first"}`:                                        `ending: "first", must be last or stale`,
		`{"mode": 1}`:                                                "mode: 1, amidar has [0]",
		`{"mode": 256}`:                                              "mode: 256, must be a whole number of -1 to 255",
		`{"difficulty": 1}`:                                          "difficulty: 1, amidar has [0 3]",
		`{"difficulty": 4}`:                                          "difficulty: 4, must be a whole number of -1 to 3",
		`{"grayscale": true, "obs_type": "rgb"}`:                     `grayscale: true, must not contradict obs_type: "rgb"`,
		`{"grayscale": false, "obs_type": "grayscale"}`:              `grayscale: false, must not contradict obs_type: "grayscale"`,
		`{"grayscale": true, "obs_type": "ram"}`:                     `grayscale: true, must not contradict obs_type: "ram"`,
		`{"grayscale": false, "obs_type": "ram"}`:                    `grayscale: false, must not contradict obs_type: "ram"`,
		`{"noop_min": 5, "noop_max": 2}`:                             "noop_max: 2, must be at least noop_min: 5",
		`{"episodic_life": true, "life_loss_info": true}`:            "life_loss_info: true, must be false if episodic_life is true",
		`{"recipe": "mnih2015", "life_loss_info": true}`:             "life_loss_info: true, must be false if episodic_life is true",
		`{"max_episode_frames": 7, "max_num_frames_per_episode": 8}`: "max_episode_frames: 7, must not contradict max_num_frames_per_episode: 8",
		`{"frame_skip": 4}`:                                          `option "frame_skip": atari/amidar has no such option; did you mean frameskip?`,
		`{"pixels": "luma"}`:                                         `option "pixels": atari/amidar has no such option`,
	} {
		_, err := NewEnv(rom, parse(t, options))
		if err == nil || err.Error() != want && (!strings.Contains(want, "no such option") || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

// The stick's directions and the button count above the threshold. Every action can be reached.
func TestPolarReachesEveryAction(t *testing.T) {
	const pi = math.Pi
	reached := map[games.Action]bool{}
	for eighth := range 8 {
		for _, radius := range []float32{0, 1} {
			for _, button := range []float32{0, 1} {
				reached[polar([]float32{radius, float32(eighth)*pi/4 - 3*pi/4, button}, 0.5)] = true
			}
		}
	}
	if len(reached) != games.NumActions {
		t.Errorf("%d actions reached, want %d", len(reached), games.NumActions)
	}
	const half, above = 0.5, 0.50001
	for _, c := range []struct {
		radius, angle, button, threshold float32
		want                             games.Action
	}{
		{0, 0, 0, 0, games.Noop},
		{1, 0, 0, half, games.Right},
		{1, pi / 2, 0, half, games.Up},
		{1, pi, 0, half, games.Left},
		{1, -pi, 1, half, games.LeftFire},
		{1, -pi / 2, 0, half, games.Down},
		{1, pi / 4, 0, half, games.UpRight},
		{1, 3 * pi / 4, 1, half, games.UpLeftFire},
		{1, -3 * pi / 4, 0, half, games.DownLeft},
		{1, -pi / 4, 1, half, games.DownRightFire},
		{half, 0, 0, half, games.Noop}, // not above
		{above, 0, 0, half, games.Right},
		{1, 0, half, half, games.Right},
		{1, 0, above, half, games.RightFire},
		{0, 1, 1, half, games.Fire},
		{0.7, pi / 4, 0, half, games.Noop}, // 0.495 each way
		{0.7, pi / 4, 0, 0.4, games.UpRight},
		{1, pi / 6, 0, 0.6, games.Right}, // 0.866 right, 0.5 up
		{1, pi / 3, 0, 0.6, games.Up},
		{1, 0, 1, 1, games.Noop},
	} {
		if got := polar([]float32{c.radius, c.angle, c.button}, c.threshold); got != c.want {
			t.Errorf("radius %v, angle %v, button %v, threshold %v: %v, want %v", c.radius, c.angle, c.button, c.threshold, got, c.want)
		}
	}
}

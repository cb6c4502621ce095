package atari

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/env"
)

// Recipe defines an environment for a game: actions, observations, rewards, and starts and ends of
// episodes. Papers differ in nearly all of these, so there are named recipes. Options change single
// values of a recipe. An option has the name of the JSON field, which is usually that of ale-py's
// AtariVectorEnv.
type Recipe struct {
	// ObsType is "grayscale" (uint8 [stack, height, width]), "rgb" ([stack, height, width, 3])
	// or "ram" ([stack, 128], or [128] if stack_num is 1).
	ObsType string `json:"obs_type"`
	// Pixels selects the computation of a grey frame from two images: "area", "luma", "half" or
	// "opencv"; see screen.Look.
	Pixels string `json:"pixels"`
	Height int    `json:"img_height"`
	Width  int    `json:"img_width"`
	// Stack is the number of frames in an observation. Frames before an episode are black.
	Stack int `json:"stack_num"`
	// FrameSkip is the number of frames of an action.
	FrameSkip int `json:"frameskip"`
	// MaxPool observes the maximum of the last two images instead of the last image.
	MaxPool bool `json:"maxpool"`
	// NoopMin and NoopMax bound the random number of NOOP frames before the first observation:
	// at least NoopMin and less than NoopMax. The frame of FireReset counts as one of them.
	NoopMin int `json:"noop_min"`
	NoopMax int `json:"noop_max"`
	// FireReset presses FIRE in the first frame if the environment's actions include FIRE.
	FireReset bool `json:"use_fire_reset"`
	// StartActions plays a frame each of NOOP, FIRE and UP after the NOOP frames, if the game has
	// these actions. After the loss of a life there are no other NOOP frames.
	StartActions bool `json:"start_actions"`
	// FirstPooled observes the maximum of two images also at the start of an episode.
	FirstPooled bool `json:"first_maxpool"`
	// EpisodicLife terminates an episode with each life. The next episode continues the game.
	EpisodicLife bool `json:"episodic_life"`
	// LifeLossInfo reports the loss of a life as a termination and continues the episode.
	LifeLossInfo bool `json:"life_loss_info"`
	// ClipRewards clips rewards to -1..1. The info raw_reward is not clipped.
	ClipRewards bool `json:"reward_clipping"`
	// MaxFrames is the number of frames after the first observation at which a game is
	// truncated; 0: never.
	MaxFrames int `json:"max_num_frames_per_episode"`
	// Sticky is the probability that a frame repeats the last action instead of the new one
	// (Machado et al. 2018).
	Sticky float64 `json:"repeat_action_probability"`
	// FullActions allows all legal actions, not only the game's minimal set.
	FullActions bool `json:"full_action_space"`
	// Continuous makes an action (radius 0 to 1, angle -pi to pi, fire 0 to 1). The stick moves
	// in each direction, and the button is pressed, if the component is above Threshold.
	Continuous bool    `json:"continuous"`
	Threshold  float64 `json:"continuous_action_threshold"`
	// Mode and Difficulty are those of the game; -1: the game's default.
	Mode       int `json:"mode"`
	Difficulty int `json:"difficulty"`
	// Reset selects the start of a game: "ale" or "cached"; see the type Reset.
	Reset string `json:"reset"`
	// Ending selects the observation after an act that the end of the game cuts short. "last"
	// uses the last images. "stale" is AtariVectorEnv's: it repeats the previous frame; if the
	// game ends with the last frame of the act, it uses the maximum of the previously observed
	// images and the last image but one.
	Ending string `json:"ending"`
	// Wrappers follows the nesting of OpenAI's wrappers in Stable-Baselines3's AtariWrapper.
	// NOOP frames come only before a game. An act of NOOP follows the loss of a life. FireReset
	// is an act of FIRE and an act of the game's third action, and both count as acts of the
	// episode. The loss of a life counts only if lives are left. MaxFrames counts all frames of
	// a game. An act that is cut short shows earlier images in place of the missing ones.
	Wrappers bool `json:"wrappers,omitempty"`
	// RAMInfo adds the machine's RAM, uint8 [128], to the infos.
	RAMInfo bool `json:"ram_info"`
}

// DefaultRecipe is the name of AtariVectorEnv's recipe.
const DefaultRecipe = "ale"

// halfHeight is the height of Stooke and Abbeel's frames for images of 210 rows.
const halfHeight = 104

var recipes = map[string]Recipe{
	// ale-py's AtariVectorEnv with its defaults.
	"ale": {
		ObsType: "grayscale", Pixels: "area", Height: 84, Width: 84, Stack: 4, FrameSkip: 4, MaxPool: true,
		NoopMin: 0, NoopMax: 30, FireReset: true, ClipRewards: true, MaxFrames: 108_000, Threshold: 0.5,
		Mode: -1, Difficulty: -1, Reset: "ale", Ending: "stale",
	},
	// Mnih et al. 2015, as in DeepMind's code for training. A life is an episode, and each episode
	// starts with 2 to 31 frames of NOOP. Luma is computed after the maximum of the colours.
	"mnih2015": {
		ObsType: "grayscale", Pixels: "luma", Height: 84, Width: 84, Stack: 4, FrameSkip: 4, MaxPool: true,
		NoopMin: 2, NoopMax: 32, FirstPooled: true, EpisodicLife: true, ClipRewards: true, Threshold: 0.5,
		Mode: -1, Difficulty: -1, Reset: "ale", Ending: "last",
	},
	// Machado et al. 2018: sticky actions, all 18 actions, a game is an episode.
	"machado2018": {
		ObsType: "grayscale", Pixels: "area", Height: 84, Width: 84, Stack: 4, FrameSkip: 4, MaxPool: true,
		ClipRewards: true, MaxFrames: 108_000, Sticky: 0.25, FullActions: true, Threshold: 0.5,
		Mode: -1, Difficulty: -1, Reset: "ale", Ending: "last",
	},
	// Dopamine: machado2018 with the game's minimal actions, which gym's environments v0 have.
	"dopamine": {
		ObsType: "grayscale", Pixels: "area", Height: 84, Width: 84, Stack: 4, FrameSkip: 4, MaxPool: true,
		ClipRewards: true, MaxFrames: 108_000, Sticky: 0.25, Threshold: 0.5,
		Mode: -1, Difficulty: -1, Reset: "ale", Ending: "last",
	},
	// Stooke & Abbeel 2018: frames of 104 x 80, a life is an episode.
	"stooke_abbeel": {
		ObsType: "grayscale", Pixels: "half", Height: 104, Width: 80, Stack: 4, FrameSkip: 4, MaxPool: true,
		NoopMin: 0, NoopMax: 31, StartActions: true, EpisodicLife: true, ClipRewards: true, MaxFrames: 108_000, Threshold: 0.5,
		Mode: -1, Difficulty: -1, Reset: "ale", Ending: "last",
	},
	// Stable-Baselines3's make_atari_env and VecFrameStack(4): its AtariWrapper around the
	// NoFrameskip-v4 environments.
	"sb3": {
		ObsType: "grayscale", Pixels: "opencv", Height: 84, Width: 84, Stack: 4, FrameSkip: 4, MaxPool: true,
		NoopMin: 1, NoopMax: 31, FireReset: true, EpisodicLife: true, ClipRewards: true, MaxFrames: 108_000, Threshold: 0.5,
		Mode: -1, Difficulty: -1, Reset: "ale", Ending: "last", Wrappers: true,
	},
}

// RecipeNames returns the names of all recipes, sorted.
func RecipeNames() []string { return slices.Sorted(maps.Keys(recipes)) }

// fields returns the options, which store their values in r.
func (r *Recipe) fields(grayscale *bool) []env.Field {
	return []env.Field{
		{Name: "recipe", To: new(string), Words: RecipeNames()}, // readRecipe has read it
		{Name: "obs_type", To: &r.ObsType, Words: []string{"grayscale", "rgb", "ram"}},
		{Name: "grayscale", To: grayscale},
		{Name: "img_height", To: &r.Height, Min: 1, Max: palRows},
		{Name: "img_width", To: &r.Width, Min: 1, Max: Width},
		{Name: "stack_num", To: &r.Stack, Min: 1, Max: 64},
		{Name: "frameskip", To: &r.FrameSkip, Min: 1, Max: 1000},
		{Name: "maxpool", To: &r.MaxPool},
		{Name: "noop_min", To: &r.NoopMin, Min: 0, Max: 10_000},
		{Name: "noop_max", To: &r.NoopMax, Min: 0, Max: 10_000},
		{Name: "use_fire_reset", To: &r.FireReset},
		{Name: "start_actions", To: &r.StartActions},
		{Name: "first_maxpool", To: &r.FirstPooled},
		{Name: "episodic_life", To: &r.EpisodicLife},
		{Name: "life_loss_info", To: &r.LifeLossInfo},
		{Name: "reward_clipping", To: &r.ClipRewards},
		{Name: "max_num_frames_per_episode", To: &r.MaxFrames, Min: 0, Max: 1 << 30},
		{Name: "max_episode_frames", To: &r.MaxFrames, Min: 0, Max: 1 << 30}, // a shorter name
		{Name: "repeat_action_probability", To: &r.Sticky, Min: 0, Max: 1},
		{Name: "full_action_space", To: &r.FullActions},
		{Name: "continuous", To: &r.Continuous},
		{Name: "continuous_action_threshold", To: &r.Threshold, Min: 0, Max: 1},
		{Name: "mode", To: &r.Mode, Min: -1, Max: 255},
		{Name: "difficulty", To: &r.Difficulty, Min: -1, Max: 3},
		{Name: "reset", To: &r.Reset, Words: resetNames[:]},
		{Name: "ending", To: &r.Ending, Words: []string{"last", "stale"}},
		{Name: "ram_info", To: &r.RAMInfo},
	}
}

// readRecipe returns the recipe with the values of the options, and its name, which lists the
// changed values.
func readRecipe(id string, o env.Options) (r Recipe, name string, err error) {
	name = DefaultRecipe
	if value, ok := o["recipe"]; ok {
		if err := (env.Options{"recipe": value}).Read(id, []env.Field{{Name: "recipe", To: &name, Words: RecipeNames()}}); err != nil {
			return r, "", err
		}
	}
	base := recipes[name]
	r = base
	var grayscale bool
	if err := o.Read(id, r.fields(&grayscale)); err != nil {
		return r, "", err
	}
	_, typed := o["obs_type"]
	if _, ok := o["grayscale"]; ok {
		switch {
		case !typed && grayscale:
			r.ObsType = "grayscale"
		case !typed:
			r.ObsType = "rgb"
		case r.ObsType == "ram" || grayscale != (r.ObsType == "grayscale"):
			return r, "", fmt.Errorf("grayscale: %v, must not contradict obs_type: %q", grayscale, r.ObsType)
		}
	}
	if short, ok := o["max_episode_frames"]; ok {
		var n float64
		if _ = json.Unmarshal(short, &n); int(n) != r.MaxFrames { // the longer name was read last
			return r, "", fmt.Errorf("max_episode_frames: %s, must not contradict max_num_frames_per_episode: %d", short, r.MaxFrames)
		}
	}
	// One of the two given alone may contradict the recipe's other one: then there are exactly
	// NoopMin frames.
	_, least := o["noop_min"]
	_, most := o["noop_max"]
	if least && most && r.NoopMax < r.NoopMin {
		return r, "", fmt.Errorf("noop_max: %d, must be at least noop_min: %d", r.NoopMax, r.NoopMin)
	}
	if r.EpisodicLife && r.LifeLossInfo {
		return r, "", fmt.Errorf("life_loss_info: true, must be false if episodic_life is true")
	}
	r.normalize(o)
	return r, r.name(name, base), nil
}

// normalize resets values without effect, so that recipes with equal behaviour have equal hashes.
func (r *Recipe) normalize(o env.Options) {
	switch r.ObsType {
	case "rgb":
		r.Pixels = "area"
	case "ram":
		r.Pixels, r.Height, r.Width, r.MaxPool, r.Ending = "", 0, 0, false, "last"
		if _, given := o["stack_num"]; !given {
			r.Stack = 1
		}
	}
	if !r.MaxPool || r.FrameSkip == 1 {
		r.MaxPool, r.FirstPooled = false, false // an act shows one image
	}
	if r.Pixels == "half" && (r.Height != halfHeight || r.Width != Width/2) {
		r.Pixels = "area" // "half" has only one size
	}
	if r.Continuous {
		r.FullActions = false
	} else {
		r.Threshold = recipes[DefaultRecipe].Threshold
	}
	if r.Reset == resetNames[ResetCached] && !r.EpisodicLife { // stored states come after the start
		r.NoopMin, r.NoopMax, r.FireReset, r.StartActions = 0, 0, false, false
	}
	if r.Wrappers {
		r.StartActions, r.FirstPooled, r.Ending = false, false, "last"
	}
	if r.StartActions {
		r.FireReset = false
	}
	if r.NoopMax <= r.NoopMin+1 {
		r.NoopMax = r.NoopMin // exactly NoopMin frames
	}
}

// name returns the name of base and, in brackets, the values that differ from base.
func (r *Recipe) name(name string, base Recipe) string {
	typed := base
	typed.ObsType = r.ObsType
	typed.normalize(nil) // changes that follow from obs_type are not listed
	typed.ObsType = base.ObsType
	before, after := typed.values(), r.values()
	var changed []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if string(before[key]) != string(after[key]) {
			changed = append(changed, key+"="+strings.Trim(string(after[key]), `"`))
		}
	}
	if changed == nil {
		return name
	}
	return name + "(" + strings.Join(changed, ", ") + ")"
}

func (r *Recipe) values() (values map[string]json.RawMessage) {
	if err := json.Unmarshal(r.json(), &values); err != nil {
		panic(err) // never: Marshal wrote it
	}
	return values
}

func (r *Recipe) json() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // never: all fields are numbers, strings and booleans
	}
	return text
}

// Hash identifies a recipe: the first 12 hexadecimal digits of the SHA-256 of all values.
func (r *Recipe) Hash() string {
	sum := sha256.Sum256(r.json())
	return hex.EncodeToString(sum[:6])
}

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

// Recipe is all that an environment does to a game: what an action and an observation are,
// what a reward is, where episodes begin and end. Papers agree on hardly any of it, so
// there are named ones (recipes), whose values options may change one by one. The names of
// the options are those of the JSON fields, mostly ale-py's AtariVectorEnv's.
type Recipe struct {
	// ObsType is "grayscale" (uint8 [stack, height, width]), "rgb" ([stack, height, width, 3])
	// or "ram" ([stack, 128]; [128] where stack_num is 1).
	ObsType string `json:"obs_type"`
	// Pixels is how a grey observation is made of two images: "area", "luma", "half" or
	// "opencv"; see screen.Look.
	Pixels string `json:"pixels"`
	Height int    `json:"img_height"`
	Width  int    `json:"img_width"`
	// Stack is the frames of an observation, those before an episode being black.
	Stack int `json:"stack_num"`
	// FrameSkip is the frames that an action lasts.
	FrameSkip int `json:"frameskip"`
	// MaxPool observes the brighter of the last two images, not the last one alone.
	MaxPool bool `json:"maxpool"`
	// NoopMin and NoopMax: so many frames of NOOP, at least the first and fewer than the
	// second number, come before the first observation. FIRE is one of them.
	NoopMin int `json:"noop_min"`
	NoopMax int `json:"noop_max"`
	// FireReset presses FIRE for a frame first, in games that have it among their minimal
	// actions.
	FireReset bool `json:"use_fire_reset"`
	// StartActions plays NOOP, FIRE and UP behind that, a frame each, as far as the game has
	// them; after a lost life these alone.
	StartActions bool `json:"start_actions"`
	// FirstPooled observes the brighter of two images at an episode's beginning, too.
	FirstPooled bool `json:"first_maxpool"`
	// EpisodicLife terminates an episode with each life; the game goes on in the next one.
	EpisodicLife bool `json:"episodic_life"`
	// LifeLossInfo reports a life's loss as a termination and goes on with the episode.
	LifeLossInfo bool `json:"life_loss_info"`
	// ClipRewards clamps rewards to -1, 0 and 1; raw_reward among the infos is whole.
	ClipRewards bool `json:"reward_clipping"`
	// MaxFrames truncates a game that many frames after its first observation; 0: never.
	MaxFrames int `json:"max_num_frames_per_episode"`
	// Sticky is the probability that an action is ignored for a frame (Machado et al. 2018).
	Sticky float64 `json:"repeat_action_probability"`
	// FullActions has all legal actions, not only those that the game distinguishes.
	FullActions bool `json:"full_action_space"`
	// Continuous takes (radius 0 to 1, angle -pi to pi, fire 0 to 1) in place of a number. A
	// stick is moved, and the button pressed, where its part is above the threshold.
	Continuous bool    `json:"continuous"`
	Threshold  float64 `json:"continuous_action_threshold"`
	// Mode and Difficulty are the game's; -1: its defaults.
	Mode       int `json:"mode"`
	Difficulty int `json:"difficulty"`
	// Reset is how a game begins: "ale" or "cached"; see Reset.
	Reset string `json:"reset"`
	// Ending is what is observed after an act that the game's end cuts short: the "last"
	// images, or what AtariVectorEnv shows, "stale" ones: what was seen before, and where the
	// game ends with the very last frame, the brighter of that and the last image but one.
	Ending string `json:"ending"`
	// Wrappers plays as OpenAI's wrappers nest, in Stable-Baselines3's AtariWrapper: frames of
	// NOOP begin a game alone; a lost life is followed by an act of NOOP; FireReset is an act
	// of FIRE and one of the game's third action, which count as acts of the episode; a life
	// is lost only where one is left; MaxFrames counts all frames of a game; and an act that
	// is cut short shows what was looked at before in place of the images that it lacks.
	Wrappers bool `json:"wrappers,omitempty"`
	// RAMInfo adds the machine's memory, uint8 [128], to the infos.
	RAMInfo bool `json:"ram_info"`
}

// DefaultRecipe is the one that AtariVectorEnv follows.
const DefaultRecipe = "ale"

// halfHeight is the height of an image of 210 rows for Stooke and Abbeel.
const halfHeight = 104

var recipes = map[string]Recipe{
	// ale-py's AtariVectorEnv with its defaults.
	"ale": {
		ObsType: "grayscale", Pixels: "area", Height: 84, Width: 84, Stack: 4, FrameSkip: 4, MaxPool: true,
		NoopMin: 0, NoopMax: 30, FireReset: true, ClipRewards: true, MaxFrames: 108_000, Threshold: 0.5,
		Mode: -1, Difficulty: -1, Reset: "ale", Ending: "stale",
	},
	// Mnih et al. 2015 as DeepMind's code has it, in training: a life is an episode, 2 to 31
	// frames of NOOP begin each, luma is taken after the maximum over the colours.
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

// fields are the options that change a recipe.
func (r *Recipe) fields(grayscale *bool) []env.Field {
	return []env.Field{
		{Name: "recipe", To: new(string), Words: RecipeNames()}, // read before the others
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
		{Name: "max_episode_frames", To: &r.MaxFrames, Min: 0, Max: 1 << 30}, // the same, shorter
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

// readRecipe returns the recipe that options name, with the values they change, and its
// name, which says which these are.
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
		case grayscale != (r.ObsType == "grayscale"):
			return r, "", fmt.Errorf("grayscale: %v, must not contradict obs_type: %q", grayscale, r.ObsType)
		}
	}
	if short, ok := o["max_episode_frames"]; ok {
		var n float64
		if _ = json.Unmarshal(short, &n); int(n) != r.MaxFrames { // the longer name's was read last
			return r, "", fmt.Errorf("max_episode_frames: %s, must not contradict max_num_frames_per_episode: %d", short, r.MaxFrames)
		}
	}
	if r.EpisodicLife && r.LifeLossInfo {
		return r, "", fmt.Errorf("life_loss_info: true, must be false where episodic_life is true: a life is the end of an episode or it is not")
	}
	r.settle(o)
	return r, r.name(name, base), nil
}

// settle takes out what has no meaning beside the other values, so that equal recipes have
// equal hashes.
func (r *Recipe) settle(o env.Options) {
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
		r.MaxPool, r.FirstPooled = false, false // one image an act
	}
	if r.Pixels == "half" && (r.Height != halfHeight || r.Width != Width/2) {
		r.Pixels = "area" // another size
	}
	if r.Continuous {
		r.FullActions = false
	} else {
		r.Threshold = recipes[DefaultRecipe].Threshold
	}
	if r.Reset == resetNames[ResetCached] && !r.EpisodicLife { // which have all of a start behind them
		r.NoopMin, r.NoopMax, r.FireReset, r.StartActions = 0, 0, false, false
	}
	if r.Wrappers {
		r.StartActions, r.FirstPooled, r.Ending = false, false, "last"
	}
	if r.StartActions {
		r.FireReset = false
	}
	if r.NoopMax <= r.NoopMin+1 {
		r.NoopMax = r.NoopMin // that many
	}
}

// name is base's, and in brackets what is not base's.
func (r *Recipe) name(name string, base Recipe) string {
	typed := base
	typed.ObsType = r.ObsType
	typed.settle(nil) // so that what the type brings with it is not reported
	typed.ObsType = base.ObsType
	was, is := typed.values(), r.values()
	var changed []string
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if string(was[key]) != string(is[key]) {
			changed = append(changed, key+"="+strings.Trim(string(is[key]), `"`))
		}
	}
	if changed == nil {
		return name
	}
	return name + "(" + strings.Join(changed, ", ") + ")"
}

func (r *Recipe) values() (values map[string]json.RawMessage) {
	if err := json.Unmarshal(r.json(), &values); err != nil {
		panic(err) // never: it is our own
	}
	return values
}

func (r *Recipe) json() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // never: it has numbers, texts and booleans
	}
	return text
}

// Hash identifies a recipe: the first 12 hexadecimal digits of the SHA-256 of all values.
func (r *Recipe) Hash() string {
	sum := sha256.Sum256(r.json())
	return hex.EncodeToString(sum[:6])
}

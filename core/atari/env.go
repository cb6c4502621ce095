package atari

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/atari/screen"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// Env is a game with the actions, observations, rewards and episodes of a recipe. Its discrete
// actions are the console's, in their order: the minimal set, or all legal actions.
//
// All randomness (frames of NOOP, stored states, sticky actions) comes from the seed. The first
// reset after Seed removes and inserts the cartridge, so the first episode does not depend on
// earlier episodes. Later episodes do, because RAM survives a reset.
type Env struct {
	console *Console
	recipe  Recipe
	name    string // the recipe's name
	actions []games.Action
	stream  rng.Stream // draws the number of NOOP frames
	seed    *uint64    // the seed for the next reset; nil: none
	spec    env.Spec

	observer *screen.Observer // nil for RAM
	stack    *env.Stack
	// savedImages has the last two images before the latest act, if Ending is "stale". With
	// Wrappers it has the two images to observe. Otherwise it is nil.
	savedImages []byte
	stacked     bool // the newest frame is in the stack

	episode
}

// episode is the state of an episode.
type episode struct {
	running    bool
	lifeOver   bool // the last episode ended with a life, and the game goes on
	atStart    bool // no act since the reset
	gameFrames int  // frames of this game since its first observation
	actFrames  int  // frames of the last act
	lives      int
	rawReward  int // reward of the last act before clipping
}

// gameOver reports whether the game, not only a life, is over or truncated.
func (e *Env) gameOver() bool {
	return e.console.GameOver() || e.recipe.MaxFrames > 0 && e.gameFrames >= e.recipe.MaxFrames
}

var (
	_ env.Saver     = (*Env)(nil)
	_ env.Renderer  = (*Env)(nil)
	_ env.Delayer   = (*Env)(nil)
	_ env.ActionEnv = (*Env)(nil)
	_ env.Informer  = (*Env)(nil)

	_ env.RecipeEnv = (*Env)(nil)
	_ env.Evaluable = (*Env)(nil)
	_ env.Game      = (*Env)(nil)
	_ env.Sized     = (*Env)(nil)
)

// NewEnv returns an environment for a cartridge. Options select a recipe, by default "ale", and
// change its values.
func NewEnv(rom *ROM, options env.Options) (*Env, error) {
	r, name, err := readRecipe("atari/"+rom.game.ID, options)
	if err != nil {
		return nil, err
	}
	reset, err := ParseReset(r.Reset)
	if err != nil {
		return nil, err
	}
	// Env skips frames itself. A console's FrameSkip also affects menus that a reset plays
	// through, and AtariVectorEnv's console has 1.
	c, err := NewConsole(rom, Settings{
		FrameSkip: 1, RepeatActionProbability: r.Sticky, Reset: reset,
	})
	if err != nil {
		return nil, err
	}
	if r.Mode >= 0 {
		if err := c.SetMode(r.Mode); err != nil {
			return nil, err
		}
	}
	if r.Difficulty >= 0 {
		if err := c.SetDifficulty(r.Difficulty); err != nil {
			return nil, err
		}
	}
	e := &Env{console: c, recipe: r, name: name, actions: rom.game.MinActions}
	if r.FullActions {
		e.actions = rom.game.LegalActions
	}
	if err := e.initObserver(); err != nil {
		return nil, err
	}
	e.spec.ID = "atari/" + rom.game.ID
	e.spec.Action = env.ActionSpec{N: len(e.actions)}
	for _, a := range e.actions {
		e.spec.Action.Names = append(e.spec.Action.Names, a.String())
	}
	if r.Continuous {
		e.spec.Action = env.ActionSpec{Low: []float32{0, -math.Pi, 0}, High: []float32{1, math.Pi, 1}}
	}
	e.spec.FPS = max(1, 60/r.FrameSkip)
	e.spec.LifeLoss = r.LifeLossInfo
	e.spec.MaxSteps = (r.MaxFrames + r.FrameSkip - 1) / r.FrameSkip
	e.Seed(0)
	return e, nil
}

// Bytes returns an upper bound of the memory of the console, its images and the stack of frames.
func (e *Env) Bytes() int64 { return 256<<10 + int64(e.spec.Obs.Bytes()) }

// initObserver sets the observer, the stack and the observation's spec by the recipe.
func (e *Env) initObserver() (err error) {
	r := &e.recipe
	frame := []int{r.Height, r.Width}
	switch {
	case r.ObsType == "ram":
		frame = []int{len(e.console.RAM())}
	case r.Height > e.console.Rows():
		return fmt.Errorf("img_height: %d, must be 1 to %d, the rows of the screen", r.Height, e.console.Rows())
	case r.ObsType == "rgb":
		frame = append(frame, 3)
		e.observer, err = observerOf(screen.RGBArea, e.console.Rows(), r.Height, r.Width)
	default:
		look := map[string]screen.Look{"area": screen.GreyArea, "luma": screen.LumaArea, "half": screen.GreyHalf, "opencv": screen.OpenCVArea}[r.Pixels]
		if look == screen.GreyHalf {
			frame[0] = (e.console.Rows() - 2) / 2 // PAL has more rows
		}
		e.observer, err = observerOf(look, e.console.Rows(), frame[0], r.Width)
	}
	if err != nil {
		return err
	}
	shape := append([]int{r.Stack}, frame...)
	if r.ObsType == "ram" && r.Stack == 1 {
		shape = frame
	}
	e.spec.Obs = env.ObsSpec{Shape: shape, Low: []float32{0}, High: []float32{255}, FrameStack: r.Stack}
	if r.Stack == 1 {
		e.spec.Obs.FrameStack = 0
	}
	e.stack = env.NewStack(r.Stack, e.spec.Obs.Bytes()/r.Stack)
	if (r.Ending == "stale" || r.Wrappers) && r.MaxPool {
		e.savedImages = make([]byte, 2*Width*e.console.Rows())
	}
	return nil
}

func init() {
	for _, g := range games.All() {
		if g.Unplayable {
			continue
		}
		id := "atari/" + g.ID
		env.Register(id, func(o env.Options) (env.Env, error) {
			rom, err := FindROM(g.ID, "", false)
			if err != nil {
				return nil, err
			}
			e, err := NewEnv(rom, o)
			if err != nil {
				return nil, err
			}
			return e, nil
		})
		env.Alias(camelCase(g.ID), id)
	}
}

// camelCase turns "space_invaders" into Gymnasium's "SpaceInvaders".
func camelCase(id string) string {
	var name strings.Builder
	for _, word := range strings.Split(id, "_") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

var errNotActive = errors.New("step before reset")

// Spec describes the environment by its recipe.
func (e *Env) Spec() env.Spec { return e.spec }

// Recipe returns the recipe's name and hash.
func (e *Env) Recipe() (name, hash string) { return e.name, e.recipe.Hash() }

// Seed sets the seed of all random streams at the next reset.
func (e *Env) Seed(seed uint64) { e.seed = &seed }

// Restart makes the next reset start a new game, also after the loss of a life.
func (e *Env) Restart() { e.lifeOver = false }

// Close does nothing.
func (e *Env) Close() error { return nil }

// Reset starts an episode. The game continues if the last episode ended with the loss of a life;
// otherwise Reset starts a new game.
func (e *Env) Reset(obs []byte) error {
	continueGame := e.lifeOver && !e.gameOver() && e.seed == nil
	frames := e.gameFrames
	e.episode = episode{}
	e.takeSeed()
	if continueGame {
		e.gameFrames = frames
	}
	if e.recipe.Wrappers {
		return e.resetWrapped(continueGame, obs)
	}
	if !continueGame {
		if err := e.console.Reset(); err != nil {
			return err
		}
	}
	// Stored states come after the start.
	if continueGame || e.console.settings.Reset != ResetCached {
		if err := e.start(continueGame); err != nil {
			return err
		}
	}
	e.stack.Clear()
	e.running, e.atStart, e.lives = true, true, e.console.Lives()
	e.stacked = false
	e.Observe(obs)
	return nil
}

// takeSeed restarts the console and the streams with the seed that is set for this start.
func (e *Env) takeSeed() {
	if e.seed == nil {
		return
	}
	e.stream = *rng.New(*e.seed, "env", 0)
	e.console.Restart(uint32(e.stream.Uint64()))
	e.seed = nil
	clear(e.savedImages)
}

// start plays the frames before the first observation. continueGame says that only a life is over.
func (e *Env) start(continueGame bool) error {
	r := &e.recipe
	noops := r.NoopMin
	if more := r.NoopMax - r.NoopMin; more > 1 {
		noops += e.stream.Intn(more)
	}
	var acts []games.Action
	switch {
	case r.StartActions:
		if continueGame {
			noops = 0
		}
		acts = []games.Action{games.Noop, games.Fire, games.Up}
	case r.FireReset && e.fires():
		if err := e.press(games.Fire); err != nil {
			return err
		}
		noops--
	}
	for ; noops > 0; noops-- {
		if err := e.press(games.Noop); err != nil {
			return err
		}
	}
	for _, a := range acts {
		if e.has(a) {
			if err := e.press(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// press plays an action for one frame of the start. If the game ends, press starts a new game.
func (e *Env) press(a games.Action) error {
	e.console.actUntilOver(a, 1, 1)
	if e.console.GameOver() {
		e.gameFrames = 0
		return e.console.Reset()
	}
	return nil
}

func (e *Env) has(a games.Action) bool { return slices.Contains(e.console.game.MinActions, a) }

// fires reports whether the recipe's actions include FIRE. A continuous action can be any legal
// one.
func (e *Env) fires() bool {
	actions := e.actions
	if e.recipe.Continuous {
		actions = e.console.game.LegalActions
	}
	return slices.Contains(actions, games.Fire)
}

// Step plays a discrete action.
func (e *Env) Step(action int32, obs []byte) (float32, env.End, error) {
	return e.StepAction([]int32{action}, nil, obs)
}

// StepAction plays an action.
func (e *Env) StepAction(branches []int32, box []float32, obs []byte) (float32, env.End, error) {
	reward, end, err := e.Advance(branches, box)
	if err == nil {
		e.Observe(obs)
	}
	return reward, end, err
}

// Advance plays an action. Observe writes its observation.
func (e *Env) Advance(branches []int32, box []float32) (float32, env.End, error) {
	if !e.running {
		return 0, 0, errNotActive
	}
	c, r := e.console, &e.recipe
	if e.savedImages != nil && !r.Wrappers { // the game may end with this act, whatever its lives are
		now, before := c.images()
		copy(e.savedImages[copy(e.savedImages, now):], before)
		if e.atStart {
			copy(e.savedImages[len(now):], now)
		}
	}
	a, strength := games.Action(0), float32(1)
	if r.Continuous {
		a, strength = polar(box, float32(r.Threshold)), box[0]
	} else {
		a = e.actions[branches[0]]
	}
	e.act(a, strength)
	var end env.End
	switch {
	case c.GameOver():
		end = env.Terminated
	case e.gameOver():
		end = env.Truncated
	}
	if e.lostLife() && end&env.Terminated == 0 {
		switch {
		case r.EpisodicLife:
			end |= env.Terminated
			e.lifeOver = true
		case r.LifeLossInfo:
			end |= env.Lost
		}
	}
	e.lives = c.Lives()
	e.running = !end.Over()
	reward := e.rawReward
	if r.ClipRewards {
		reward = min(max(reward, -1), 1)
	}
	return float32(reward), end, nil
}

// act plays an action for the frames of an act, or until the game is over.
func (e *Env) act(a games.Action, strength float32) {
	r := &e.recipe
	frames := r.FrameSkip
	if r.MaxFrames > 0 {
		frames = min(frames, r.MaxFrames-e.gameFrames)
	}
	e.rawReward, e.actFrames = e.console.actUntilOver(a, strength, frames)
	e.gameFrames += e.actFrames
	e.stacked, e.atStart = false, false
	if r.Wrappers && r.MaxPool {
		e.remember()
	}
}

// lostLife reports whether a life was lost in the last act.
func (e *Env) lostLife() bool {
	left := e.console.Lives()
	return left < e.lives && (left > 0 || !e.recipe.Wrappers)
}

// polar returns the action for a stick at radius box[0] and angle box[1], counterclockwise from the
// right. Each direction, and the button, box[2], counts above the threshold.
func polar(box []float32, threshold float32) games.Action {
	sin, cos := math.Sincos(float64(box[1]))
	x, y := box[0]*float32(cos), box[0]*float32(sin)
	var p uint8
	for _, part := range []struct {
		on  bool
		bit uint8
	}{{x < -threshold, left}, {x > threshold, right}, {y < -threshold, down}, {y > threshold, up}, {box[2] > threshold, fire}} {
		if part.on {
			p |= part.bit
		}
	}
	for a, parts := range directions {
		if parts == p {
			return games.Action(a)
		}
	}
	return games.Noop
}

// Observe writes the current observation.
func (e *Env) Observe(obs []byte) {
	if !e.stacked {
		e.stacked = true
		e.draw()
	}
	e.stack.Write(obs)
}

// draw adds the newest frame to the stack.
func (e *Env) draw() {
	c, r := e.console, &e.recipe
	if e.observer == nil {
		copy(e.stack.Next(), c.RAM()[:])
		return
	}
	now, before := c.images()
	over := e.gameOver() && !e.atStart
	switch stale := r.Ending == "stale"; {
	case e.atStart && !r.FirstPooled:
		before = now
	case r.Wrappers && r.MaxPool:
		now, before = e.savedImages[:len(now)], e.savedImages[len(now):]
	case stale && (over && (!r.MaxPool || e.actFrames < r.FrameSkip) || !e.atStart && e.actFrames < r.FrameSkip):
		e.stack.Repeat()
		return
	case stale && over:
		// AtariVectorEnv does not read the last image. In its place are the images read last.
		n := len(before)
		e.observer.ObserveAll(e.stack.Next(), c.Palette(), before, e.savedImages[:n], e.savedImages[n:])
		return
	case !r.MaxPool || e.actFrames == 1:
		before = now
	}
	e.observer.Observe(e.stack.Next(), now, before, c.Palette())
}

// Render returns the last frame in colour.
func (e *Env) Render() (rgb []byte, width, height int, err error) {
	rgb = make([]byte, 3*Width*e.console.Rows())
	e.console.RGB(rgb)
	return rgb, Width, e.console.Rows(), nil
}

var infos = []env.InfoSpec{
	{Name: "lives", DType: env.Int32},
	{Name: "raw_reward", DType: env.Int32},           // of the last act, before clipping
	{Name: "game_over", DType: env.Bool},             // the game, not only a life, is over or truncated
	{Name: "frame_number", DType: env.Int32},         // since the seed
	{Name: "episode_frame_number", DType: env.Int32}, // since the start of the game
	{Name: "ram", DType: env.Uint8, Len: 128},
}

// Infos describes the columns of Inform.
func (e *Env) Infos() []env.InfoSpec {
	if e.recipe.RAMInfo {
		return infos
	}
	return infos[:len(infos)-1]
}

// Inform writes the columns of Infos for row i.
func (e *Env) Inform(columns [][]byte, i int) {
	c := e.console
	put := func(k, v int) { binary.NativeEndian.PutUint32(columns[k][4*i:], uint32(int32(v))) }
	put(0, c.Lives())
	put(1, e.rawReward)
	columns[2][i] = 0
	if e.gameOver() {
		columns[2][i] = 1
	}
	put(3, c.FrameNumber())
	put(4, c.EpisodeFrameNumber())
	if e.recipe.RAMInfo {
		copy(columns[5][128*i:], c.RAM()[:])
	}
}

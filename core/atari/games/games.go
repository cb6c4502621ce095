// Package games holds facts about ale-py's 108 cartridges, and the rules that turn a machine's RAM
// into reward, end of game and lives.
//
// The facts are in games_a_j.txt and games_k_z.txt, with a block for each cartridge. The head of
// games_a_j.txt explains the notation. Nothing in this package is derived from a cartridge's code:
// the package knows where a game stores its score, not how the game plays.
//
// Invariants:
//
//   - A Game never changes. Any number of goroutines may use it.
//   - A State, an array of plain numbers, is all that a rule stores between frames. Copying it
//     saves it, == compares it.
//   - A rule is compiled once, at the first start of its game, to code for a small stack machine
//     (vm.go). The code does not allocate and cannot fail: Step returns for any contents of RAM.
//   - Rules compute with 32-bit integers. No rule of the table can overflow them.
//
// The console decides the order of events around an episode; see State.
package games

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/paceline-rl/paceline/core/nearest"
)

// Scheme is a kind of cartridge: its size, its banks, and its RAM or chip.
type Scheme uint8

const (
	Cart2K Scheme = iota
	Cart4K
	F8   // 8 KB in two banks
	F6   // 16 KB in four banks
	F8SC // F8 with 128 bytes of RAM
	F6SC // F6 with 128 bytes of RAM
	E0   // 8 KB in slices of 1 KB
	FE   // 8 KB in two banks, selected by the address
	DPC  // David Crane's chip: 8 KB in two banks, and 2 KB of graphics that a chip fetches
)

var schemes = [...]struct {
	name string
	size int
}{{"2K", 2048}, {"4K", 4096}, {"F8", 8192}, {"F6", 16384}, {"F8SC", 8192}, {"F6SC", 16384}, {"E0", 8192}, {"FE", 8192}, {"DPC", 10495}}

// String returns the customary name: "2K", "F8SC".
func (s Scheme) String() string { return schemes[s].name }

// The range of a paddle's resistance, in ohms.
const (
	PaddleMin     = 27450
	PaddleMaximum = 790196 // the default of Game.PaddleMax
)

// A Game is a cartridge and the facts for one player. Callers must not change it.
type Game struct {
	ID      string // ale-py's name: "space_invaders"
	File    string // the file in ale-py's folder: "space_invaders.bin"
	Size    int    // bytes
	MD5     string // 32 lower-case digits
	Scheme  Scheme
	Paper49 bool // one of the 49 games of Mnih et al. (2015)

	// Unplayable cartridges have no settings for one player. Their fields below are zero.
	Unplayable bool

	PAL          bool // for information; the console detects PAL itself
	YStart, Rows int  // first scanline and number of scanlines of the image
	HMOVEComb    bool // whether an early HMOVE blanks the line's first 8 pixels

	// The controllers. With sticks, Swapped puts player 0's stick on the right port. With
	// paddles, Swapped exchanges the two paddles of a port.
	LeftPaddles, RightPaddles, Swapped bool
	PaddleMax                          int

	PowerOn    int      // difficulty switches at power-on, in the encoding of Difficulties
	MinActions []Action // actions with different effects, ascending
	// LegalActions are the actions that the game accepts, ascending. Others count as NOOP.
	LegalActions []Action

	Modes        []int // in ale-py's order
	DefaultMode  int
	Difficulties []int // bit 0: left switch at A, bit 1: right switch at A
	Selection    Selection
	StartActions []Action // played at the end of a reset, a frame each

	source source
	once   sync.Once
	rule   *rule
}

// Selection is the procedure that selects a mode. After the Before fields, the console holds SELECT
// for Hold frames, repeatedly until Selected is true. A game with one mode has no Selection: Hold
// is 0, and RandomHold and Menu are not set.
type Selection struct {
	Hold       int
	RandomHold bool // adventure: hold for 2 + (next draw mod 256) frames each time, then act NOOP once

	BeforeHold  int      // number of frames to hold SELECT first, even if Selected is true
	BeforeActs  []Action // berzerk: actions to act first
	BeforeReset bool     // gopher: do a soft reset first

	// HasSteer, for video_cube: after Selected and a soft reset, act Steer until Steered.
	HasSteer bool
	Steer    Action

	Menu *Menu // double_dunk: settings made with the stick; replaces the fields above
}

// Menu is the procedure that sets double_dunk's modes. The console holds SELECT for a frame and
// presses DOWN twice. For each option it presses RIGHT until the option's bit of RAM is set, or
// LEFT until the bit is clear, by the mode's bit. Between options it presses DOWN until the
// cursor's byte changes. A press is one act of the action and one act of NOOP. A soft reset
// follows, then an act each of UPFIRE and NOOP.
type Menu struct {
	Options byte // address of the byte with the options' bits
	Cursor  byte // address of a byte that changes when the cursor moves
	Bits    []MenuBit
}

// MenuBit is one option: the mask of its bit in the mode and in the byte at Menu.Options.
type MenuBit struct{ Mode, RAM byte }

type catalogue struct {
	list  []*Game
	byID  map[string]*Game
	byMD5 map[string]*Game
}

var theCatalogue = sync.OnceValue(func() catalogue {
	c := catalogue{byID: map[string]*Game{}, byMD5: map[string]*Game{}}
	for _, text := range []string{tableAJ, tableKZ} {
		list, err := parseTable(text)
		if err != nil {
			panic("games: " + err.Error()) // the table is part of the program, and tested
		}
		c.list = append(c.list, list...)
	}
	for _, g := range c.list {
		c.byID[g.ID], c.byMD5[g.MD5] = g, g
	}
	return c
})

// All returns the 108 cartridges by id, the four unplayable ones included.
func All() []*Game { return slices.Clone(theCatalogue().list) }

// Paper49 returns the 49 games of the DQN paper.
func Paper49() []*Game {
	return slices.DeleteFunc(All(), func(g *Game) bool { return !g.Paper49 })
}

// ByID returns the game with this id. It returns an error if the id is unknown or the cartridge is
// unplayable.
func ByID(id string) (*Game, error) {
	c := theCatalogue()
	g := c.byID[id]
	switch {
	case g == nil:
		return nil, fmt.Errorf("game %q is not known; %s", id, suggest(id, c.list))
	case g.Unplayable:
		return nil, fmt.Errorf("game %q cannot be played: it has no settings for a single player", id)
	}
	return g, nil
}

// ByMD5 returns the cartridge with this MD5, in any case, or nil. The cartridge may be unplayable.
func ByMD5(md5 string) *Game { return theCatalogue().byMD5[strings.ToLower(md5)] }

func suggest(id string, list []*Game) string {
	var ids []string
	for _, g := range list {
		if !g.Unplayable {
			ids = append(ids, g.ID)
		}
	}
	// Users also write SpaceInvaders and space-invaders.
	fold := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "", "ale/", "").Replace(strings.ToLower(s))
	}
	near := nearest.Names(id, ids, max(2, len(id)/3), fold)
	if near == nil {
		return "known games: " + strings.Join(ids, ", ")
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// Package games holds what is known of the 108 cartridges that ale-py carries,
// and the rules that turn a machine's RAM into reward, end of game and lives.
//
// The facts stand in games_a_j.txt and games_k_z.txt, a block for each
// cartridge; the head of the first explains the notation. Nothing in this
// package is derived from a cartridge's code: it knows where a game keeps its
// score, not how it plays.
//
// What holds:
//
//   - A Game never changes once it is made; any number of goroutines may use one.
//   - All that a rule remembers from frame to frame is a State, an array of plain
//     numbers. Copying it saves it, == compares it.
//   - A rule is compiled once, when its game is first started, to code for a small
//     stack machine (vm.go). Running it allocates nothing and cannot fail: whatever
//     the RAM holds, Step returns.
//   - Rules compute with 32-bit integers. None of the table's can leave their range.
//
// The order of events around an episode belongs to the console; see State.
package games

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/paceline-rl/paceline/core/nearest"
)

// Scheme is how a cartridge shows more than 4 KB, or has RAM or a chip of its own.
type Scheme uint8

const (
	Cart2K Scheme = iota
	Cart4K
	F8   // 8 KB in two banks
	F6   // 16 KB in four banks
	F8SC // with 128 bytes of RAM
	F6SC
	E0  // 8 KB in slices of one
	FE  // 8 KB, banked by the address of a call
	DPC // David Crane's chip: 8 KB in two banks, 2 KB of graphics and a chip to fetch them
)

var schemes = [...]struct {
	name string
	size int
}{{"2K", 2048}, {"4K", 4096}, {"F8", 8192}, {"F6", 16384}, {"F8SC", 8192}, {"F6SC", 16384}, {"E0", 8192}, {"FE", 8192}, {"DPC", 10495}}

// String returns the customary name: "2K", "F8SC".
func (s Scheme) String() string { return schemes[s].name }

// Range of a paddle's resistance, in the unit that the games' facts use.
const (
	PaddleMin     = 27450
	PaddleMaximum = 790196 // of games that have none of their own
)

// A Game is a cartridge and all that playing it alone takes. Read only.
type Game struct {
	ID      string // ale-py's: "space_invaders"
	File    string // in ale-py's folder: "space_invaders.bin"
	Size    int    // bytes
	MD5     string // 32 lower-case digits
	Scheme  Scheme
	Paper49 bool // one of the 49 games of Mnih et al. (2015)

	// Unplayable cartridges have no settings for one player. What follows is
	// zero for them.
	Unplayable bool

	PAL          bool // what the machine is found to be; for information
	YStart, Rows int  // first scanline of the image and how many follow
	HMOVEComb    bool // whether an early HMOVE blanks the line's first 8 pixels

	// What is plugged in. With sticks, Swapped puts player 0's on the right
	// port; with paddles, it exchanges the two of a port.
	LeftPaddles, RightPaddles, Swapped bool
	PaddleMax                          int

	PowerOn    int      // difficulty switches while the machine is first turned on, as Difficulties has them
	MinActions []Action // those that make a difference, ascending
	// LegalActions are those that the game obeys, ascending; others count as NOOP.
	LegalActions []Action

	Modes        []int // as ale-py lists them
	DefaultMode  int
	Difficulties []int // bit 0: left switch at A, bit 1: right switch at A
	Selection    Selection
	StartActions []Action // done at the end of a reset, a frame each

	source source
	once   sync.Once
	rule   *rule
}

// Selection is how a mode is reached: after what comes before, SELECT is held
// for Hold frames, again and again until Selected says that the mode is there.
// Games with one mode have no Selection: Hold is 0, and neither RandomHold nor
// Menu is set.
type Selection struct {
	Hold       int
	RandomHold bool // adventure: each time 2 + (next draw mod 256) frames, then one NOOP that is acted

	BeforeHold  int      // SELECT is first held so many frames, whatever Selected says
	BeforeActs  []Action // berzerk: first acted, as a player's actions are
	BeforeReset bool     // gopher: first a soft reset

	// HasSteer: video_cube. Once Selected, a soft reset, and then Steer is acted
	// until Steered.
	HasSteer bool
	Steer    Action

	Menu *Menu // double_dunk: settings chosen with the stick, instead of the above
}

// Menu is how double_dunk's modes are set: SELECT is held for a frame, DOWN is
// pressed twice, and then for each option in turn RIGHT until its bit of RAM is
// set, or LEFT until it is clear, as the mode's bit asks; and between options
// DOWN until the cursor's byte changes. A press is the action acted once and
// NOOP acted once. A soft reset follows, then UPFIRE and NOOP, acted.
type Menu struct {
	Options byte // address of the byte whose bits are the options
	Cursor  byte // address of the byte that changes as the cursor moves
	Bits    []MenuBit
}

// MenuBit is one option: which bit of the mode, which bit of Menu.Options.
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

// All returns the 108 cartridges by id, the four unplayable ones too.
func All() []*Game { return slices.Clone(theCatalogue().list) }

// Paper49 returns the 49 games of the DQN paper.
func Paper49() []*Game {
	return slices.DeleteFunc(All(), func(g *Game) bool { return !g.Paper49 })
}

// ByID returns the game of that id. An id that is unknown, or of a cartridge
// that cannot be played, is an error.
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

// ByMD5 returns the cartridge whose ROM has that MD5 (any case), playable or
// not, or nil.
func ByMD5(md5 string) *Game { return theCatalogue().byMD5[strings.ToLower(md5)] }

func suggest(id string, list []*Game) string {
	var ids []string
	for _, g := range list {
		if !g.Unplayable {
			ids = append(ids, g.ID)
		}
	}
	// People write SpaceInvaders and space-invaders too.
	fold := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "", "ale/", "").Replace(strings.ToLower(s))
	}
	near := nearest.Names(id, ids, max(2, len(id)/3), fold)
	if near == nil {
		return "known are " + strings.Join(ids, ", ")
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

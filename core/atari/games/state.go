package games

// Slots of a State. The named ones every rule has; a rule's own names follow.
const (
	slotScore = iota // S, the score
	slotLast         // s, the score a frame ago
	slotReward
	slotTerminal
	slotL     // L, lives as the rule counts them
	slotLives // lives as they are reported
	firstOwn
	slots = 16
)

// State is what a game's rule remembers, and what it last found. A console uses
// it so: Load once, when the cartridge is plugged in; at each reset, when the
// RESET switch has been held for the first time, Start, and Chosen when a mode
// has been selected; Step after every frame that the machine runs, those of the
// reset included, but for the frames of a SELECT hold.
type State [slots]int32

// Reward is what the last frame brought.
func (s *State) Reward() int { return int(s[slotReward]) }

// Terminal says that the game is over.
func (s *State) Terminal() bool { return s[slotTerminal] != 0 }

// Lives is the number of lives that ALE reports.
func (s *State) Lives() int { return int(s[slotLives]) }

// Cart reads the cartridge's own RAM at an address of the CPU, changing nothing. Only the
// rules of Klax look there.
type Cart = func(addr uint16) byte

// Load sets the state of a machine just built. The game must be playable.
func (g *Game) Load(s *State) {
	*s = State{}
	r := g.compiled()
	r.init.run(s, &noRAM, nil, 0)
}

// Start sets the state anew for an episode. It differs from Load in the few
// variables that outlast episodes.
func (g *Game) Start(s *State) {
	r := g.compiled()
	old := *s
	g.Load(s)
	for i := range s {
		if r.kept>>i&1 != 0 {
			s[i] = old[i]
		}
	}
}

// Step applies the rule to the RAM that a frame left behind.
func (g *Game) Step(s *State, ram *[128]byte, cart Cart) {
	g.compiled().step.run(s, ram, cart, 0)
}

// Selected says whether RAM shows that the mode is selected. True for games
// that have nothing to select, and for one with a Menu.
func (g *Game) Selected(ram *[128]byte, cart Cart, mode int) bool {
	return g.test(&g.compiled().selected, ram, cart, mode)
}

// Steered says whether steering has arrived (see Selection.HasSteer).
func (g *Game) Steered(ram *[128]byte, cart Cart, mode int) bool {
	return g.test(&g.compiled().steered, ram, cart, mode)
}

func (g *Game) test(p *program, ram *[128]byte, cart Cart, mode int) bool {
	if len(p.code) == 0 {
		return true
	}
	var s State
	return p.run(&s, ram, cart, int32(mode)) != 0
}

// Chosen changes the state as the choice of a mode does, in the few games where
// it does. Called when Selected has become true.
func (g *Game) Chosen(s *State, ram *[128]byte, cart Cart, mode int) {
	g.compiled().chosen.run(s, ram, cart, int32(mode))
}

var noRAM [128]byte

// Unlisted returns the game as it is for a cartridge of other bytes than the game's
// own: its rule, actions and modes, with the console's defaults for the image and
// for what is plugged in.
func (g *Game) Unlisted(scheme Scheme) *Game {
	return &Game{
		ID: g.ID, File: g.File, Size: g.Size, MD5: g.MD5, Scheme: scheme, Unplayable: g.Unplayable,
		YStart: 34, Rows: 210, HMOVEComb: true,
		PaddleMax: g.PaddleMax, MinActions: g.MinActions, LegalActions: g.LegalActions,
		Modes: g.Modes, DefaultMode: g.DefaultMode, Difficulties: g.Difficulties, Selection: g.Selection,
		StartActions: g.StartActions, source: g.source,
	}
}

func (g *Game) compiled() *rule {
	g.once.Do(func() {
		if g.Unplayable {
			panic("games: " + g.ID + " cannot be played") // ByID never returns it
		}
		r, err := g.source.compile()
		if err != nil {
			panic("games: " + g.ID + ": " + err.Error()) // the table is part of the program, and tested
		}
		g.rule = r
	})
	return g.rule
}

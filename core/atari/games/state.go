package games

// Slots of a State. Every rule has the named slots; the rule's own variables follow.
const (
	slotScore = iota // S, the score
	slotLast         // s, the score of the previous frame
	slotReward
	slotTerminal
	slotL     // L, the rule's count of lives
	slotLives // the reported lives
	firstOwn
	slots = 16
)

// State holds the variables and the latest results of a game's rule. The console calls Load once,
// when the cartridge is inserted. At each reset it calls Start after the first hold of the RESET
// switch, and Chosen after the selection of a mode. It calls Step after every frame, those of the
// reset included, except for frames with SELECT held.
type State [slots]int32

// Reward returns the reward of the last frame.
func (s *State) Reward() int { return int(s[slotReward]) }

// Terminal reports whether the game is over.
func (s *State) Terminal() bool { return s[slotTerminal] != 0 }

// Lives returns the number of lives that ALE reports.
func (s *State) Lives() int { return int(s[slotLives]) }

// Cart reads the cartridge's RAM at an address of the CPU, without side effects. Only the rules of
// Klax use it.
type Cart = func(addr uint16) byte

// Load sets the state of a new machine. The game must be playable.
func (g *Game) Load(s *State) {
	*s = State{}
	r := g.compiled()
	r.init.run(s, &noRAM, nil, 0)
}

// Start sets the state for a new episode. Unlike Load it keeps the few variables that keep their
// values between episodes.
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

// Step applies the rule to the RAM after a frame.
func (g *Game) Step(s *State, ram *[128]byte, cart Cart) {
	g.compiled().step.run(s, ram, cart, 0)
}

// Selected reports whether RAM shows that the mode is selected. It is true for games with a single
// mode and for games with a Menu.
func (g *Game) Selected(ram *[128]byte, cart Cart, mode int) bool {
	return g.test(&g.compiled().selected, ram, cart, mode)
}

// Steered reports whether steering has reached the mode (see Selection.HasSteer).
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

// Chosen applies the effect of the selected mode on the state, which only a few games have. Call it
// after Selected has become true.
func (g *Game) Chosen(s *State, ram *[128]byte, cart Cart, mode int) {
	g.compiled().chosen.run(s, ram, cart, int32(mode))
}

var noRAM [128]byte

// Unlisted returns the game for a cartridge with unknown bytes: the game's rule, actions and modes,
// with the console's defaults for the image and the controllers.
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

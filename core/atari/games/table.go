package games

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed games_a_j.txt
var tableAJ string

//go:embed games_k_z.txt
var tableKZ string

// parseTable reads blocks: a line for the cartridge, then indented lines with a key and a value.
func parseTable(text string) ([]*Game, error) {
	var list []*Game
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		var err error
		switch {
		case trimmed == "" || trimmed[0] == '#':
		case trimmed == line:
			var g *Game
			if g, err = parseCartridge(line); err == nil {
				list = append(list, g)
			}
		case len(list) == 0:
			err = fmt.Errorf("%q: must come after a cartridge's line", trimmed)
		default:
			g := list[len(list)-1]
			key, value, _ := strings.Cut(trimmed, " ")
			if err = g.set(key, strings.TrimSpace(value)); err != nil {
				err = fmt.Errorf("%s: %s: %w", g.ID, key, err)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	for _, g := range list {
		if err := g.complete(); err != nil {
			return nil, fmt.Errorf("%s: %w", g.ID, err)
		}
	}
	return list, nil
}

// parseCartridge reads "id scheme md5", optionally followed by "paper49".
func parseCartridge(line string) (*Game, error) {
	f := strings.Fields(line)
	if len(f) < 3 || len(f) > 4 || len(f) == 4 && f[3] != "paper49" {
		return nil, fmt.Errorf("%q: must be an id, a scheme, an MD5 and perhaps paper49", line)
	}
	g := &Game{ID: f[0], File: f[0] + ".bin", MD5: f[2], Paper49: len(f) == 4, HMOVEComb: true, PaddleMax: PaddleMaximum}
	for s := range schemes {
		if schemes[s].name == f[1] {
			g.Scheme, g.Size = Scheme(s), schemes[s].size
		}
	}
	if g.Size == 0 {
		return nil, fmt.Errorf("%s: scheme %q is not known", g.ID, f[1])
	}
	if len(g.MD5) != 32 || strings.Trim(g.MD5, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("%s: MD5 %q, must be 32 lower-case hexadecimal digits", g.ID, g.MD5)
	}
	return g, nil
}

// set reads one line of a block. Only step may be repeated; its lines are joined.
func (g *Game) set(key, value string) (err error) {
	once := func(to *string) {
		if *to != "" {
			err = fmt.Errorf("%q: given twice", value)
		}
		*to = value
	}
	s := &g.Selection
	switch key {
	case "unplayable":
		g.Unplayable = true
	case "pal":
		g.PAL = true
	case "screen":
		err = integers(value, 0, 312, &g.YStart, &g.Rows)
	case "nocomb":
		g.HMOVEComb = false
	case "poweron":
		if len(value) != 2 || strings.Trim(value, "AB") != "" {
			return fmt.Errorf("%q, must be two letters A or B", value)
		}
		g.PowerOn = int(truth(value[0] == 'A') | truth(value[1] == 'A')<<1)
	case "ports":
		err = g.setPorts(value)
	case "paddle_max":
		err = integers(value, PaddleMin, 1<<20, &g.PaddleMax)
	case "actions":
		g.MinActions, err = parseActions(value)
	case "legal":
		g.LegalActions, err = parseActions(value)
	case "modes":
		g.Modes, err = parseRanges(value)
	case "difficulties":
		g.Difficulties, err = parseRanges(value)
	case "start":
		g.StartActions, err = parseActions(value)
	case "before":
		err = s.setBefore(value)
	case "select":
		how, test, ok := strings.Cut(strings.TrimPrefix(value, "hold "), " until ")
		if g.source.selected != "" || !ok {
			return fmt.Errorf("%q, must be one `hold N until TEST`", value)
		}
		g.source.selected = test
		if s.RandomHold = how == "random"; !s.RandomHold {
			err = integers(how, 1, 100, &s.Hold)
		}
	case "steer":
		who, test, ok := strings.Cut(value, " until ")
		if !ok {
			return fmt.Errorf("%q, must be `ACTION until TEST`", value)
		}
		s.HasSteer, g.source.steers = true, test
		s.Steer, err = ParseAction(who)
	case "menu":
		s.Menu, err = parseMenu(value)
	case "chosen":
		once(&g.source.chosen)
	case "init":
		once(&g.source.init)
	case "keep":
		g.source.keep = strings.Fields(value)
	case "step":
		if g.source.step != "" {
			g.source.step += "; "
		}
		g.source.step += value
	case "lives":
		once(&g.source.lives)
	default:
		err = fmt.Errorf("is not a key of the table")
	}
	return err
}

// complete sets the defaults of keys that a block leaves out, and checks the block.
func (g *Game) complete() error {
	if g.Unplayable {
		return nil
	}
	switch {
	case g.Rows != 0:
	case g.PAL:
		g.YStart, g.Rows = 34, 250
	default:
		g.YStart, g.Rows = 34, 210
	}
	if g.LegalActions == nil {
		for a := range Action(NumActions) {
			g.LegalActions = append(g.LegalActions, a)
		}
	}
	if g.MinActions == nil {
		g.MinActions = slices.Clone(g.LegalActions)
	}
	if g.Modes == nil {
		g.Modes = []int{0}
	}
	if g.Difficulties == nil {
		g.Difficulties = []int{0}
	}
	if g.source.lives == "" {
		g.source.lives = livesByDefault
	}
	g.DefaultMode = g.Modes[0]
	if len(g.Modes) > 1 && g.source.selected == "" && g.Selection.Menu == nil {
		return fmt.Errorf("modes: %d of them, must say how one is selected", len(g.Modes))
	}
	if g.source.step == "" {
		return fmt.Errorf("step: missing, must be given")
	}
	return nil
}

func (g *Game) setPorts(value string) error {
	for i, word := range strings.Fields(value) {
		switch {
		case i < 2 && word == "paddles":
			g.LeftPaddles, g.RightPaddles = g.LeftPaddles || i == 0, g.RightPaddles || i == 1
		case i < 2 && word == "stick":
		case i == 2 && word == "swapped":
			g.Swapped = true
		default:
			return fmt.Errorf("%q, must be two of stick and paddles, and perhaps swapped", value)
		}
	}
	return nil
}

func (s *Selection) setBefore(value string) (err error) {
	switch n, hold := strings.CutPrefix(value, "hold "); {
	case hold:
		err = integers(n, 1, 100, &s.BeforeHold)
	case value == "reset":
		s.BeforeReset = true
	default:
		s.BeforeActs, err = parseActions(value)
	}
	return err
}

// parseMenu reads "options $XX cursor $XX bits 1:0x08 2:0x10".
func parseMenu(value string) (*Menu, error) {
	m := &Menu{}
	text, list, _ := strings.Cut(value, " bits ")
	if n, err := fmt.Sscanf(text, "options $%X cursor $%X", &m.Options, &m.Cursor); n != 2 {
		return nil, fmt.Errorf("%q: %w", value, err)
	}
	for _, word := range strings.Fields(list) {
		var b MenuBit
		if n, err := fmt.Sscanf(word, "%d:0x%X", &b.Mode, &b.RAM); n != 2 {
			return nil, fmt.Errorf("%q: %w", word, err)
		}
		m.Bits = append(m.Bits, b)
	}
	return m, nil
}

// parseRanges reads "1-9,16". "0-2+100*50" is the range 0 to 2 and 50 more ranges, each 100 higher
// than the one before.
func parseRanges(value string) (list []int, err error) {
	for _, part := range strings.Split(value, ",") {
		span, again, _ := strings.Cut(part, "+")
		first, last, isSpan := strings.Cut(span, "-")
		step, times, _ := strings.Cut(again, "*")
		var lo, hi, by, n int
		if err = integers(first, 0, 1<<16, &lo); err == nil && isSpan {
			err = integers(last, lo, 1<<16, &hi)
		} else {
			hi = lo
		}
		if err == nil && again != "" {
			err = integers(step+" "+times, 1, 1<<10, &by, &n)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		for k := 0; k <= n; k++ {
			for v := lo; v <= hi; v++ {
				list = append(list, v+k*by)
			}
		}
	}
	return list, nil
}

// integers reads exactly len(to) numbers.
func integers(text string, least, most int, to ...*int) error {
	words := strings.Fields(text)
	if len(words) != len(to) {
		return fmt.Errorf("%q, must be %d numbers", text, len(to))
	}
	for i, word := range words {
		v, err := parseInt(word, least, most)
		if err != nil {
			return err
		}
		*to[i] = v
	}
	return nil
}

func parseInt(text string, least, most int) (int, error) {
	v, err := strconv.Atoi(text)
	if err != nil || v < least || v > most {
		return 0, fmt.Errorf("%q, must be %d to %d", text, least, most)
	}
	return v, nil
}

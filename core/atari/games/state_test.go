package games

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func game(t testing.TB, id string) *Game {
	t.Helper()
	g, err := ByID(id)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// frame is a change of RAM and the results that the rule must return.
type frame struct {
	set      map[byte]byte // address: value; other addresses stay
	reward   int
	terminal bool
	lives    int
}

func TestRulesReadScoreAndEnd(t *testing.T) {
	for id, frames := range map[string][]frame{
		"adventure":      {{map[byte]byte{0xB9: 1}, 0, false, 1}, {map[byte]byte{0xB9: 0x12}, 1, true, 1}},
		"alien":          {{map[byte]byte{0x8B: 0x28, 0x89: 8, 0x87: 0x80, 0x85: 0x80, 0x83: 0x80, 0xC0: 3}, 150, false, 3}, {map[byte]byte{0xC0: 0x10}, 0, true, 0}},
		"amidar":         {{map[byte]byte{0xD9: 0x25, 0xDA: 1, 0xD6: 3}, 125, false, 3}, {map[byte]byte{0xD6: 0x80}, 0, true, 0}},
		"asteroids":      {{map[byte]byte{0xBE: 0x90, 0xBD: 0x99, 0xBC: 0x40}, 99900, false, 4}, {map[byte]byte{0xBE: 0, 0xBD: 0}, 100, false, 4}},
		"backgammon":     {{map[byte]byte{0x80: 0, 0x8E: 0, 0x81: 15, 0x82: 0xF1}, 0, false, 1}, {map[byte]byte{0x80: 0xF1, 0x82: 0}, 1, true, 0}},
		"beam_rider":     {{map[byte]byte{0x85: 2}, 0, false, 3}, {map[byte]byte{0x85: 1}, 0, false, 3}, {map[byte]byte{0x8C: 1}, 0, false, 2}, {map[byte]byte{0x85: 0xFF}, 0, true, 0}},
		"boxing":         {{map[byte]byte{0x90: 0x20, 0x92: 7, 0x93: 9}, -2, false, 0}, {map[byte]byte{0x92: 0xC0}, 93, true, 0}},
		"breakout":       {{map[byte]byte{0xB9: 0}, 0, false, 0}, {map[byte]byte{0xB9: 5, 0xCD: 0x31, 0xCC: 2}, 231, false, 5}, {map[byte]byte{0xB9: 0}, 0, true, 0}},
		"demon_attack":   {{map[byte]byte{0x81: 0xAB, 0x83: 0xCD, 0x85: 0xEA, 0xF2: 3}, 0, false, 4}, {map[byte]byte{0x85: 0x35, 0x83: 0, 0x81: 0}, 35, false, 4}, {map[byte]byte{0xF2: 0, 0xF1: 0xBD}, 0, true, 0}},
		"et":             {{map[byte]byte{0xE5: 2}, 0, false, 3}, {map[byte]byte{0xE5: 0xFF, 0x80: 8}, 0, false, 256}},
		"freeway":        {{map[byte]byte{0xE7: 3}, 1, false, 0}, {map[byte]byte{0xE7: 2}, 0, false, 0}, {map[byte]byte{0x96: 1}, 0, true, 0}},
		"gopher":         {{map[byte]byte{0xB4: 7}, 0, false, 3}, {map[byte]byte{0xB4: 0x0A}, 0, false, 1}, {map[byte]byte{0xB4: 0xF8}, 0, true, 0}},
		"hangman":        {{map[byte]byte{0xEB: 1, 0xF1: 255}, 1, true, 0}, {nil, 0, false, 1}, {map[byte]byte{0xF1: 0}, 0, true, 0}},
		"pitfall":        {{map[byte]byte{0xD7: 0, 0xD6: 0x20, 0x80: 0xA0}, 0, false, 3}, {map[byte]byte{0x80: 0x80, 0xD7: 0x50}, 50, false, 2}, {map[byte]byte{0x80: 0, 0x9E: 1}, 0, true, 0}},
		"pitfall2":       {{map[byte]byte{0xC8: 0x40}, 0, false, 1}, {map[byte]byte{0xC8: 0x90, 0xC7: 0x19}, 195000, true, 0}},
		"pong":           {{map[byte]byte{0x8D: 1}, -1, false, 0}, {map[byte]byte{0x8E: 21}, 21, true, 0}},
		"private_eye":    {{map[byte]byte{0xC9: 0x10, 0xC2: 1}, 0, false, 0}, {map[byte]byte{0xC9: 0, 0xC2: 2}, -1000, true, 0}},
		"qbert":          {{map[byte]byte{0x88: 2, 0xDB: 0x25}, 25, false, 4}, {map[byte]byte{0x88: 1}, 0, false, 3}, {map[byte]byte{0x88: 0xFE, 0xDB: 0}, 0, true, 0}, {nil, 0, true, 0}},
		"riverraid":      {{map[byte]byte{0xD7: 72, 0xD5: 8, 0xC0: 0x58}, 19, false, 4}, {map[byte]byte{0xC0: 0x59}, 0, false, 1}, {map[byte]byte{0xC0: 0x58}, 0, true, 0}, {map[byte]byte{0xC0: 0x10}, 0, false, 3}},
		"skiing":         {{map[byte]byte{0xE9: 1, 0xEA: 2}, -102, false, 0}, {map[byte]byte{0xE8: 1, 0x91: 0xFF}, -6000, true, 0}},
		"space_invaders": {{map[byte]byte{0xE8: 0x30, 0xE6: 0x99, 0xC9: 3}, 9930, false, 3}, {map[byte]byte{0xE8: 0x05, 0xE6: 0}, 75, false, 3}, {map[byte]byte{0x98: 0x80}, 0, true, 0}},
		"superman":       {{map[byte]byte{0x9F: 0x40}, 0, false, 1}, {map[byte]byte{0x80: 0xAC, 0x81: 0xF2, 0xE3: 0x10, 0xE2: 0x30}, 5999 - 630, true, 0}},
		"tetris":         {{map[byte]byte{0xF1: 4}, 4, false, 0}, {map[byte]byte{0xF3: 0x80, 0xF1: 5}, 1, true, 0}, {map[byte]byte{0xF3: 0, 0xF1: 7}, 7, false, 0}},
		"time_pilot":     {{map[byte]byte{0x8B: 3, 0x80: 2}, 0, false, 4}, {map[byte]byte{0x8B: 1, 0x80: 1}, 0, false, 4}, {map[byte]byte{0xA0: 1}, 0, true, 0}},
		"tic_tac_toe_3d": {{map[byte]byte{0xFF: 0xF3, 0xFE: 0x10, 0xE1: 8}, 1, true, 0}, {map[byte]byte{0xFF: 0}, 0, true, 0}},
		"video_checkers": {{map[byte]byte{0x80: 0x10, 0x90: 0x90}, 0, false, 1}, {map[byte]byte{0x90: 0}, 1, true, 0}},
		"video_chess":    {{map[byte]byte{0xE1: 0x82, 0xEE: 2}, 0, false, 1}, {map[byte]byte{0xEE: 1}, -1, true, 0}},
	} {
		g := game(t, id)
		var s State
		var ram [128]byte
		g.Load(&s)
		g.Start(&s)
		for i, f := range frames {
			for a, v := range f.set {
				ram[a-0x80] = v
			}
			g.Step(&s, &ram, nil)
			if s.Reward() != f.reward || s.Terminal() != f.terminal || s.Lives() != f.lives {
				t.Errorf("%s, frame %d: reward %d, over %v, %d lives; want %d, %v, %d", id, i, s.Reward(), s.Terminal(), s.Lives(), f.reward, f.terminal, f.lives)
			}
		}
	}
}

// Othello is over after 51 frames without a change of the board.
func TestOthelloEndsWithoutMoves(t *testing.T) {
	g := game(t, "othello")
	var s State
	var ram [128]byte
	g.Load(&s)
	for i := range 51 {
		if g.Step(&s, &ram, nil); s.Terminal() != (i == 50) {
			t.Fatalf("over in frame %d", i)
		}
	}
}

func TestKlaxReadsTheCartridge(t *testing.T) {
	g := game(t, "klax")
	board := [256]byte{0xB4: 0x25, 0xB5: 0x01, 0xEA: 2}
	cart := func(a uint16) byte { return board[a&0xFF] }
	var s State
	var ram [128]byte
	g.Load(&s)
	g.Step(&s, &ram, cart)
	if s.Reward() != 125 || s.Terminal() || !g.Selected(&ram, cart, 2) || g.Selected(&ram, cart, 1) {
		t.Error(s)
	}
	board[0x9D] = 0x99
	if g.Step(&s, &ram, cart); s.Reward() != 0 || !s.Terminal() {
		t.Error(s)
	}
}

// Only video_cube keeps a variable between episodes: the byte whose change from 255 to 0 it
// detects.
func TestStartKeepsVariables(t *testing.T) {
	for _, g := range All() {
		if g.Unplayable {
			continue
		}
		var fresh, s State
		g.Load(&fresh)
		for i := range s {
			s[i] = 77
		}
		if g.Start(&s); (s == fresh) == (g.ID == "video_cube") {
			t.Errorf("%s starts with %v, loads with %v", g.ID, s, fresh)
		}
	}
	g := game(t, "video_cube")
	var s State
	ram := [128]byte{0xDB - 0x80: 255}
	for i := range 54 {
		ram[0x20+i] = byte(i) // no face has a single colour
	}
	g.Load(&s)
	g.Step(&s, &ram, nil)
	g.Start(&s)
	ram[0xDB-0x80] = 0
	if g.Step(&s, &ram, nil); !s.Terminal() || s.Reward() != -1 {
		t.Error("video_cube does not keep its variable at a reset")
	}
}

func TestChosenSetsLivesAndSides(t *testing.T) {
	var ram [128]byte
	ram[0xC0-0x80] = 7
	for _, x := range []struct {
		id          string
		mode, lives int
	}{{"alien", 2, 7}, {"gravitar", 0, 6}, {"gravitar", 1, 15}, {"gravitar", 3, 100}, {"gravitar", 4, 25}, {"seaquest", 0, 4}} {
		g := game(t, x.id)
		var s State
		g.Load(&s)
		if g.Chosen(&s, &ram, nil, x.mode); s.Lives() != x.lives {
			t.Errorf("%s, mode %d: %d lives, want %d", x.id, x.mode, s.Lives(), x.lives)
		}
	}
	// The mode sets the player's side, which decides the sign of the reward.
	for mode, reward := range map[int]int{1: -1, 11: 1} {
		g := game(t, "video_checkers")
		var s State
		g.Load(&s)
		g.Chosen(&s, &ram, nil, mode)
		if g.Step(&s, &ram, nil); s.Reward() != reward {
			t.Errorf("video_checkers, mode %d: reward %d, want %d", mode, s.Reward(), reward)
		}
	}
	// In demon_attack the choice of a mode hides the end of the game for a frame.
	g := game(t, "demon_attack")
	var s State
	ram[0xF1-0x80] = 0xBD
	g.Load(&s)
	g.Chosen(&s, &ram, nil, 1)
	for i, over := range []bool{false, true} {
		if g.Step(&s, &ram, nil); s.Terminal() != over {
			t.Errorf("demon_attack is over in frame %d: %v", i, s.Terminal())
		}
	}
}

func TestSelectedReadsTheMode(t *testing.T) {
	for _, x := range []struct {
		id   string
		set  map[byte]byte
		mode int
		want bool
	}{
		{"space_invaders", map[byte]byte{0xDC: 5}, 5, true}, {"space_invaders", map[byte]byte{0xDC: 5}, 4, false},
		{"adventure", map[byte]byte{0xDD: 5}, 2, true}, {"adventure", map[byte]byte{0xDD: 6}, 2, false},
		{"video_checkers", map[byte]byte{0xF6: 17}, 11, true}, {"video_checkers", map[byte]byte{0xF6: 9}, 9, true}, {"video_checkers", map[byte]byte{0xF6: 11}, 11, false},
		{"ms_pacman", map[byte]byte{0x99: 1, 0xA1: 1}, 0, true}, {"ms_pacman", map[byte]byte{0x99: 1, 0xA1: 1}, 1, false}, {"ms_pacman", map[byte]byte{0x99: 3}, 3, true},
		{"jamesbond", map[byte]byte{0x8C: 0x49}, 1, true}, {"jamesbond", map[byte]byte{0x8C: 0x49}, 0, false},
		{"video_cube", map[byte]byte{0xFB: 0xE8}, 3102, true}, {"video_cube", map[byte]byte{0xFB: 0xE8}, 3101, false}, {"video_cube", map[byte]byte{0xFB: 2}, 1, true},
		{"crossbow", nil, 0, false}, {"crossbow", map[byte]byte{0x8D: 7}, 6, true},
		{"seaquest", nil, 0, true}, {"double_dunk", nil, 3, true},
	} {
		var ram [128]byte
		for a, v := range x.set {
			ram[a-0x80] = v
		}
		if got := game(t, x.id).Selected(&ram, nil, x.mode); got != x.want {
			t.Errorf("%s with %v, mode %d: %v, want %v", x.id, x.set, x.mode, got, x.want)
		}
	}
	g := game(t, "video_cube")
	var ram [128]byte
	for shown, modes := range map[byte]map[int]bool{0x01: {0: true, 101: true, 202: false}, 0x12: {1202: true, 1102: false}} {
		ram[0x9F-0x80] = shown
		for mode, want := range modes {
			if got := g.Steered(&ram, nil, mode); got != want {
				t.Errorf("video_cube showing %x, mode %d: %v, want %v", shown, mode, got, want)
			}
		}
	}
}

// The results of every rule equal those of Python's eval (testdata/golden.py).
func TestRulesEqualPython(t *testing.T) {
	file, err := os.Open("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seed := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		f := strings.Fields(lines.Text())
		if len(f) != 8 {
			t.Fatalf("%q: %d fields", lines.Text(), len(f))
		}
		counts, hash := replay(t, game(t, f[0]), numbers(t, f[1]), numbers(t, f[2]), numbers(t, strings.ReplaceAll(f[3], "=", ",")), uint64(seed))
		for i, want := range f[4:7] {
			if got := strconv.Itoa(counts[i]); got != want {
				t.Errorf("%s: %s frames %s, want %s", f[0], got, []string{"over", "rewarded", "selected"}[i], want)
			}
		}
		if got, err := strconv.ParseUint(f[7], 16, 64); err != nil || got != hash {
			t.Errorf("%s: hash %016x, want %s", f[0], hash, f[7])
		}
		seed++
	}
	if seed != 104 {
		t.Errorf("%d games, want 104", seed)
	}
}

func numbers(t *testing.T, text string) (list []int) {
	if text == "-" {
		return nil
	}
	for _, word := range strings.Split(text, ",") {
		v, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// replay is the function run of golden.py.
func replay(t *testing.T, g *Game, places, values, pairs []int, state uint64) (counts [3]int, hash uint64) {
	rnd := func(n int) int {
		state = state*6364136223846793005 + 1442695040888963407
		return int(state >> 33 % uint64(n))
	}
	var memory [384]byte
	for i := range memory {
		memory[i] = byte(rnd(256))
	}
	ram := (*[128]byte)(memory[:128])
	cart := func(a uint16) byte { return memory[128+int(a&255)] }
	hash = 0xCBF29CE484222325
	var s State
	mode := 0
	g.Load(&s)
	for frame := range 1500 {
		if frame%50 == 0 {
			g.Start(&s)
			mode = g.Modes[rnd(len(g.Modes))]
			g.Chosen(&s, ram, cart, mode)
		}
		for range 1 + rnd(4) {
			switch kind := rnd(32); {
			case kind == 0:
				lo, v := rnd(128), values[rnd(len(values))]
				hi := min(128, lo+1+rnd(128))
				for i := lo; i < hi; i++ {
					memory[i] = byte(v)
				}
			case kind < 16 && len(pairs) > 0:
				i := rnd(len(pairs) / 2)
				memory[pairs[2*i]] = byte(pairs[2*i+1])
			case kind < 30:
				a := places[rnd(len(places))]
				memory[a] = byte(values[rnd(len(values))] + rnd(3) - 1)
			default:
				a := rnd(384)
				memory[a] = byte(rnd(256))
			}
		}
		g.Step(&s, ram, cart)
		found := g.Selected(ram, cart, mode)
		answers := [4]int{s.Reward(), int(truth(s.Terminal())), s.Lives(), int(truth(found))}
		counts[0] += answers[1]
		counts[1] += int(truth(answers[0] != 0))
		counts[2] += answers[3]
		for _, v := range answers {
			for shift := 0; shift < 64; shift += 8 {
				hash = (hash ^ uint64(v>>shift&255)) * 0x100000001B3
			}
		}
	}
	return counts, hash
}

func TestRulesDoNotAllocate(t *testing.T) {
	var ram [128]byte
	cart := func(a uint16) byte { return byte(a) }
	for _, g := range All() {
		if g.Unplayable {
			continue
		}
		var s State
		g.Load(&s)
		if n := testing.AllocsPerRun(10, func() {
			g.Start(&s)
			g.Step(&s, &ram, cart)
			g.Selected(&ram, cart, 1)
			g.Steered(&ram, cart, 1)
			g.Chosen(&s, &ram, cart, 1)
		}); n != 0 {
			t.Errorf("%s allocates %v times", g.ID, n)
		}
	}
}

// Several goroutines use a game for the first time concurrently.
func TestGoroutinesShareAGame(t *testing.T) {
	g := &Game{ID: "x", source: source{init: "L=3", step: "S=bcd($80,$81); T=S>100; L=$82", lives: livesByDefault}}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var s State
			g.Load(&s)
			if s.Lives() != 3 {
				t.Error(s)
			}
			if g.Step(&s, &[128]byte{0x99, 1, 2}, nil); s.Reward() != 199 || !s.Terminal() || s.Lives() != 0 {
				t.Error(s)
			}
		})
	}
	all.Wait()
}

func BenchmarkStep(b *testing.B) {
	for _, id := range []string{"pong", "seaquest", "space_invaders", "breakout", "alien", "riverraid", "miniature_golf", "video_cube", "tic_tac_toe_3d"} {
		g := game(b, id)
		b.Run(id, func(b *testing.B) {
			var s State
			var ram [128]byte
			for i := range ram {
				ram[i] = byte(i*7 + 1)
			}
			g.Load(&s)
			for b.Loop() {
				g.Step(&s, &ram, nil)
				s[slotTerminal] = 0
			}
		})
	}
}

// BenchmarkAllGames measures the average rule, over all games in turn.
func BenchmarkAllGames(b *testing.B) {
	var ram [128]byte
	cart := func(a uint16) byte { return byte(a) }
	var list []*Game
	for _, g := range All() {
		if !g.Unplayable {
			list = append(list, g)
		}
	}
	states := make([]State, len(list))
	for i, g := range list {
		g.Load(&states[i])
	}
	for i := 0; b.Loop(); i++ {
		k := i % len(list)
		list[k].Step(&states[k], &ram, cart)
	}
}

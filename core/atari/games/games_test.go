package games

import (
	"slices"
	"strings"
	"testing"
)

func TestCatalogueIsComplete(t *testing.T) {
	all := All()
	schemes, sizes, unplayable := map[string]int{}, map[int]int{}, []string{}
	for i, g := range all {
		schemes[g.Scheme.String()]++
		sizes[g.Size]++
		if i > 0 && all[i-1].ID >= g.ID {
			t.Errorf("%s comes after %s", g.ID, all[i-1].ID)
		}
		if ByMD5(strings.ToUpper(g.MD5)) != g {
			t.Errorf("%s is not found by its MD5", g.ID)
		}
		if g.Unplayable {
			unplayable = append(unplayable, g.ID)
			continue
		}
		if got, err := ByID(g.ID); got != g || err != nil {
			t.Errorf("ByID(%q): %v, %v", g.ID, got, err)
		}
		for _, list := range [][]Action{g.MinActions, g.LegalActions} {
			if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) || list[len(list)-1] >= NumActions {
				t.Errorf("%s: actions %v", g.ID, list)
			}
		}
		if g.DefaultMode != g.Modes[0] || g.Difficulties[0]&^3 != 0 || g.PaddleMax < 790196 {
			t.Errorf("%s: modes %v, difficulties %v, paddles up to %d", g.ID, g.Modes, g.Difficulties, g.PaddleMax)
		}
	}
	if want := []string{"combat", "joust", "maze_craze", "warlords"}; !slices.Equal(unplayable, want) {
		t.Errorf("unplayable: %v, want %v", unplayable, want)
	}
	for scheme, want := range map[string]int{"2K": 20, "4K": 52, "F8": 24, "F6": 4, "E0": 3, "F6SC": 2, "F8SC": 1, "FE": 1, "DPC": 1} {
		if schemes[scheme] != want {
			t.Errorf("%d cartridges of scheme %s, want %d", schemes[scheme], scheme, want)
		}
	}
	for size, want := range map[int]int{2048: 20, 4096: 52, 8192: 29, 16384: 6, 10495: 1} {
		if sizes[size] != want {
			t.Errorf("%d cartridges of %d bytes, want %d", sizes[size], size, want)
		}
	}
	if len(all) != 108 || len(Paper49()) != 49 {
		t.Errorf("%d cartridges, %d of them of the paper", len(all), len(Paper49()))
	}
	if ByMD5("00") != nil {
		t.Error("a game has MD5 00")
	}
	all[0] = nil
	if All()[0] == nil {
		t.Error("All returns its internal list")
	}
}

func TestFactsOfSomeGames(t *testing.T) {
	get := func(id string) *Game {
		g, err := ByID(id)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	eq := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	pong := get("pong")
	eq("pong", [...]any{pong.File, pong.LeftPaddles, pong.RightPaddles, pong.Swapped, pong.Paper49, pong.YStart, pong.Rows},
		[...]any{"pong.bin", true, true, true, true, 34, 210})
	eq("pong's actions", slices.Equal(pong.MinActions, []Action{Noop, Fire, Right, Left, RightFire, LeftFire}), true)
	surround := get("surround")
	eq("surround", [...]any{surround.LeftPaddles, surround.Swapped}, [...]any{false, true})
	eq("backgammon's paddles", get("backgammon").PaddleMax, 1000000)
	eq("kaboom's paddles", get("kaboom").PaddleMax, PaddleMaximum)
	eq("amidar's switches", get("amidar").PowerOn, 3)
	eq("seaquest's switches", get("seaquest").PowerOn, 0)
	eq("asteroids' comb", get("asteroids").HMOVEComb, false)
	eq("seaquest's comb", get("seaquest").HMOVEComb, true)
	pal := get("king_kong")
	eq("king_kong", [...]any{pal.PAL, pal.YStart, pal.Rows}, [...]any{true, 34, 250})
	eq("pooyan's rows", get("pooyan").Rows, 220)
	skiing := get("skiing")
	eq("skiing's legal actions", slices.Contains(skiing.LegalActions, Fire) || len(skiing.LegalActions) != 9, false)
	cube := get("video_cube")
	eq("video_cube's modes", len(cube.Modes)*1000000+cube.Modes[3]*10000+cube.Modes[152], 153*1000000+100*10000+5002)
	eq("video_cube", [...]any{cube.Selection.HasSteer, cube.Selection.Steer, cube.Selection.Hold}, [...]any{true, Right, 2})
	eq("casino's start", len(get("casino").StartActions)*100+int(get("casino").StartActions[61]), 6201)
	eq("keystone_kapers' start", get("keystone_kapers").StartActions[0], Reset)
	eq("adventure", get("adventure").Selection.RandomHold, true)
	eq("air_raid", get("air_raid").Selection.BeforeHold, 20)
	eq("berzerk", len(get("berzerk").Selection.BeforeActs), 20)
	eq("gopher", get("gopher").Selection.BeforeReset, true)
	eq("seaquest", get("seaquest").Selection.Hold, 0)
	menu := get("double_dunk").Selection.Menu
	eq("double_dunk", [...]any{menu.Options, menu.Cursor, menu.Bits[2], len(menu.Bits)}, [...]any{byte(0x80), byte(0xB0), MenuBit{4, 4}, 4})
}

func TestUnknownGamesGetSuggestions(t *testing.T) {
	for id, want := range map[string]string{
		"SpaceInvaders": `game "SpaceInvaders" is not known; did you mean space_invaders?`,
		"ALE/Pong":      `game "ALE/Pong" is not known; did you mean pong?`,
		"sequest":       `game "sequest" is not known; did you mean seaquest?`,
		"combat":        `game "combat" cannot be played: it has no settings for a single player`,
		"tempest 2600":  `game "tempest 2600" is not known; known games: adventure, air_raid, `,
	} {
		if g, err := ByID(id); g != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("ByID(%q): %v, %v; want %s", id, g, err, want)
		}
	}
}

func TestActionsHaveALENames(t *testing.T) {
	for a := range Action(NumActions) {
		if got, err := ParseAction(a.String()); got != a || err != nil {
			t.Errorf("%v read back: %v, %v", a, got, err)
		}
	}
	// ale-py's names and numbers.
	for a, want := range map[Action]string{0: "NOOP", 1: "FIRE", 2: "UP", 3: "RIGHT", 4: "LEFT", 5: "DOWN", 9: "DOWNLEFT", 10: "UPFIRE",
		14: "UPRIGHTFIRE", 17: "DOWNLEFTFIRE", 40: "RESET", 18: "Action(18)"} {
		if a.String() != want {
			t.Errorf("action %d is called %s, want %s", int(a), a, want)
		}
	}
	if a, err := ParseAction("RESET"); a != Reset || err != nil {
		t.Error(a, err)
	}
	for name, want := range map[string]string{"FIER": "did you mean FIRE?", "up": "did you mean UP?", "jump high": "known actions: NOOP, FIRE"} {
		if _, err := ParseAction(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("action %q: %v, want %s", name, err, want)
		}
	}
}

func TestTableErrorsNameTheMistake(t *testing.T) {
	const md5 = "0123456789abcdef0123456789abcdef"
	block := func(lines ...string) string {
		return "# a comment\nx 4K " + md5 + " paper49\n\t" + strings.Join(lines, "\n\t")
	}
	if list, err := parseTable(block("step S=$80", "step T=S==1")); err != nil || len(list) != 1 || list[0].source.step != "S=$80; T=S==1" {
		t.Fatal(list, err)
	}
	for text, want := range map[string]string{
		"\tpal":                          `line 1: "pal": must come after a cartridge's line`,
		"x 4K":                           "must be an id, a scheme, an MD5",
		"x 4K " + md5 + " paper":         "and perhaps paper49",
		"x 5K " + md5:                    `scheme "5K" is not known`,
		"x 4K abc":                       `MD5 "abc", must be 32`,
		block("pal"):                     "x: step: missing, must be given",
		block("sound loud"):              "line 3: x: sound: is not a key",
		block("screen 34"):               `"34", must be 2 numbers`,
		block("screen 34 400"):           `"400", must be 0 to 312`,
		block("poweron AC"):              `"AC", must be two letters A or B`,
		block("ports mouse"):             `"mouse", must be two of stick and paddles`,
		block("ports stick stick stick"): "perhaps swapped",
		block("paddle_max 1"):            `"1", must be 27450 to`,
		block("actions NOOP JUMPING"):    `"JUMPING" is not known`,
		block("actions"):                 "none given",
		block("start FIRE*0"):            `"FIRE*0": "0", must be 1 to 1000`,
		block("modes 1-x"):               `"x", must be 1 to`,
		block("modes 3-1"):               `"1", must be 3 to`,
		block("modes 0+1"):               `"1 ", must be 2 numbers`,
		block("modes 0,1", "step S=$80"): "2 of them, must say how one is selected",
		block("select $80==m"):           "must be one `hold N until TEST`",
		block("select hold x until $80"): `"x", must be 1 to 100`,
		block("select hold 1 until $80", "select hold 1 until $80"): "must be one",
		block("steer RIGHT"):                          "must be `ACTION until TEST`",
		block("before hold 0"):                        `"0", must be 1 to 100`,
		block("menu $80"):                             `"$80":`,
		block("menu options $80 cursor $81 bits 1=2"): `"1=2":`,
		block("lives 0", "lives 1"):                   `"1": given twice`,
	} {
		if _, err := parseTable(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

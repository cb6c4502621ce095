package builtin

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/env/envtest"
)

const (
	prefix   = "atari/"
	numAtari = 104
)

// someAtari are the Atari games that TestSuite tests if their cartridges are available.
var someAtari = []string{"atari/breakout", "atari/pong", "atari/seaquest"}

func TestIDs(t *testing.T) {
	want := []string{"Acrobot-v1", "Bricks-v0", "CartPole-v1", "Catch-v0",
		"Mini-Asterix-v0", "Mini-Breakout-v0", "Mini-Freeway-v0", "Mini-Seaquest-v0", "Mini-SpaceInvaders-v0",
		"MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"}
	var small, atari []string
	for _, id := range env.IDs() {
		if strings.HasPrefix(id, prefix) {
			atari = append(atari, id)
		} else {
			small = append(small, id)
		}
	}
	if !slices.Equal(small, want) {
		t.Errorf("%v, want %v", small, want)
	}
	if len(atari) != numAtari {
		t.Errorf("%d Atari games, want %d", len(atari), numAtari)
	}
	for _, id := range someAtari {
		if !slices.Contains(atari, id) {
			t.Errorf("%s is missing", id)
		}
	}
}

// Every environment passes the suite of core/env: those that need no files always, some Atari
// games if a folder of cartridges is known.
func TestSuite(t *testing.T) {
	for _, id := range env.IDs() {
		if !strings.HasPrefix(id, prefix) {
			t.Run(id, func(t *testing.T) { envtest.Run(t, id) })
		}
	}
	t.Run("atari", func(t *testing.T) {
		if os.Getenv("PACELINE_ROMS_DIR") == "" && os.Getenv("ALE_ROMS_DIR") == "" {
			t.Skipf("left out: %s, as neither PACELINE_ROMS_DIR nor ALE_ROMS_DIR names a folder of cartridges", strings.Join(someAtari, ", "))
		}
		if _, err := env.Make(someAtari[0], nil); err != nil && strings.Contains(err.Error(), "without a C compiler") {
			t.Skipf("left out: %s; %v", strings.Join(someAtari, ", "), err)
		}
		for _, id := range someAtari {
			t.Run(strings.TrimPrefix(id, prefix), func(t *testing.T) { envtest.Run(t, id) })
		}
	})
}

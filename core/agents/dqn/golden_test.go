package dqn

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
)

// run is a run with a row in the golden file.
type run struct {
	name  string
	c     Config
	steps int64
}

// seedRuns are the runs of TestOneSeedOneResult.
func seedRuns() []run {
	catch := DefaultConfig()
	catch.Env, catch.NumEnvs, catch.Seed = "Catch-v0", 4, 3
	catch.LearningStarts, catch.BatchSize, catch.BufferSize, catch.TrainFreq = 200, 4, 1500, 16
	catch.Window, catch.TargetUpdateInterval, catch.ExplorationSteps = 250, 500, 1000
	if kernel.ISA() == "go" {
		catch.Policy = train.PolicyMLP // convolutions take minutes in Go and test nothing more
	}
	return []run{
		{"CartPole", cartpole(func(c *Config) { c.NumEnvs = 8 }), 20_000},
		{"CartPole, actor target", cartpole(func(c *Config) { c.Actor, c.Window = ActorTarget, 0 }), 5_000},
		{"CartPole, W = 3 divides nothing", cartpole(func(c *Config) { c.NumEnvs, c.TrainFreq, c.GradientSteps, c.Window = 3, 7, 2, 50 }), 5_000},
		{"CartPole, unsynchronised", cartpole(func(c *Config) { c.Synchronized, c.NumEnvs = false, 5 }), 5_000},
		{"Catch", catch, 2_000},
	}
}

// textbookRuns are the runs of TestStandardModeIsTextbookDQN.
func textbookRuns() []run {
	var runs []run
	for _, c := range []Config{
		cartpole(func(c *Config) { c.NumEnvs, c.Concurrent, c.Synchronized = 1, settings.Off, false }),
		cartpole(func(c *Config) { c.NumEnvs, c.Concurrent, c.Synchronized, c.TrainFreq = 1, settings.Off, true, 3 }),
		cartpole(func(c *Config) {
			c.Env = "MountainCar-v0"
			c.NumEnvs, c.Concurrent, c.BufferSize = 1, settings.Off, 300
		}),
	} {
		runs = append(runs, run{fmt.Sprintf("textbook %s F=%d", c.Env, c.TrainFreq), c, 1500})
	}
	return runs
}

// goldenPaths are the paths with rows in the golden file.
var goldenPaths = []string{"go", "generic", "avx2", "avx512", "avx512bf16"}

// goldenRows returns the golden file's rows, by path and run.
func goldenRows(t *testing.T) map[string]map[string]Hashes {
	golden := map[string]map[string]Hashes{}
	for _, line := range strings.Split(string(must(os.ReadFile("testdata/golden.txt"))(t)), "\n") {
		f := strings.Split(line, " | ")
		if len(f) != 5 {
			continue
		}
		if golden[f[0]] == nil {
			golden[f[0]] = map[string]Hashes{}
		}
		golden[f[0]][f[1]] = Hashes{f[2], f[3], f[4]}
	}
	return golden
}

// rowNames names the rows of a path, for the message about rows that are left out.
func rowNames(isa string, runs []run) string {
	names := make([]string, len(runs))
	for i, x := range runs {
		names[i] = isa + " | " + x.name
	}
	return strings.Join(names, "; ")
}

// No bit of training has changed since the golden file was written. The test runs every path of
// this machine, and with -short only the path in use.
func TestGoldenHashes(t *testing.T) {
	golden, before := goldenRows(t), kernel.ISA()
	defer func() { check(t, kernel.Use(before)) }()
	for _, isa := range goldenPaths {
		t.Run(isa, func(t *testing.T) {
			err := kernel.Use(isa)
			runs := append(seedRuns(), textbookRuns()...)
			if err != nil {
				t.Skipf("left out: rows %s: %v", rowNames(isa, runs), err)
			}
			if testing.Short() && isa != before {
				t.Skipf("left out by -short: rows %s", rowNames(isa, runs))
			}
			if isa == "go" && before != "go" { // it takes 20 seconds
				t.Skipf("left out: rows %s: the tests without cgo check them", rowNames(isa, runs))
			}
			if len(golden[isa]) != len(runs) {
				t.Fatalf("%d rows in the golden file, want %d", len(golden[isa]), len(runs))
			}
			var later []run
			for _, x := range runs {
				if testing.Short() && x.c.Policy != train.PolicyMLP && x.c.Env == "Catch-v0" {
					later = append(later, x)
					continue
				}
				if got := learn(t, x.c, x.steps, offpolicy.Concurrently); got != golden[isa][x.name] {
					t.Errorf("%s: %+v, want %+v", x.name, got, golden[isa][x.name])
				}
			}
			if len(later) > 0 && !t.Failed() {
				t.Skipf("left out: rows %s: they take longer than -short allows", rowNames(isa, later))
			}
		})
	}
}

// The rows that TestGoldenHashes cannot compare on this machine, in one line, which make
// test-go-all prints.
func TestGoldenRowsLeftOut(t *testing.T) {
	before := kernel.ISA()
	defer func() { check(t, kernel.Use(before)) }()
	var out []string
	for _, isa := range goldenPaths {
		if kernel.Use(isa) != nil {
			out = append(out, isa)
		}
	}
	t.Logf("golden rows that this machine cannot run: %s of core/agents/dqn/testdata/golden.txt",
		cmp.Or(strings.Join(out, ", "), "none"))
}

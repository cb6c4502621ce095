// Command go trains REINFORCE and DQN on an environment of its own, through the Go packages, and
// plays with what they learned:
//
//	go run ./examples/go
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math"
	"os"

	_ "github.com/paceline-rl/paceline/core/agents/dqn" // each import makes a method known
	_ "github.com/paceline-rl/paceline/core/agents/reinforce"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
)

// corridor has cells 0 to 8, of which 4 is the first. Action 0 goes left, 1 goes right. An end of
// the corridor gives reward 1 if the goal is there, else -1; after 40 steps the episode is
// truncated. The observation is the cell and the side of the goal, both -1 to 1.
type corridor struct {
	stream      *rng.Stream
	cell, steps int
	goal        int // -1: at cell 0; 1: at cell 8
}

func (c *corridor) Spec() env.Spec {
	return env.Spec{
		ID:     "Corridor-v1",
		Obs:    env.ObsSpec{DType: env.Float32, Shape: []int{2}, Low: []float32{-1}, High: []float32{1}},
		Action: env.ActionSpec{N: 2},
	}
}

func (c *corridor) Seed(seed uint64) { c.stream = rng.New(seed, "corridor", 0) }
func (c *corridor) Close() error     { return nil }

func (c *corridor) Reset(obs []byte) error {
	c.cell, c.steps, c.goal = 4, 0, 2*c.stream.Intn(2)-1
	c.observe(obs)
	return nil
}

func (c *corridor) Step(action int32, obs []byte) (reward float32, end env.End, err error) {
	c.cell, c.steps = c.cell+2*int(action)-1, c.steps+1
	c.observe(obs)
	switch {
	case c.cell == 0:
		return float32(-c.goal), env.Terminated, nil
	case c.cell == 8:
		return float32(c.goal), env.Terminated, nil
	case c.steps == 40:
		return 0, env.Truncated, nil
	}
	return 0, 0, nil
}

func (c *corridor) observe(obs []byte) {
	for k, v := range []float32{float32(c.cell)/4 - 1, float32(c.goal)} {
		binary.NativeEndian.PutUint32(obs[4*k:], math.Float32bits(v))
	}
}

func init() {
	env.RegisterPlain("Corridor-v1", func() env.Env {
		c := &corridor{}
		c.Seed(0)
		return c
	})
}

// learn trains a method and returns the mean return of 100 further episodes.
func learn(out io.Writer, method string, steps int64, settings map[string]string) (float64, error) {
	cfg, err := train.NewConfig(method)
	if err != nil {
		return 0, err
	}
	for name, value := range settings {
		if err := cfg.Set(name, value); err != nil {
			return 0, err
		}
	}
	t, err := train.New(cfg, nil)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	if err := t.Begin(steps, 0); err != nil {
		return 0, err
	}
	for s := t.Stats(); s.Steps < s.Total; s = t.Stats() {
		if err := t.Run(steps/4, 0); err != nil {
			return 0, err
		}
		fmt.Fprintf(out, "%s: %d steps, %d updates, mean return %.2f\n", method, t.Stats().Steps, t.Stats().Updates, t.Stats().MeanReturn)
	}
	p, err := t.Policy()
	if err != nil {
		return 0, err
	}
	played, err := p.Evaluate("Corridor-v1", nil, policy.EvalOptions{Episodes: 100, Seed: 1})
	return played.MeanReturn, err
}

func run(out io.Writer) error {
	for _, m := range []struct {
		method   string
		steps    int64
		settings map[string]string
	}{
		{"reinforce", 40_000, map[string]string{"env": "Corridor-v1", "num_envs": "8"}},
		{"dqn", 20_000, map[string]string{"env": "Corridor-v1", "num_envs": "8", "learning_rate": "0.001", "target_update_interval": "500"}},
	} {
		score, err := learn(out, m.method, m.steps, m.settings)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: plays with a mean return of %.2f\n", m.method, score)
		if score < 0.9 {
			return fmt.Errorf("%s: a mean return of %.2f, must be at least 0.9", m.method, score)
		}
	}
	return nil
}

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

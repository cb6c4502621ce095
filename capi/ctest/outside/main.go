// A program of another Go module that trains, with core/ as a dependency.
package main

import (
	"fmt"
	"os"

	_ "github.com/paceline-rl/paceline/core/agents/dqn"  // imports register methods
	_ "github.com/paceline-rl/paceline/core/env/builtin" // and environments
	"github.com/paceline-rl/paceline/core/train"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	cfg, err := train.NewConfig("dqn")
	if err != nil {
		return err
	}
	if err := cfg.Preset("tuned", "CartPole-v1"); err != nil {
		return err
	}
	trainer, err := train.New(cfg, nil)
	if err != nil {
		return err
	}
	defer trainer.Close()
	if err := trainer.Run(2000, 0); err != nil {
		return err
	}
	fmt.Println("updates:", trainer.Stats().Updates)
	return nil
}

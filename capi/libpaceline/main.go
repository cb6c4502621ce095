// Command libpaceline is the shared library, built with -buildmode=c-shared: the C
// interface (package capi), and the methods and environments that it knows by name.
//
// It has no C of its own, since go build compiles the C of whatever a package main with
// some imports directly at every build, changed or not, to write a header that nobody
// reads.
package main

import (
	_ "github.com/paceline-rl/paceline/capi"
	_ "github.com/paceline-rl/paceline/core/agents/a2c" // methods
	_ "github.com/paceline-rl/paceline/core/agents/dqn"
	_ "github.com/paceline-rl/paceline/core/agents/ppo"
	_ "github.com/paceline-rl/paceline/core/agents/pqn"
	_ "github.com/paceline-rl/paceline/core/env/builtin" // environments
)

func main() {}

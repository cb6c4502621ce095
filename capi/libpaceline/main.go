// Command libpaceline is the shared library, built with -buildmode=c-shared: the C
// interface (package capi) with the methods and environments that it knows by name.
//
// This package has no C code of its own. If a package main has C code, every go build compiles the
// C code of all packages that it imports directly, to generate a header. This project does not use
// that header.
package main

import (
	_ "github.com/paceline-rl/paceline/capi"
	_ "github.com/paceline-rl/paceline/core/agents/a2c" // methods
	_ "github.com/paceline-rl/paceline/core/agents/a3c"
	_ "github.com/paceline-rl/paceline/core/agents/appo"
	_ "github.com/paceline-rl/paceline/core/agents/dqn"
	_ "github.com/paceline-rl/paceline/core/agents/ga3c"
	_ "github.com/paceline-rl/paceline/core/agents/gorila"
	_ "github.com/paceline-rl/paceline/core/agents/ppo"
	_ "github.com/paceline-rl/paceline/core/agents/pqn"
	_ "github.com/paceline-rl/paceline/core/env/builtin" // environments
)

func main() {}

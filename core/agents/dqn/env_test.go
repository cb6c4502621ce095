package dqn

import _ "github.com/paceline-rl/paceline/core/env/builtin" // the environments that tests name

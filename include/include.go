// Package include is the home of the C headers. It embeds them so that the Go
// package which compiles against them imports it, and is rebuilt when they
// change: Go does not watch C headers outside a package's own folder.
package include

import "embed"

// Headers are paceline.h and paceline.hpp as installed.
//
//go:embed paceline.h paceline.hpp
var Headers embed.FS

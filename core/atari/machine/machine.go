// Package machine is the Atari 2600 itself: C99 headers that stand alone, of which
// machine.h is the one to include and to read first.
//
// The package embeds them so that Go sees when one changes, and so that other
// compilers can be given the same text.
package machine

import "embed"

// Headers are the files, by their names.
//
//go:embed *.h
var Headers embed.FS

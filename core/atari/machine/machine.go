// Package machine is the hardware of the Atari 2600: C99 headers without dependencies. Start with
// machine.h, which includes the others.
//
// The package embeds the headers, so that Go rebuilds when a header changes and other compilers
// can get the same text.
package machine

import "embed"

// Headers holds the header files.
//
//go:embed *.h
var Headers embed.FS

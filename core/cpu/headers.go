package cpu

import "embed"

// Headers are float_mode.h and tiles.h. The cgo packages that include them import this package, so
// that Go rebuilds those packages when a header changes.
//
//go:embed float_mode.h tiles.h
var Headers embed.FS

package cpu

import "embed"

// Headers is float_mode.h. The cgo packages that include it import this one, so
// that Go builds them again when the header changes.
//
//go:embed float_mode.h
var Headers embed.FS

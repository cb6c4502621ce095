//go:build !(linux && amd64 && cgo)

package cpu

func hasTiles() bool { return false }

// AllowTiles reports whether this process may use AMX's tiles.
func AllowTiles() bool { return false }

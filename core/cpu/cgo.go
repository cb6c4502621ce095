//go:build cgo

package cpu

// withC says that this build has C code.
const withC = true

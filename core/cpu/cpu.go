// Package cpu chooses the vector units of the processor that the library uses, once for all
// packages. It also holds the header with which the C code sets the floating-point mode
// (float_mode.h).
//
// A path is a set of instructions that code may use. Every path includes the paths below it:
//
//	amx         avx512bf16, and AMX's bfloat16 tiles (see AllowTiles)
//	avx512bf16  avx512, and AVX-512's bfloat16 products
//	avx512      avx2, and AVX-512 F, DQ, BW and VL
//	avx2        AVX2, FMA, BMI1 and BMI2
//	generic     C for any processor (arm64 included)
//	portable    the best path above, but generic's sums in the layers of networks: one order of
//	            sums and no fused products, so that a run has the same bits on every processor
//	go          no C; the only path of a build without cgo
//
// The package chooses the best path of the machine when the program starts, unless the environment
// variable PACELINE_ISA names another. Packages with code for several paths (kernel, atari/screen,
// atari) ask this package, not the processor, so that one variable holds for all of them. A package
// need not have code for every path: it uses its best code that AtLeast allows. The Atari machine
// exists in C only and runs its generic code on the path go.
//
// Nothing in the package changes after the start of the program, so any goroutine may call any
// function.
package cpu

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// The names of the paths.
const (
	AMX        = "amx"
	AVX512BF16 = "avx512bf16"
	AVX512     = "avx512"
	AVX2       = "avx2"
	Generic    = "generic"
	Portable   = "portable"
	Go         = "go"
)

// names are all paths, best first.
var names = []string{AMX, AVX512BF16, AVX512, AVX2, Generic, Portable, Go}

var (
	paths           = supported()
	chosen, invalid = choose(os.Getenv("PACELINE_ISA"), paths)
)

// Paths returns the names of the paths that this machine runs, best first. The last is Go.
func Paths() []string { return slices.Clone(paths) }

// Chosen returns the path in use: the one that PACELINE_ISA names, or the best if PACELINE_ISA is
// unset, empty or not one of Paths.
func Chosen() string { return chosen }

// Err returns an error if PACELINE_ISA is not one of Paths. The best path is in use then; the
// caller decides whether to start a run.
func Err() error { return invalid }

// AtLeast reports whether code for the named path may run: whether the path in use is that path or
// a better one.
func AtLeast(path string) bool {
	units := chosen
	if units == Portable {
		units = paths[0]
	}
	return slices.Index(names, units) <= slices.Index(names, path)
}

// supported returns the paths of this processor, operating system and build.
func supported() []string {
	var list []string
	x := &cpu.X86
	if withC && runtime.GOARCH == "amd64" && x.HasAVX2 && x.HasFMA && x.HasBMI1 && x.HasBMI2 {
		if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
			if x.HasAVX512BF16 {
				if x.HasAMXTile && x.HasAMXBF16 && hasTiles() {
					list = append(list, AMX)
				}
				list = append(list, AVX512BF16)
			}
			list = append(list, AVX512)
		}
		list = append(list, AVX2)
	}
	if withC {
		list = append(list, Generic, Portable)
	}
	return append(list, Go)
}

// choose returns the path for a value of PACELINE_ISA.
func choose(value string, paths []string) (string, error) {
	if value == "" || slices.Contains(paths, value) {
		return cmp.Or(value, paths[0]), nil
	}
	return paths[0], fmt.Errorf("PACELINE_ISA: %q, must be one of %s on this machine", value, strings.Join(paths, ", "))
}

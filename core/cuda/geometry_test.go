package cuda

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestDivisor(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 0))
	check := func(n, by uint32) {
		t.Helper()
		d := NewDivisor(int32(by))
		high := uint32(uint64(n) * uint64(d.Magic) >> 32)
		if uint64(high)+uint64(n) >= 1<<32 {
			t.Fatalf("%d / %d: the sum needs more than 32 bits", n, by)
		}
		if got := (high + n) >> d.Shift; got != n/by {
			t.Fatalf("%d / %d: %d, must be %d", n, by, got, n/by)
		}
	}
	divisors := []uint32{1, 2, 3, 5, 7, 9, 49, 400, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1<<30 - 1, 1 << 30, 1<<31 - 1}
	for range 2000 {
		divisors = append(divisors, 1+r.Uint32N(1<<(1+r.UintN(30))))
	}
	for _, by := range divisors {
		for _, n := range []uint32{0, 1, by - 1, by, by + 1, 1<<31 - 1} {
			check(n&(1<<31-1), by)
		}
		for range 50 {
			n := r.Uint32N(1 << 31)
			check(n, by)
			check(n-n%by, by)
			check((n-n%by+by-1)&(1<<31-1), by)
		}
	}
}

// The parts cover the sum, their number is limited, and every warp has the same number of chunks.
func TestSplitCoversTheSum(t *testing.T) {
	for _, depth := range []int{1, 15, 16, 17, 512, 513, 576, 3136, 12800, 28224, 1 << 20, 1<<31 - 1} {
		c := splitFor(depth)
		chunks := (depth-1)/chunk + 1
		if all := int(c.Parts) * int(c.Chunks); all < chunks || all-int(c.Chunks) >= chunks {
			t.Errorf("%d: %+v does not fit %d chunks", depth, c, chunks)
		}
		if c.Parts > maxParts || c.Chunks%warpsPerBlock != 0 {
			t.Errorf("%d: %+v, must be at most %d parts of a multiple of %d", depth, c, maxParts, warpsPerBlock)
		}
	}
}

// With 32 rows, the layers of the Nature CNN have blocks for most of the 132 multiprocessors of an
// H100 or H200.
func TestNatureCNNFillsTheGPU(t *testing.T) {
	blocks := func(name string, g Geometry, least uint32) {
		if n := g.Grid[0] * g.Grid[1] * g.Grid[2]; n < least || g.Grid[1] > 65535 || g.Grid[2] > 65535 {
			t.Errorf("%s: %v is %d blocks, must be at least %d", name, g.Grid, n, least)
		}
	}
	for _, c := range [][6]int{{4, 84, 84, 32, 8, 4}, {32, 20, 20, 64, 4, 2}, {64, 9, 9, 64, 3, 1}} {
		s, err := NewConvShape(32, c[0], c[1], c[2], c[3], c[4], c[5])
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint(c)
		blocks(name, s.Forward(), 98)
		g, _ := s.WeightGradient()
		blocks(name+" weights", g, 132)
		if c[0] != 4 {
			blocks(name+" input", s.InputGradient(), 132)
		}
	}
	g, _ := DenseForward(32, 3136, 512)
	blocks("dense", g, 112)
	g, _ = DenseWeightGradient(32, 3136, 512)
	blocks("dense weights", g, 132)
	blocks("dense input", DenseInputGradient(32, 3136), 98)
}

// A forward pass splits its sums independently of the number of rows.
func TestSplitIsIndependentOfTheRows(t *testing.T) {
	for _, in := range []int{1, 512, 3136, 28224} {
		_, one := DenseForward(1, in, 64)
		if _, many := DenseForward(4096, in, 64); one != many {
			t.Errorf("%d inputs: %+v for one row, %+v for many", in, one, many)
		}
	}
}

func TestShapesTooLargeAreRefused(t *testing.T) {
	for _, c := range [][7]int{
		{0, 1, 4, 4, 1, 2, 1}, {1, 1, 4, 4, 1, 4, 1}, {1, 1, 3, 9, 1, 4, 2}, {70000, 4, 100, 100, 1, 2, 1}, {1, 1 << 16, 4, 4, 1 << 14, 2, 1},
		{1, 1, 1024, 1024, 1, 512, 256},
	} {
		if s, err := NewConvShape(c[0], c[1], c[2], c[3], c[4], c[5], c[6]); err == nil {
			t.Errorf("%v: %+v, must be refused", c, s)
		}
	}
	for _, c := range [][3]int{{0, 1, 1}, {1, 1 << 16, 1 << 15}, {1 << 22, 1, 1}, {1 << 20, 1 << 11, 1}} {
		if CheckDense(c[0], c[1], c[2]) == nil {
			t.Errorf("%v: must be refused", c)
		}
	}
}

// structs has the structs of args.go.
var structs = []any{
	Divisor{}, SplitK{}, ConvShape{}, ConvForwardArgs{}, ConvWeightGradientArgs{}, ConvInputGradientArgs{},
	DenseForwardArgs{}, DenseForwardSumArgs{}, DenseWeightGradientArgs{}, DenseInputGradientArgs{}, WeightGradientSumArgs{},
	ElementsArgs{}, SelectArgs{}, Stack{}, GatherArgs{}, PickArgs{}, SumSquaresArgs{}, Step{}, AdvanceArgs{}, OptimizerArgs{},
	NormArgs{}, ArgmaxArgs{}, TDTargetsArgs{}, TDLossArgs{}, ActorCriticArgs{}, ActorCriticProductArgs{}, LossSumArgs{},
}

// The structs of args.go have the sizes and offsets of the C structs.
func TestArgsMatchC(t *testing.T) {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("left out: no C++ compiler")
	}
	var text strings.Builder
	text.WriteString("#include <stddef.h>\n#include \"args.cuh\"\n")
	words := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	names := map[string]bool{}
	for _, s := range structs {
		typ := reflect.TypeOf(s)
		names[typ.Name()] = true
		fmt.Fprintf(&text, "static_assert(sizeof(%s) == %d, \"\");\n", typ.Name(), typ.Size())
		for i := range typ.NumField() {
			f := typ.Field(i)
			name := f.Tag.Get("c")
			if name == "" {
				name = strings.ToLower(words.ReplaceAllString(f.Name, "${1}_$2"))
			}
			fmt.Fprintf(&text, "static_assert(offsetof(%s, %s) == %d && sizeof(%s::%s) == %d, \"\");\n", typ.Name(), name, f.Offset, typ.Name(), name, f.Type.Size())
		}
	}
	file := filepath.Join(t.TempDir(), "args.cpp")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("g++", "-std=c++17", "-fsyntax-only", "-Ikernels", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	header, err := os.ReadFile(filepath.Join("kernels", "args.cuh"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^struct (\w+) \{`).FindAllSubmatch(header, -1) {
		if !names[string(m[1])] {
			t.Errorf("%s: this test's list has no mirror of it in args.go", m[1])
		}
	}
}

package env

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// hybridSpec has two branches and a box of four entries, of which three lack a bound.
func hybridSpec() ActionSpec {
	return ActionSpec{Branches: []int32{3, 2}, Low: []float32{-1, -inf, 2, -inf}, High: []float32{3, inf, inf, -5}}
}

func TestActionSpecSizes(t *testing.T) {
	for _, c := range []struct {
		spec                 ActionSpec
		ints, floats, logits int
		text                 string
	}{
		{ActionSpec{N: 4}, 1, 0, 4, "4 discrete"},
		{ActionSpec{Branches: []int32{3, 2, 5}}, 3, 0, 10, "branches of [3 2 5]"},
		{ActionSpec{Low: []float32{0, 1}, High: []float32{1, 1}}, 0, 2, 0, "a box of 2"},
		{hybridSpec(), 2, 4, 5, "branches of [3 2] and a box of 4"},
	} {
		s := c.spec
		if err := s.Check(); err != nil {
			t.Errorf("%v: %v", s, err)
		}
		if s.Ints() != c.ints || s.Floats() != c.floats || s.Logits() != c.logits || s.Bytes() != 4*(c.ints+c.floats) || s.String() != c.text {
			t.Errorf("%q: %d integers, %d numbers, %d logits, %d bytes, want %+v", s, s.Ints(), s.Floats(), s.Logits(), s.Bytes(), c)
		}
	}
}

func TestActionSpecsAreRefused(t *testing.T) {
	for want, s := range map[string]ActionSpec{
		"actions: 0, must be at least 1":                                                     {},
		"actions: -1, must be at least 1":                                                    {N: -1},
		"actions: 2 discrete, must be 0 where an action has branches or a box":               {N: 2, Branches: []int32{2}},
		"actions: 3 discrete, must be 0 where an action has branches or a box":               {N: 3, High: []float32{2}},
		"action branches[1]: 0, must be at least 1":                                          {Branches: []int32{2, 0}},
		"action branches[0]: -3, must be at least 1":                                         {Branches: []int32{-3}},
		"action low: 1 entries, must be as many as those of high, 0":                         {Low: []float32{1}},
		"action low: 0 entries, must be as many as those of high, 2":                         {High: []float32{1, 2}},
		"action low[1]: NaN, must be a number or infinite":                                   {Low: []float32{0, nan}, High: []float32{1, 1}},
		"action high[0]: NaN, must be a number or infinite":                                  {Low: []float32{0}, High: []float32{nan}},
		"action low[0]: 2, must be at most high[0], 1":                                       {Low: []float32{2}, High: []float32{1}},
		"action low[0]: +Inf, must be such that a finite number lies between it and high[0]": {Low: []float32{inf}, High: []float32{inf}},
		"action low[0]: -Inf, must be such that a finite number lies between it and high[0]": {Low: []float32{-inf}, High: []float32{-inf}},
		"actions: 300000 branches and a box of 0, must be at most 1048576 bytes":             {Branches: slices.Repeat([]int32{1}, 300_000)},
		"actions: 4294967294 of all branches, must be at most 2147483647":                    {Branches: []int32{math.MaxInt32, math.MaxInt32}},
	} {
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	masked := Spec{Obs: ObsSpec{Shape: []int{1}, Low: []float32{0}, High: []float32{1}}, Action: ActionSpec{Low: []float32{0}, High: []float32{1}}, Masks: true}
	if err := masked.Check(); err == nil || err.Error() != "actions: a box of 1, must be discrete or have branches where there are action masks" {
		t.Error(err)
	}
}

func TestCheckAction(t *testing.T) {
	s := hybridSpec()
	for want, c := range map[string]struct {
		branches []int32
		box      []float32
	}{
		"":                                       {[]int32{2, 1}, []float32{3, -1e30, 1e30, -5}},
		"action branch 0: 3, must be 0 to 2":     {[]int32{3, 1}, []float32{0, 0, 2, -5}},
		"action branch 1: -1, must be 0 to 1":    {[]int32{0, -1}, []float32{0, 0, 2, -5}},
		"action[0]: 3.5, must be -1 to 3":        {[]int32{0, 0}, []float32{3.5, 0, 2, -5}},
		"action[0]: NaN, must be -1 to 3":        {[]int32{0, 0}, []float32{nan, 0, 2, -5}},
		"action[0]: +Inf, must be -1 to 3":       {[]int32{0, 0}, []float32{inf, 0, 2, -5}},
		"action[1]: NaN, must be finite":         {[]int32{0, 0}, []float32{0, nan, 2, -5}},
		"action[2]: +Inf, must be finite":        {[]int32{0, 0}, []float32{0, 0, inf, -5}},
		"action[3]: -4.5, must be -Inf to -5":    {[]int32{0, 0}, []float32{0, 0, 2, -4.5}},
		"action[2]: 1.9999, must be 2 to +Inf":   {[]int32{0, 0}, []float32{0, 0, 1.9999, -5}},
		"action branch 0: 9, must be 0 to 2\x00": {[]int32{9, 9}, []float32{nan, nan, nan, nan}},
	} {
		err := s.CheckAction(c.branches, c.box)
		if got := errorText(err); got != strings.TrimSuffix(want, "\x00") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	one := ActionSpec{N: 2}
	if got := errorText(one.CheckAction([]int32{2}, nil)); got != "action: 2, must be 0 to 1" {
		t.Error(got)
	}
	if err := one.CheckAction([]int32{1}, nil); err != nil {
		t.Error(err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCheckSize(t *testing.T) {
	s, one := hybridSpec(), ActionSpec{N: 2}
	for want, err := range map[string]error{
		"":     s.CheckSize(make([]int32, 6), make([]float32, 12), 3),
		"\x00": one.CheckSize(make([]int32, 3), nil, 3),
		"actions: 5 integers, must be 6, 2 for each environment":          s.CheckSize(make([]int32, 5), make([]float32, 12), 3),
		"actions: 0 numbers of a box, must be 12, 4 for each environment": s.CheckSize(make([]int32, 6), nil, 3),
		"actions: 2, must be 3, one for each environment":                 one.CheckSize(make([]int32, 2), nil, 3),
		"actions: 1 numbers of a box, must be 0, 0 for each environment":  one.CheckSize(make([]int32, 3), make([]float32, 1), 3),
	} {
		if got := errorText(err); got != strings.TrimSuffix(want, "\x00") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestClip(t *testing.T) {
	s := hybridSpec()
	box := []float32{7, 1e30, 1, 0}
	clipped := make([]float32, 4)
	s.Clip(clipped, box)
	if !slices.Equal(clipped, []float32{3, 1e30, 2, -5}) || box[0] != 7 {
		t.Errorf("%v of %v", clipped, box)
	}
	s.Clip(clipped, []float32{-7, -1e30, inf, -9})
	if !slices.Equal(clipped, []float32{-1, -1e30, inf, -9}) {
		t.Errorf("%v", clipped)
	}
	if s.Clip(clipped, []float32{nan, 0, 0, 0}); clipped[0] == clipped[0] {
		t.Errorf("NaN became %v", clipped[0])
	}
}

func TestEveryBranchOfAMaskAllowsOne(t *testing.T) {
	s, one := hybridSpec(), ActionSpec{N: 3}
	for want, err := range map[string]error{
		"":     s.CheckMask(nil),
		"\x00": s.CheckMask([]byte{0, 1, 0, 2, 0}),
		"action mask: branch 0 allows none of 3 actions, must allow one": s.CheckMask([]byte{0, 0, 0, 1, 1}),
		"action mask: branch 1 allows none of 2 actions, must allow one": s.CheckMask([]byte{1, 1, 1, 0, 0}),
		"action mask: allows none of 3 actions, must allow one":          one.CheckMask([]byte{0, 0, 0}),
	} {
		if got := errorText(err); got != strings.TrimSuffix(want, "\x00") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Each entry is drawn by one call, within its bounds and among the allowed values.
func TestRandomActionsOfEveryKind(t *testing.T) {
	s := hybridSpec()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	r, twin := rng.New(1, "explore", 0), rng.New(1, "explore", 0)
	branches, box := make([]int32, 2), make([]float32, 4)
	counts := [5]int{}
	for range 30_000 {
		s.Random([]byte{1, 0, 1, 1, 1}, r, branches, box)
		want := []int32{2 * int32(twin.Intn(2)), int32(twin.Intn(2))}
		numbers := []float32{float32(twin.Uniform(-1, 3)), float32(twin.Uniform(-1, 1)), float32(twin.Uniform(2, 3)), float32(twin.Uniform(-6, -5))}
		if !slices.Equal(branches, want) || !slices.Equal(box, numbers) {
			t.Fatalf("%v %v, want %v %v", branches, box, want, numbers)
		}
		if err := s.CheckAction(branches, box); err != nil {
			t.Fatal(err)
		}
		counts[branches[0]]++
		counts[3+branches[1]]++
	}
	for k, want := range [5]int{15_000, 0, 15_000, 15_000, 15_000} {
		if d := counts[k] - want; d*d > 40*want { // more than eight standard deviations
			t.Errorf("value %d: %d of 30000, want %d", k, counts[k], want)
		}
	}
	wide := ActionSpec{Low: []float32{-math.MaxFloat32}, High: []float32{math.MaxFloat32}}
	for range 1000 {
		one := make([]float32, 1)
		wide.Random(nil, r, nil, one)
		if err := wide.CheckAction(nil, one); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.Random(nil, r, branches, box) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

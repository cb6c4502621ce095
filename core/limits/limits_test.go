package limits

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/fault"
)

func TestAdmit(t *testing.T) {
	asked := 0
	availableIs := func(bytes int64) func() (int64, string) {
		return func() (int64, string) { asked++; return bytes, "test" }
	}
	big := []Part{{"buffer_size: 10", 3e9}, {"num_envs: 7", 2e9}}
	for _, c := range []struct {
		parts     []Part
		available int64
		want      string
	}{
		{big, 1e10, ""},
		{big, 5e9, ""},
		{big, 5e9 - 1, "buffer_size: 10 needs 3.0 GB of memory (5.0 GB in all), 5.0 GB are available (test)"},
		{big[1:], 2e8, "num_envs: 7 needs 2.0 GB of memory, 0.2 GB are available (test)"},
		{[]Part{{"a", math.MaxInt64}, {"b", math.MaxInt64}}, 5e9, "a needs "},
		{[]Part{{"a", 3e9}, {"b", -3e9}}, 2e9, "a needs 3.0 GB"}, // a number of bytes that overflowed
		{[]Part{{"a", small}}, 0, ""},
	} {
		err := admit(c.parts, availableIs(c.available))
		var refused *fault.Memory
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &refused) || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%v, %d are available: %v, want %q", c.parts, c.available, err, c.want)
		}
	}
	if asked != 1+5*2 {
		t.Errorf("asked %d times, want twice for more than half of the memory and never for small parts", asked)
	}
}

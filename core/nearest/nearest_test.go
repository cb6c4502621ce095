package nearest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	known := []string{"window", "gamma", "gamme", "num_envs"}
	for _, x := range []struct {
		name  string
		limit int
		fold  func(string) string
		want  []string
	}{
		{"windwo", 3, nil, []string{"window"}},
		{"gammo", 3, nil, []string{"gamma", "gamme"}},
		{"gamma", 3, nil, []string{"gamma"}},
		{"gammo", 0, nil, nil},
		{"WINDOW", 1, nil, nil},
		{"WINDOW", 1, strings.ToLower, []string{"window"}},
		{"", 3, nil, nil},
		{"gamb", 9, nil, []string{"gamma", "gamme"}},
		{"ma", 9, nil, nil},
		{"lanes", 9, nil, nil},
	} {
		if got := Names(x.name, known, x.limit, x.fold); !slices.Equal(got, x.want) {
			t.Errorf("%q within %d: %v, want %v", x.name, x.limit, got, x.want)
		}
	}
}

// distance equals its recursive definition.
func TestDistance(t *testing.T) {
	var plain func(a, b string) int
	plain = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		if a[0] == b[0] {
			return plain(a[1:], b[1:])
		}
		return 1 + min(plain(a[1:], b), plain(a, b[1:]), plain(a[1:], b[1:]))
	}
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, r.IntN(7))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 2000 {
		if a, b := word(), word(); distance(a, b) != plain(a, b) {
			t.Fatalf("distance(%q, %q) = %d, want %d", a, b, distance(a, b), plain(a, b))
		}
	}
}

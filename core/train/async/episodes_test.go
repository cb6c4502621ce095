package async

import (
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
)

type list []int64

func (l *list) Ended(e train.Episode) { *l = append(*l, e.Length) }

// Episodes are reported in the order of their times and learners, those before a time at once.
func TestEpisodesInTheOrderOfEvents(t *testing.T) {
	var e episodes
	var got list
	add := func(time int64, k int, length int64) { e.add(time, k, train.Episode{Length: length}) }
	add(30, 1, 4)
	add(10, 2, 2)
	add(10, 0, 1)
	add(20, 0, 3)
	if e.flush(&got, 20); !slices.Equal(got, list{1, 2}) {
		t.Errorf("before 20: %v", got)
	}
	add(25, 2, 9)
	add(endOfTime, 0, 7)
	if e.flush(&got, 30); !slices.Equal(got, list{1, 2, 3, 9}) {
		t.Errorf("before 30: %v", got)
	}
	if e.flush(&got, endOfTime); !slices.Equal(got, list{1, 2, 3, 9, 4, 7}) {
		t.Errorf("at the end: %v", got)
	}
	if e.flush(&got, endOfTime); len(got) != 6 {
		t.Errorf("reported twice: %v", got)
	}
}

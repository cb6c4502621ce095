package async

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/train"
)

// episodes are the episodes that have ended and are not reported. They are reported in the order of
// events, which does not depend on the threads. During a slice an episode is reported as soon as no
// earlier one can come; at the end of the slice all are. At the end of an interrupted slice some
// learners are ahead of others, and their latest episodes wait.
type episodes struct {
	mu   sync.Mutex
	list []ended
}

// reporter is the Monitor of the run.
type reporter interface{ Ended(train.Episode) }

type ended struct {
	train.Episode
	Time    int64 `json:"time"` // of the round in which it ended
	Learner int   `json:"learner"`
}

// add adds an episode of learner k, which ended in a round with a time. A learner's episodes come
// in their order.
func (e *episodes) add(time int64, k int, one train.Episode) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ended{one, time, k})
}

// endOfTime is after the time of every episode.
const endOfTime = math.MaxInt64

// flush reports the episodes that ended before a time.
func (e *episodes) flush(to reporter, before int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.SortStableFunc(e.list, func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Learner, b.Learner))
	})
	n, _ := slices.BinarySearchFunc(e.list, before, func(a ended, t int64) int { return cmp.Compare(a.Time, t) })
	if before == endOfTime {
		n = len(e.list)
	}
	for _, one := range e.list[:n] {
		to.Ended(one.Episode)
	}
	e.list = slices.Delete(e.list, 0, n)
}

// early gives all waiting episodes a time before every event, because a new order begins.
func (e *episodes) early() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.list {
		e.list[i].Time = -1
	}
}

// mostWaiting is the most episodes in a file. The first ones in order are saved if more of them
// wait.
const mostWaiting = 1 << 16

// part is the part of a checkpoint of a number of learners.
func (e *episodes) part(learners int) checkpoint.Part {
	return checkpoint.JSON("episodes.json", mostWaiting*128, func() ([]ended, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return append([]ended{}, e.list[:min(len(e.list), mostWaiting)]...), nil
	}, func(list []ended) (func(), error) {
		for _, one := range list {
			if one.Length < 1 || one.Time < -1 || one.Time == endOfTime || one.Learner < 0 || one.Learner >= learners {
				return nil, fmt.Errorf("episodes: %+v, must have a length above 0, a time and a learner below %d", one, learners)
			}
		}
		return func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.list = list
		}, nil
	})
}

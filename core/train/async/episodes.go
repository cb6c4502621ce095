package async

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/train"
)

// episodes are those that have ended in a slice. They are reported in the order of events, which the
// threads do not change: during the slice those that no other can precede, at its end all.
type episodes struct {
	mu   sync.Mutex
	list []ended
}

// reporter is the Host of the run.
type reporter interface{ Ended(train.Episode) }

type ended struct {
	train.Episode
	time    int64
	learner int
}

// add adds an episode of learner k, which ended in a round with a time. A learner's episodes come
// in their order.
func (e *episodes) add(time int64, k int, one train.Episode) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ended{one, time, k})
}

// whole is after the time of every episode.
const whole = math.MaxInt64

// flush reports the episodes that ended before a time.
func (e *episodes) flush(to reporter, before int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.SortStableFunc(e.list, func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.learner, b.learner))
	})
	n, _ := slices.BinarySearchFunc(e.list, before, func(a ended, t int64) int { return cmp.Compare(a.time, t) })
	if before == whole {
		n = len(e.list)
	}
	for _, one := range e.list[:n] {
		to.Ended(one.Episode)
	}
	e.list = slices.Delete(e.list, 0, n)
}

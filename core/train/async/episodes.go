package async

import (
	"cmp"
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/train"
)

// episodes are those that have ended in a slice. They are reported in the order of events, which the
// threads do not change.
type episodes struct {
	mu   sync.Mutex
	list []ended
}

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

// flush reports the episodes.
func (e *episodes) flush(to *train.Host) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.SortStableFunc(e.list, func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.learner, b.learner))
	})
	for _, one := range e.list {
		to.Ended(one.Episode)
	}
	e.list = e.list[:0]
}

package param

import (
	"fmt"
	"maps"
	"slices"
)

// Window is the number of pushes of a learner whose answers a Range remembers: a push whose step is
// this much below the newest one of its life is refused, because the Range no longer knows whether
// it was applied. A learner with fewer calls in flight never meets it.
const Window = 64

// MaxLearners is the number of learners that a Range distinguishes, 0 to MaxLearners-1.
const MaxLearners = 4096

// Key names a push. Learner is 0 to MaxLearners-1. A learner that starts again takes a larger Life,
// which is at least 0. Step is the number of the push in that life, from 1 on; numbers may be left
// out, and may arrive in another order.
type Key struct {
	Learner, Life, Step int64
}

func (k *Key) check() error {
	switch {
	case k.Learner < 0 || k.Learner >= MaxLearners:
		return fmt.Errorf("key.learner: %d, must be 0 to %d", k.Learner, MaxLearners-1)
	case k.Life < 0 || k.Life > most:
		return fmt.Errorf("key.life: %d, must be 0 to %d", k.Life, int64(most))
	case k.Step < 1 || k.Step > most:
		return fmt.Errorf("key.step: %d, must be 1 to %d", k.Step, int64(most))
	}
	return nil
}

// ledger is what a Range remembers of a learner's latest life.
type ledger struct {
	life       int64
	newest     int64 // the largest step
	applied    uint64
	refused    uint64
	duplicates uint64
	// answers: that of step s is number s mod Window.
	answers [Window]answer
}

// answer is the answer to a push. step 0: there is none.
type answer struct {
	step         int64
	version, lag uint64
	refused      bool
}

// before returns the answer that was given to a key, with step 0 if there was none. It changes
// nothing. The Range is locked.
func (r *Range) before(k Key) (answer, error) {
	l := r.ledgers[k.Learner]
	switch {
	case l == nil || k.Life > l.life:
		return answer{}, nil
	case k.Life < l.life:
		return answer{}, fmt.Errorf("key.life: %d, must be at least %d, the latest life of learner %d", k.Life, l.life, k.Learner)
	case k.Step <= l.newest-Window:
		return answer{}, fmt.Errorf("key.step: %d, must be above %d: learner %d has pushed step %d, and older answers are forgotten", k.Step, l.newest-Window, k.Learner, l.newest)
	}
	if a := l.answers[k.Step%Window]; a.step == k.Step {
		return a, nil
	}
	return answer{}, nil
}

// ledger returns the ledger of a key's life, which before has accepted.
func (r *Range) ledger(k Key) *ledger {
	l := r.ledgers[k.Learner]
	if l == nil || k.Life > l.life {
		l = &ledger{life: k.Life}
		r.ledgers[k.Learner] = l
	}
	return l
}

// add records an answer.
func (l *ledger) add(a answer) {
	l.newest = max(l.newest, a.step)
	l.answers[a.step%Window] = a
	if a.refused {
		l.refused++
	} else {
		l.applied++
	}
}

// Ledger is what a Range remembers of a learner: the counts of its latest life, and the answers to
// its latest pushes.
type Ledger struct {
	Learner    int64  `json:"learner"`
	Life       int64  `json:"life"`
	Step       int64  `json:"step"` // the largest one
	Applied    uint64 `json:"applied"`
	Refused    uint64 `json:"refused"`
	Duplicates uint64 `json:"duplicates"`
	// Answers are (step, version, lag, 1 if refused) by step, at most Window of them.
	Answers [][4]uint64 `json:"answers"`
}

// list returns the ledgers by learner. The Range is locked.
func (r *Range) list() []Ledger {
	all := []Ledger{}
	for _, learner := range slices.Sorted(maps.Keys(r.ledgers)) {
		l := r.ledgers[learner]
		to := Ledger{Learner: learner, Life: l.life, Step: l.newest, Applied: l.applied, Refused: l.refused, Duplicates: l.duplicates}
		for step := max(1, l.newest-Window+1); step <= l.newest; step++ {
			if a := l.answers[step%Window]; a.step == step {
				refused := uint64(0)
				if a.refused {
					refused = 1
				}
				to.Answers = append(to.Answers, [4]uint64{uint64(a.step), a.version, a.lag, refused})
			}
		}
		all = append(all, to)
	}
	return all
}

// check refuses a ledger that no Range of a version has.
func (l *Ledger) check(version uint64) error {
	key := Key{l.Learner, l.Life, l.Step}
	if err := key.check(); err != nil {
		return err
	}
	if counts := max(l.Applied, l.Refused, l.Duplicates); counts > most || l.Applied > version || len(l.Answers) == 0 || uint64(len(l.Answers)) > l.Applied+l.Refused {
		return fmt.Errorf("learner %d: %d pushes applied, %d refused, %d duplicates and %d answers at version %d", l.Learner, l.Applied, l.Refused, l.Duplicates, len(l.Answers), version)
	}
	before := uint64(max(0, l.Step-Window))
	for i, a := range l.Answers {
		if a[0] <= before || a[0] > uint64(l.Step) || a[1] > version || a[2] > version || a[3] > 1 || i == len(l.Answers)-1 && a[0] != uint64(l.Step) {
			return fmt.Errorf("learner %d: answer %d is %v, which no push was given", l.Learner, i, a)
		}
		before = a[0]
	}
	return nil
}

// ledger returns the ledger that l describes.
func (l *Ledger) ledger() *ledger {
	to := &ledger{life: l.Life, newest: l.Step, applied: l.Applied, refused: l.Refused, duplicates: l.Duplicates}
	for _, a := range l.Answers {
		to.answers[a[0]%Window] = answer{int64(a[0]), a[1], a[2], a[3] == 1}
	}
	return to
}

// Description describes a Range and counts its visits.
type Description struct {
	First        int      `json:"first"`
	Size         int      `json:"size"`
	Optimizer    string   `json:"optimizer"`
	MaxStaleness int64    `json:"max_staleness"`
	Version      uint64   `json:"version"`
	Refused      uint64   `json:"refused"`
	Duplicates   uint64   `json:"duplicates"`
	Pulls        uint64   `json:"pulls"`
	Learners     []Ledger `json:"learners"` // by their numbers
}

// Describe describes the Range.
func (r *Range) Describe() Description {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, pulls := r.version()
	rule := &r.store.rule
	return Description{r.first, r.Size(), rule.Optimizer.Name, rule.MaxStaleness, version, r.refused, r.duplicates, pulls, r.list()}
}

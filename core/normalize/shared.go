package normalize

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

// Shared are the statistics of several learners, each of which has a Normalizer and a Share of
// these. The caller decides the order of Push and Pull, of which one is in progress at a time.
//
//   - Push merges the rows that a learner has added since its previous Push (Chan et al. 1979).
//   - Pull gives the learner the merged statistics. Rows that it has not pushed stay in its own.
//   - If no other learner has pushed since, Push and Pull copy instead of merging. One learner
//     is therefore bit-identical to a Normalizer that is not shared.
type Shared struct {
	Normalizer
	pushes uint64
}

// Share is a learner's part in Shared statistics.
type Share struct {
	own   *Normalizer
	since Normalizer // rows since the latest Push
	seen  uint64     // pushes of the Shared that own has
}

// NewShared returns the statistics of learners whose Normalizers are like z.
func NewShared(z *Normalizer) *Shared { return &Shared{Normalizer: *z.Clone()} }

// NewShare returns the part of a learner with Normalizer z, which has no rows yet.
func NewShare(z *Normalizer) *Share {
	s := &Share{own: z}
	for _, m := range []struct{ own, since **Moments }{{&z.Obs, &s.since.Obs}, {&z.Returns, &s.since.Returns}} {
		if own := *m.own; own != nil {
			n := len(own.Mean)
			*m.since = &Moments{Mean: make([]float64, n), Var: make([]float64, n)}
			own.since = *m.since
		}
	}
	return s
}

func (s *Share) each(with *Shared, f func(own, since, shared *Moments)) {
	if s.own.Obs != nil {
		f(s.own.Obs, s.since.Obs, with.Obs)
	}
	if s.own.Returns != nil {
		f(s.own.Returns, s.since.Returns, with.Returns)
	}
}

// Push adds the learner's rows since its latest Push.
func (s *Share) Push(to *Shared) {
	alone := s.seen == to.pushes
	s.each(to, func(own, since, shared *Moments) {
		if alone {
			shared.Copy(own)
		} else {
			shared.merge(since)
		}
		clear(since.Mean)
		clear(since.Var)
		since.Count = 0
	})
	to.pushes++
	if alone {
		s.seen = to.pushes
	}
}

// Pull makes the learner's statistics those of all learners.
func (s *Share) Pull(from *Shared) {
	if s.seen == from.pushes {
		return
	}
	s.each(from, func(own, since, shared *Moments) {
		own.Copy(shared)
		own.merge(since)
	})
	s.seen = from.pushes
}

// merge adds the rows of from.
func (m *Moments) merge(from *Moments) {
	total := m.Count + from.Count
	if from.Count == 0 {
		return
	}
	old, part := m.Count/total, from.Count/total
	for k, mean := range from.Mean {
		d := mean - m.Mean[k]
		m.Mean[k] += float64(d * part)
		between := float64(float64(d*d) * float64(old*part))
		m.Var[k] = float64(old*m.Var[k]) + float64(part*from.Var[k]) + between
	}
	m.Count = total
	m.Refresh()
}

// Part is the part of a checkpoint. A policy's file has the observations' statistics in a part of
// the same name.
func (s *Shared) Part() checkpoint.Part {
	return s.Normalizer.part(&s.pushes)
}

// savedShare is part "share".
type savedShare struct {
	Obs     *Moments `json:"obs,omitempty"`
	Returns *Moments `json:"returns,omitempty"`
	Seen    uint64   `json:"seen"`
}

// Part is the part of a learner's checkpoint, which has the learner's Normalizer in another one.
func (s *Share) Part() checkpoint.Part {
	save := func() (savedShare, error) { return savedShare{s.since.Obs, s.since.Returns, s.seen}, nil }
	return checkpoint.JSON("share.json", partBytes(s.own.numbers()), save, func(from savedShare) (func(), error) {
		for _, x := range []struct{ own, from *Moments }{{s.since.Obs, from.Obs}, {s.since.Returns, from.Returns}} {
			if (x.own == nil) != (x.from == nil) {
				return nil, errOther
			}
			if x.own == nil {
				continue
			}
			if err := x.from.check(len(x.own.Mean), 0); err != nil {
				return nil, fmt.Errorf("share: %w", err)
			}
		}
		return func() {
			s.since.Copy(&Normalizer{Obs: from.Obs, Returns: from.Returns})
			s.seen = from.Seen
		}, nil
	})
}

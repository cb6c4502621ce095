package normalize

import (
	"fmt"
	"io"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

// saved is part "normalizer". A run's file has what the run normalises, a policy's file has
// observations.
type saved struct {
	Obs     *Moments `json:"obs,omitempty"`
	Returns *Moments `json:"returns,omitempty"`
	Pushes  uint64   `json:"pushes,omitempty"` // of Shared
}

// part returns the part of files with observations of n numbers.
func part(n int, save saved, load func(saved) (adopt func(), err error)) checkpoint.Part {
	return checkpoint.JSON("normalizer.json", partBytes(n), func() (saved, error) { return save, nil }, load)
}

// partBytes is the most bytes of a part of observations of n numbers.
func partBytes(n int) int64 {
	const number = 2 * 32 // a mean and a variance as text
	return number*int64(n+1) + 1024
}

// Part is the part of a run's checkpoint.
func (z *Normalizer) Part() checkpoint.Part { return z.part(new(uint64)) }

func (z *Normalizer) part(pushes *uint64) checkpoint.Part {
	return part(z.numbers(), saved{z.Obs, z.Returns, *pushes}, func(s saved) (func(), error) {
		for _, x := range []struct{ own, from *Moments }{{z.Obs, s.Obs}, {z.Returns, s.Returns}} {
			if (x.own == nil) != (x.from == nil) {
				return nil, errOther
			}
			if x.own == nil {
				continue
			}
			if err := x.from.check(len(x.own.Mean), firstCount); err != nil {
				return nil, fmt.Errorf("statistics: %w", err)
			}
		}
		return func() {
			z.Copy(&Normalizer{Obs: s.Obs, Returns: s.Returns})
			*pushes = s.Pushes
		}, nil
	})
}

// ObsPart is the part of a policy's file: statistics of observations of n numbers. Files of runs
// have a part of the same name. obs is what is written; nil: the part is not. read is called with
// the file's statistics, or with nil if the file has none.
func ObsPart(n int, obs *Moments, read func(*Moments)) checkpoint.Part {
	p := part(n, saved{Obs: obs}, func(s saved) (func(), error) {
		if s.Obs == nil {
			return func() { read(nil) }, nil
		}
		if err := s.Obs.check(n, firstCount); err != nil {
			return nil, fmt.Errorf("statistics: %w", err)
		}
		s.Obs.Refresh()
		return func() { read(s.Obs) }, nil
	})
	p.Optional = true
	if obs == nil {
		p.Write = nil
	}
	readPart := p.Read
	p.Read = func(r io.Reader, size int64) (func(), error) {
		if r == nil {
			return func() { read(nil) }, nil
		}
		return readPart(r, size)
	}
	return p
}

package actor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

// maxJSON bounds the parts that are JSON: the states of 65,536 environments.
const maxJSON = 16 << 30

// savedStreams is part "exploration": the state of each environment's stream.
type savedStreams struct {
	Streams [][]byte `json:"streams"`
}

// savedEnvironments is part "environments": the episodes in progress.
type savedEnvironments struct {
	Obs     []byte    `json:"obs"`             // the rows
	Masks   []byte    `json:"masks,omitempty"` // of the rows, if the environments have masks
	States  [][]byte  `json:"states"`
	Ended   []bool    `json:"ended,omitempty"` // environments that wait for their reset (Disabled)
	Returns []float64 `json:"returns"`         // of the episodes in progress
	Lengths []int64   `json:"lengths"`
	// With a Normalizer: the normalised rows, and the discounted returns of the episodes in progress.
	Normal     []byte    `json:"normal,omitempty"`
	Discounted []float64 `json:"discounted,omitempty"`
}

// ExplorationPart is the name of Exploration's part.
const ExplorationPart = "exploration.json"

// Exploration holds the exploration RNGs.
func (g *Group) Exploration() checkpoint.Part {
	save := func() (saved savedStreams, err error) {
		for _, s := range g.streams {
			b, err := s.MarshalBinary()
			if err != nil {
				return saved, err
			}
			saved.Streams = append(saved.Streams, b)
		}
		return saved, nil
	}
	return checkpoint.JSON(ExplorationPart, maxJSON, save, func(saved savedStreams) (func(), error) {
		if len(saved.Streams) != len(g.streams) {
			return nil, fmt.Errorf("%d streams of %d environments", len(saved.Streams), len(g.streams))
		}
		streams := make([]*rng.Stream, len(saved.Streams))
		for i, b := range saved.Streams {
			streams[i] = new(rng.Stream)
			if err := streams[i].UnmarshalBinary(b); err != nil {
				return nil, fmt.Errorf("stream %d: %v", i, err)
			}
		}
		return func() { copy(g.streams, streams) }, nil
	})
}

// Environments holds the state of the Source's environments. It must be the last part that is read,
// after the sink's: reading it restores the environments at once, and restores their former state
// if the file is refused afterwards. If a file does not have the part, or its sink is not in the
// middle of an environment's episode, new episodes begin. saving says that the part is to be
// written; it is left out if environments are no env.Saver.
func (g *Group) Environments(saving bool) checkpoint.Part {
	undo := func() {}
	p := checkpoint.Part{Name: "environments.json", Version: 1, Optional: true}
	if saving {
		if saved, err := g.save(); saved != nil || err != nil {
			p.Write = func(w io.Writer) error {
				if err != nil {
					return err
				}
				return json.NewEncoder(w).Encode(saved)
			}
		}
	}
	p.Read = func(r io.Reader, n int64) (func(), error) {
		undo = func() {}
		if r == nil {
			return g.Forget, nil
		}
		if g.Source == nil { // the host steps these environments; it did not step the file's
			_, err := io.Copy(io.Discard, r)
			return g.Forget, err
		}
		var saved savedEnvironments
		if err := checkpoint.ReadJSON(r, n, maxJSON, &saved); err != nil {
			return nil, err
		}
		if w := g.Envs; len(saved.Obs) != len(g.rows.Obs) || len(saved.Masks) != len(g.rows.Masks) || len(saved.States) != w ||
			len(saved.Returns) != w || g.Disabled != (len(saved.Ended) == w) || !g.Disabled && saved.Ended != nil || len(saved.Lengths) != w || slices.ContainsFunc(saved.Lengths, func(n int64) bool { return n < 0 }) {
			return nil, fmt.Errorf("%w: environments of another number or size, or of negative lengths", checkpoint.ErrFormat)
		}
		if len(saved.Normal) != len(g.normal) || len(saved.Discounted) != len(g.discounted) {
			return nil, fmt.Errorf("%w: environments that are normalised otherwise", checkpoint.ErrFormat)
		}
		for _, rows := range [][]byte{saved.Obs, saved.Normal} {
			if err := g.Spec.Obs.CheckFinite(rows); err != nil {
				return nil, fmt.Errorf("%w: %v", checkpoint.ErrFormat, err)
			}
		}
		for i := range saved.Returns {
			if err := g.Spec.Action.CheckMask(g.mask(saved.Masks, i)); err != nil {
				return nil, fmt.Errorf("%w: environment %d: %v", checkpoint.ErrFormat, i, err)
			}
		}
		before, err := g.save()
		undo = func() {
			if before == nil || err != nil || g.restore(before.States) != nil {
				g.Forget() // their former state cannot be restored
			}
		}
		if err := g.restore(saved.States); err != nil {
			undo()
			return nil, err
		}
		return func() {
			copy(g.rows.Obs, saved.Obs)
			copy(g.rows.Masks, saved.Masks)
			copy(g.returns, saved.Returns)
			copy(g.lengths, saved.Lengths)
			copy(g.normal, saved.Normal)
			copy(g.discounted, saved.Discounted)
			for i := range g.broken {
				g.resetting[i] = saved.Ended != nil && saved.Ended[i]
				g.broken[i] = !g.Sink.Open(i) && !g.resetting[i]
			}
			g.begun = true
		}, nil
	}
	p.Discard = func() { undo() }
	return p
}

// Forget makes every environment begin a new episode, because the sink no longer has the beginning
// of the episode in progress. Until the new episodes begin a checkpoint does not hold the
// environments.
func (g *Group) Forget() {
	clear(g.returns)
	clear(g.lengths)
	clear(g.discounted)
	clear(g.resetting)
	for i := range g.broken {
		g.broken[i] = g.Source != nil
	}
}

// save returns nil if there are no episodes that can be saved.
func (g *Group) save() (*savedEnvironments, error) {
	if g.Source == nil || !g.begun || slices.Contains(g.broken, true) {
		return nil, nil
	}
	s := &savedEnvironments{Obs: slices.Clone(g.rows.Obs), Masks: slices.Clone(g.rows.Masks), Returns: slices.Clone(g.returns), Lengths: slices.Clone(g.lengths),
		Normal: slices.Clone(g.normal), Discounted: slices.Clone(g.discounted)}
	if g.Disabled {
		s.Ended = slices.Clone(g.resetting)
	}
	for i := range g.Envs {
		state, err := g.Source.Save(i)
		if errors.Is(err, vec.ErrNoSaver) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		s.States = append(s.States, state)
	}
	return s, nil
}

func (g *Group) restore(states [][]byte) error {
	for i, state := range states {
		if err := g.Source.Restore(i, state); err != nil {
			return err
		}
	}
	return nil
}

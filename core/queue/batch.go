package queue

import "github.com/paceline-rl/paceline/core/env"

// Batch has the steps of a number of whole segments, one segment after the other.
type Batch struct {
	Rows       int // steps
	Obs        []byte
	Actions    []int32   // [Rows][Action.Ints()]
	Continuous []float32 // [Rows][Action.Floats()]
	Masks      []byte    // [Rows][Action.Logits()]; nil without Config.Masks
	Rewards    []float32
	Updates    []uint64    // of the parameters that acted
	Columns    [][]float32 // [columns][Rows]

	Segments []Segment
	// Last has an observation for each segment whose returns continue after its last step, in order.
	Last []byte
}

// Segment is a segment of a Batch.
type Segment struct {
	Env  int
	Rows int
	End  env.End // of the last step; 0: the episode goes on
}

// Continues reports whether the returns continue after the last step, from the value of an
// observation of Last.
func (s *Segment) Continues() bool { return continues(s.End) }

// NewBatch returns memory for what Take(least) takes. The slices of rows have their full length;
// Rows says how many are of the latest Take.
func (s *Segments) NewBatch(least int) *Batch {
	c, rows := &s.cfg, s.cfg.MostRows(least)
	b := &Batch{
		Obs: make([]byte, rows*s.size), Actions: make([]int32, rows*s.ints), Continuous: make([]float32, rows*s.floats),
		Rewards: make([]float32, rows), Updates: make([]uint64, rows), Columns: make([][]float32, len(c.Columns)),
		Segments: make([]Segment, 0, least), Last: make([]byte, 0, least*s.size),
	}
	if c.Masks {
		b.Masks = make([]byte, rows*c.maskBytes())
	}
	for k := range b.Columns {
		b.Columns[k] = make([]float32, rows)
	}
	return b
}

// First returns b with its slices of rows cut to the first `rows` of them.
func (b *Batch) First(rows int) Batch {
	f, most := *b, len(b.Rewards)
	f.Obs, f.Masks = f.Obs[:len(f.Obs)/most*rows], f.Masks[:len(f.Masks)/most*rows]
	f.Actions, f.Continuous = f.Actions[:len(f.Actions)/most*rows], f.Continuous[:len(f.Continuous)/most*rows]
	f.Rewards, f.Updates, f.Columns = f.Rewards[:rows], f.Updates[:rows], make([][]float32, len(b.Columns))
	for k, c := range b.Columns {
		f.Columns[k] = c[:rows]
	}
	return f
}

// MostRows returns the most steps that Take(least) takes: the last segment may have Steps of them.
func (c *Config) MostRows(least int) int { return least - 1 + c.Steps }

// BatchBytes returns the memory of NewBatch(least).
func (c Config) BatchBytes(least int) int64 {
	size := int64(c.Obs.Bytes())
	return int64(c.MostRows(least))*(size+c.rowBytes()) + int64(least)*size
}

// Take moves segments from the front of the queue to b until b has at least `least` steps or no
// segment is inside any more. It returns how many it took.
func (s *Segments) Take(least int, b *Batch) (segments int) {
	b.Rows, b.Segments, b.Last = 0, b.Segments[:0], b.Last[:0]
	inside := s.Len()
	for segments < inside && b.Rows < least {
		g := s.queue[segments]
		segments++
		at := b.Rows
		copy(b.Obs[at*s.size:], g.obs[:g.n*s.size])
		copy(b.Actions[at*s.ints:], g.actions[:g.n*s.ints])
		copy(b.Continuous[at*s.floats:], g.continuous[:g.n*s.floats])
		copy(b.Masks[at*s.cfg.maskBytes():], g.masks[:g.n*s.cfg.maskBytes()])
		copy(b.Rewards[at:], g.rewards[:g.n])
		copy(b.Updates[at:], g.updates[:g.n])
		for k, column := range b.Columns {
			for r := range g.n {
				column[at+r] = g.columns[r*len(b.Columns)+k]
			}
		}
		b.Rows += g.n
		b.Segments = append(b.Segments, Segment{g.env, g.n, g.end})
		if g.bootstraps() {
			b.Last = append(b.Last, s.row(g.obs, g.n)...)
		}
		s.free = append(s.free, g)
	}
	s.queue = s.queue[:copy(s.queue, s.queue[segments:])]
	s.taken += int64(segments)
	return segments
}

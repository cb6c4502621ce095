package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// The saved form, little-endian:
//
//	header, the column names with commas between them, numbers of branches and of box entries, the
//	branches
//	for each environment: 1 if it is open, the first observation of its next segment (zeros if that
//	observation is none), its segment in progress
//	the segments of the queue, the oldest first
//
// A segment is its environment, number of steps, end, 1 if it is over, and of these steps the
// actions, the boxes, the masks, the rewards, the updates, the columns and the observations, with
// the one after the last step. The checkpoint's manifest has the length and the checksum.
const saveMagic = "PLQUEUE1"

type saveHeader struct {
	Magic                             [8]byte
	ObsBytes, Actions, Masks          uint32
	Steps, Envs, Bound, Queued, Names uint32
}

type savedSegment struct {
	Env, Steps uint32
	End, Over  uint8
}

func (s *Segments) header() saveHeader {
	h := saveHeader{
		ObsBytes: uint32(s.size), Actions: uint32(s.cfg.Action.Logits()), Masks: uint32(s.cfg.maskBytes()), Steps: uint32(s.cfg.Steps),
		Envs: uint32(s.cfg.Envs), Bound: uint32(s.cfg.Bound), Queued: uint32(len(s.queue)), Names: uint32(len(s.names())),
	}
	copy(h.Magic[:], saveMagic)
	return h
}

func (s *Segments) names() string { return strings.Join(s.cfg.Columns, ",") }

// shape describes actions: numbers of integers and of box entries, and the branches.
func (s *Segments) shape() []uint32 {
	list := []uint32{uint32(s.ints), uint32(s.floats)}
	for b := range s.ints {
		list = append(list, uint32(s.cfg.Action.Branch(b)))
	}
	return list
}

// Save writes all segments, in progress and queued.
func (s *Segments) Save(w io.Writer) error {
	var failed error
	put := func(values ...any) {
		for _, v := range values {
			if failed == nil {
				failed = binary.Write(w, binary.LittleEndian, v)
			}
		}
	}
	put(s.header(), []byte(s.names()), s.shape())
	for i := range s.envs {
		e := &s.envs[i]
		first := e.first
		if !e.open || e.now.n > 0 && !e.now.over {
			first = make([]byte, s.size)
		}
		put(e.open, first, e.now.head())
		put(e.now.rows(s)...)
	}
	for _, g := range s.queue {
		put(g.head())
		put(g.rows(s)...)
	}
	return failed
}

func (g *segment) head() savedSegment {
	h := savedSegment{Env: uint32(g.env), Steps: uint32(g.n), End: uint8(g.end)}
	if g.over {
		h.Over = 1
	}
	return h
}

// rows returns what is saved of the steps, in place.
func (g *segment) rows(s *Segments) []any {
	if g.n == 0 {
		return nil
	}
	return []any{
		g.actions[:g.n*s.ints], g.continuous[:g.n*s.floats], g.masks[:g.n*s.cfg.maskBytes()], g.rewards[:g.n], g.updates[:g.n],
		g.columns[:g.n*len(s.cfg.Columns)], g.obs[:(g.n+1)*s.size],
	}
}

// Load reads the n bytes that Save wrote for the same Config and returns adopt, which replaces the
// content and cannot fail. Before adopt and after an error the content is unchanged. If in is nil,
// adopt empties everything. Segments that Load accepts make no later call fail.
func (s *Segments) Load(in io.Reader, n int64) (adopt func(), err error) {
	next, err := New(s.cfg)
	if err != nil {
		return nil, err
	}
	if in != nil {
		limited := &io.LimitedReader{R: in, N: n}
		if err := next.read(limited); err != nil {
			return nil, err
		}
		if limited.N != 0 {
			return nil, errDamaged
		}
	}
	return func() { *s = *next }, nil
}

var errDamaged = fmt.Errorf("%w: the segments contradict each other", checkpoint.ErrFormat)

// read fills empty Segments.
func (s *Segments) read(in io.Reader) error {
	get := func(values ...any) error {
		for _, v := range values {
			if err := binary.Read(in, binary.LittleEndian, v); err == io.EOF || err == io.ErrUnexpectedEOF {
				return errors.New("segments: the saved data end early")
			} else if err != nil {
				return err
			}
		}
		return nil
	}
	var h saveHeader
	if err := get(&h); err != nil {
		return err
	}
	if err := s.checkHeader(&h); err != nil {
		return err
	}
	names, shape := make([]byte, h.Names), s.shape()
	got := make([]uint32, len(shape))
	if err := get(names, got); err != nil {
		return err
	}
	if string(names) != s.names() || fmt.Sprint(got) != fmt.Sprint(shape) {
		return fmt.Errorf("segments: saved with other columns or actions, must be %q and %v", s.names(), s.cfg.Action)
	}
	for i := range s.envs {
		e := &s.envs[i]
		var open uint8
		if err := get(&open, e.first); err != nil {
			return err
		}
		if err := s.readSegment(e.now, get); err != nil {
			return err
		}
		g := e.now
		if e.open = open == 1; open > 1 || g.env != i || e.open && g.end != 0 && !g.over || !e.open && g.n > 0 && !g.over {
			return errDamaged
		}
		if err := s.cfg.Obs.CheckFinite(e.first); err != nil {
			return fmt.Errorf("environment %d: %w", i, err)
		}
	}
	outside := make([]bool, len(s.envs))
	for k := range h.Queued {
		g := s.fresh(0)
		if err := s.readSegment(g, get); err != nil {
			return err
		}
		if !g.over || k >= h.Bound && outside[g.env] {
			return errDamaged
		}
		outside[g.env] = k >= h.Bound
		s.queue = append(s.queue, g)
		s.envs[g.env].joined = int64(len(s.queue))
	}
	return nil
}

func (s *Segments) checkHeader(h *saveHeader) error {
	want := s.header()
	for _, v := range []struct {
		name      string
		got, want uint32
	}{
		{"bytes of an observation", h.ObsBytes, want.ObsBytes}, {"actions", h.Actions, want.Actions}, {"bytes of a mask", h.Masks, want.Masks},
		{"n_steps", h.Steps, want.Steps}, {"num_envs", h.Envs, want.Envs}, {"training_queue", h.Bound, want.Bound}, {"bytes of column names", h.Names, want.Names},
	} {
		if h.Magic != want.Magic {
			return errors.New("segments: these are not saved segments")
		}
		if v.got != v.want {
			return fmt.Errorf("segments: saved with %d %s, must be %d", v.got, v.name, v.want)
		}
	}
	if int(h.Queued) > s.cfg.Bound+s.cfg.Envs {
		return errDamaged
	}
	return nil
}

// readSegment fills an empty segment.
func (s *Segments) readSegment(g *segment, get func(...any) error) error {
	var h savedSegment
	if err := get(&h); err != nil {
		return err
	}
	end := env.End(h.End)
	switch {
	case int(h.Env) >= s.cfg.Envs || int(h.Steps) > s.cfg.Steps || h.Over > 1 || end > env.Terminated|env.Truncated|env.Lost:
		return errDamaged
	case h.Over == 1 && (h.Steps == 0 || end == 0 && int(h.Steps) < s.cfg.Steps), h.Over == 0 && (end != 0 || int(h.Steps) == s.cfg.Steps):
		return errDamaged
	}
	g.env, g.n, g.end, g.over = int(h.Env), int(h.Steps), end, h.Over == 1
	if g.n == 0 {
		return nil
	}
	if err := get(g.rows(s)...); err != nil {
		return err
	}
	return s.checkRows(g)
}

// checkRows refuses rows that Save cannot have written.
func (s *Segments) checkRows(g *segment) error {
	width := s.cfg.maskBytes()
	for k := range g.n {
		branches := g.actions[k*s.ints : (k+1)*s.ints]
		if s.cfg.Action.CheckAction(branches, nil) != nil {
			return errDamaged
		}
		if width > 0 {
			mask := g.masks[k*width : (k+1)*width]
			for b, a := range branches {
				if mask[a] == 0 {
					return errDamaged
				}
				mask = mask[s.cfg.Action.Branch(b):]
			}
		}
		if err := env.CheckReward(g.rewards[k]); err != nil {
			return err
		}
	}
	for _, numbers := range [][]float32{g.continuous[:g.n*s.floats], g.columns[:g.n*len(s.cfg.Columns)]} {
		for _, x := range numbers {
			if x-x != 0 {
				return fmt.Errorf("segments: %v, %w", x, fault.ErrNotFinite)
			}
		}
	}
	return s.cfg.Obs.CheckFinite(g.obs[:(g.n+1)*s.size])
}

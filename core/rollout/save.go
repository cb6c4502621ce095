package rollout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// The saved form, little-endian:
//
//	magic, format, bytes of an observation, actions (of all branches), horizon, envs, finished
//	rounds, length of the column names, the column names with commas between them
//	numbers of branches and of box entries, the branches (formats 3 and 4)
//	for each environment: flags, number of truncations, the round of each truncation
//	for each row of the finished rounds: action (0 in formats 3 and 4), reward, updates, end,
//	weight
//	the branches of these rows, the boxes of these rows (formats 3 and 4)
//	for each column: the values of these rows
//	the action masks of these rows (formats 2 and 4)
//	the observations of these rows
//	the pending observation of each environment (zeros if there is none)
//	for each environment: the last observations of its truncations
//
// The checkpoint's manifest has the length and the checksum. Advantages and returns are not saved:
// a method that is saved during an update saves them (onpolicy.Run).
const (
	saveMagic  = "PLROLLOU"
	saveFormat = 1 // 2 with action masks; 3 and 4 for actions that are not one integer
)

const flagPending = 1

type saveHeader struct {
	Magic                 [8]byte
	Format                uint32
	ObsBytes, Actions     uint32
	Horizon, Envs, Rounds uint32
	Names                 uint32
}

// saveRow is a row without its observation, columns, branches and box.
type saveRow struct {
	Action      int32
	Reward      float32
	Updates     uint64
	End, Weight uint8
}

func (r *Rollout) header() saveHeader {
	h := saveHeader{Format: saveFormat, ObsBytes: uint32(r.size), Actions: uint32(r.cfg.Action.Logits()), Horizon: uint32(r.cfg.Horizon),
		Envs: uint32(r.cfg.Envs), Rounds: uint32(r.round), Names: uint32(len(r.names()))}
	if r.cfg.Masks {
		h.Format++
	}
	if r.cfg.Action.N == 0 {
		h.Format += 2
	}
	copy(h.Magic[:], saveMagic)
	return h
}

// widths describes actions of several branches or with a box: numbers of branches and of box
// entries, and the branches. It is nil for an action of one integer.
func (r *Rollout) widths() []uint32 {
	if r.cfg.Action.N > 0 {
		return nil
	}
	list := []uint32{uint32(r.ints), uint32(r.floats)}
	for _, b := range r.cfg.Action.Branches {
		list = append(list, uint32(b))
	}
	return list
}

func (r *Rollout) names() string { return strings.Join(r.cfg.Columns, ",") }

// Save writes the whole content, including the pending observations. A run that loads it continues
// with the same bits. Save must be called between two rounds. The rollout need not be full.
func (r *Rollout) Save(w io.Writer) error {
	if err := r.checkBetweenRounds("save"); err != nil {
		return err
	}
	put := func(v any) error { return binary.Write(w, binary.LittleEndian, v) }
	putBytes := func(b []byte) error { _, err := w.Write(b); return err }
	if err := put(r.header()); err != nil {
		return err
	}
	if err := putBytes([]byte(r.names())); err != nil {
		return err
	}
	if err := put(r.widths()); err != nil {
		return err
	}
	for i := range r.envs {
		e := &r.envs[i]
		list := []uint32{0, uint32(len(e.cuts))}
		if e.pending {
			list[0] |= flagPending
		}
		for _, t := range e.cuts {
			list = append(list, uint32(t))
		}
		if err := put(list); err != nil {
			return err
		}
	}
	d, spans := &r.data, r.finishedRows()
	list := make([]saveRow, 0, r.round*r.cfg.Envs)
	for _, s := range spans {
		for k := s[0]; k < s[1]; k++ {
			row := saveRow{0, d.Rewards[k], d.Updates[k], uint8(d.Ends[k]), uint8(d.Weights[k])}
			if r.cfg.Action.N > 0 {
				row.Action = d.Actions[k]
			}
			list = append(list, row)
		}
	}
	if err := put(list); err != nil {
		return err
	}
	if r.cfg.Action.N == 0 {
		for _, s := range spans {
			if err := put(d.Actions[s[0]*r.ints : s[1]*r.ints]); err != nil {
				return err
			}
		}
		for _, s := range spans {
			if err := put(d.Continuous[s[0]*r.floats : s[1]*r.floats]); err != nil {
				return err
			}
		}
	}
	for _, column := range d.Columns {
		for _, s := range spans {
			if err := put(column[s[0]:s[1]]); err != nil {
				return err
			}
		}
	}
	for _, s := range spans {
		if err := putBytes(d.Masks[s[0]*r.cfg.maskBytes() : s[1]*r.cfg.maskBytes()]); err != nil {
			return err
		}
	}
	for _, s := range spans {
		if err := putBytes(d.Obs[s[0]*r.size : s[1]*r.size]); err != nil {
			return err
		}
	}
	zeros := make([]byte, r.size)
	for i := range r.envs {
		obs := zeros
		if r.envs[i].pending {
			obs = r.at(r.round, i)
		}
		if err := putBytes(obs); err != nil {
			return err
		}
	}
	for i := range r.envs {
		if err := putBytes(r.envs[i].cutObs); err != nil {
			return err
		}
	}
	return nil
}

// Load reads the n bytes that Save wrote for the same Config and returns adopt, which replaces the
// content and cannot fail. Before adopt and after an error the rollout is unchanged, so memory for
// both contents is needed. If in is nil, adopt empties the rollout. Damaged data and data of
// another Config are errors; the latter say "must be". A rollout that Load accepts makes no later
// call fail.
func (r *Rollout) Load(in io.Reader, n int64) (adopt func(), err error) {
	next, err := New(r.cfg)
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
	return func() { *r = *next }, nil
}

var errDamaged = fmt.Errorf("%w: the rollout's numbers contradict each other", checkpoint.ErrFormat)

// read fills an empty rollout. Besides the rollout's arrays it allocates at most one observation
// for each step.
func (r *Rollout) read(in io.Reader) error {
	get := func(v any) error { return readError(binary.Read(in, binary.LittleEndian, v)) }
	getBytes := func(b []byte) error { _, err := io.ReadFull(in, b); return readError(err) }
	var head saveHeader
	if err := get(&head); err != nil {
		return err
	}
	if err := r.checkHeader(&head); err != nil {
		return err
	}
	names := make([]byte, head.Names)
	if err := getBytes(names); err != nil {
		return err
	}
	if string(names) != r.names() {
		return fmt.Errorf("columns: rollout saved with %q, must be %q", names, r.names())
	}
	widths := r.widths()
	got := make([]uint32, len(widths))
	if err := get(got); err != nil {
		return err
	}
	if !slices.Equal(got, widths) {
		return fmt.Errorf("actions: rollout saved with other branches or another box, must be %v", r.cfg.Action)
	}
	r.round = int(head.Rounds)
	for i := range r.envs {
		e := &r.envs[i]
		var counts [2]uint32
		if err := get(&counts); err != nil {
			return err
		}
		if counts[0] > flagPending || counts[1] > head.Rounds {
			return errDamaged
		}
		e.pending = counts[0]&flagPending != 0
		rounds := make([]uint32, counts[1])
		if err := get(rounds); err != nil {
			return err
		}
		for _, t := range rounds {
			e.cuts = append(e.cuts, int(t))
		}
	}
	rows := r.round * r.cfg.Envs
	list := make([]saveRow, rows)
	if err := get(list); err != nil {
		return err
	}
	for k, s := range list {
		r.data.Rewards[k], r.data.Updates[k] = s.Reward, s.Updates
		r.data.Ends[k], r.data.Weights[k] = env.End(s.End), float32(s.Weight)
		if r.cfg.Action.N > 0 {
			r.data.Actions[k] = s.Action
		}
	}
	if r.cfg.Action.N == 0 {
		if err := get(r.data.Actions[:rows*r.ints]); err != nil {
			return err
		}
		if err := get(r.data.Continuous[:rows*r.floats]); err != nil {
			return err
		}
	}
	for _, column := range r.data.Columns {
		if err := get(column[:rows]); err != nil {
			return err
		}
	}
	if err := getBytes(r.data.Masks[:rows*r.cfg.maskBytes()]); err != nil {
		return err
	}
	if err := getBytes(r.data.Obs[:(rows+r.cfg.Envs)*r.size]); err != nil {
		return err
	}
	for i := range r.envs {
		e := &r.envs[i]
		e.cutObs, e.cutValues = make([]byte, len(e.cuts)*r.size), make([]float32, len(e.cuts))
		if err := getBytes(e.cutObs); err != nil {
			return err
		}
		if err := r.checkEnv(i); err != nil {
			return fmt.Errorf("environment %d: %w", i, err)
		}
	}
	return nil
}

func readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("rollout: the saved data end early")
	}
	return err
}

func (r *Rollout) checkHeader(h *saveHeader) error {
	want := r.header()
	switch {
	case h.Magic != want.Magic:
		return errors.New("rollout: these are not a saved rollout's data")
	case h.Format != want.Format:
		return fmt.Errorf("rollout: saved in format %d, this version reads %d", h.Format, want.Format)
	case h.ObsBytes != want.ObsBytes:
		return fmt.Errorf("rollout: saved with observations of %d bytes, must be %d", h.ObsBytes, want.ObsBytes)
	case h.Actions != want.Actions:
		return fmt.Errorf("rollout: saved with %d actions, must be %d", h.Actions, want.Actions)
	case h.Horizon != want.Horizon:
		return fmt.Errorf("n_steps: rollout saved with %d, must be %d", h.Horizon, want.Horizon)
	case h.Envs != want.Envs:
		return fmt.Errorf("num_envs: rollout saved with %d, must be %d", h.Envs, want.Envs)
	case h.Names != want.Names:
		return fmt.Errorf("columns: rollout saved with other ones, must be %q", r.names())
	case h.Rounds > h.Horizon:
		return errDamaged
	}
	return nil
}

// possible reports whether the action of row k is one of the spec and its mask allows it. Its box
// is not clipped.
func (r *Rollout) possible(k int) bool {
	branches, box := r.action(k)
	if r.cfg.Action.CheckAction(branches, nil) != nil {
		return false
	}
	for _, x := range box {
		if x-x != 0 {
			return false
		}
	}
	if !r.cfg.Masks {
		return true
	}
	first := k * r.cfg.maskBytes()
	for b, a := range branches {
		if r.data.Masks[first+int(a)] == 0 {
			return false
		}
		first += r.cfg.Action.Branch(b)
	}
	return true
}

// checkEnv finds the newest step of environment i. It returns an error for data that Save cannot
// have written.
func (r *Rollout) checkEnv(i int) error {
	e, d := &r.envs[i], &r.data
	var cuts []int
	open := false // the segment continues after its newest step
	for t := range r.round {
		k := r.row(t, i)
		switch w := d.Weights[k]; {
		case w == 0:
			r.hole(t, i) // as EndRound does
			continue
		case w != 1 || d.Ends[k] > env.Terminated|env.Truncated|env.Lost || !r.possible(k):
			return errDamaged
		}
		if err := env.CheckReward(d.Rewards[k]); err != nil {
			return err
		}
		if err := r.cfg.Obs.CheckFinite(r.at(t, i)); err != nil {
			return err
		}
		for c, column := range d.Columns {
			if v := column[k]; v-v != 0 {
				return fmt.Errorf("%s: %v, %w", r.cfg.Columns[c], v, fault.ErrNotFinite)
			}
		}
		open = d.Ends[k] == 0 // after a lost life Cut leaves no trace
		e.newest = t
		if d.Ends[k] == env.Truncated {
			cuts = append(cuts, t)
		}
		if d.Ends[k].Over() {
			e.newest = -1
		}
	}
	if !slices.Equal(cuts, e.cuts) || open && !e.pending {
		return errDamaged
	}
	return errors.Join(r.cfg.Obs.CheckFinite(r.at(r.round, i)), r.cfg.Obs.CheckFinite(e.cutObs))
}

package ga3c

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// traceMost is the most proposals of a trace. The latest are kept.
const traceMost = 100_000

// proposal is one of the tuner's: the counts that were tried, the updates a second with the counts
// so far and with those tried (with authors the updates of the two periods), the statistic that
// decided, and whether they were kept.
type proposal struct {
	Period                       int64
	Time                         int64 // of the schedule, nanoseconds
	Predictors, Trainers, Agents int32
	Old, New, Statistic          float64
	Kept                         uint8
}

var proposalBytes = binary.Size(proposal{})

// trace is a ring of encoded proposals: that of period n is at (n-1) mod traceMost. A checkpoint
// has it as it is.
type trace []byte

// add adds the proposal of a period that comes after all others.
func (t *trace) add(p proposal) {
	row, _ := binary.Append(nil, binary.LittleEndian, p)
	if at := t.at(p.Period); at < len(*t) {
		copy((*t)[at:], row)
		return
	}
	*t = append(*t, row...)
}

func (t trace) at(period int64) int { return int((period-1)%traceMost) * proposalBytes }

// rows calls row for each proposal of a run of a number of periods, in their order.
func (t trace) rows(periods int64, row func(p proposal)) {
	for n := max(1, periods-traceMost+1); n <= periods; n++ {
		var p proposal
		binary.Decode(t[t.at(n):], binary.LittleEndian, &p)
		row(p)
	}
}

// check refuses what is not the trace of a run of a number of periods.
func (t trace) check(periods int64, most counts) error {
	if want := min(periods, traceMost) * int64(proposalBytes); int64(len(t)) != want {
		return fmt.Errorf("tuner: a trace of %d bytes, must be %d after %d periods", len(t), want, periods)
	}
	next, ok := max(1, periods-traceMost+1), true
	t.rows(periods, func(p proposal) {
		c := counts{int(p.Predictors), int(p.Trainers), int(p.Agents)}
		ok = ok && p.Period == next && p.Time >= 0 && p.Time <= 1<<61 && c.within(most) && p.Kept <= 1
		next++
	})
	if !ok {
		return errors.New("tuner: a trace that no run has")
	}
	return nil
}

// csv returns the trace as comma-separated values.
func (t trace) csv(periods int64) []byte {
	var to bytes.Buffer
	to.WriteString("period,time,predictors,trainers,agents,old,new,statistic,kept\n")
	t.rows(periods, func(p proposal) {
		fmt.Fprintf(&to, "%d,%.6f,%d,%d,%d,%.6g,%.6g,%.4g,%v\n", p.Period, float64(p.Time)/1e9, p.Predictors, p.Trainers, p.Agents, p.Old, p.New, p.Statistic, p.Kept == 1)
	})
	return to.Bytes()
}

// record adds the proposal that was judged.
func (t *tuner) record(now int64, old, trial, statistic float64, kept bool) {
	if old < 0 { // the first period of authors
		old = math.NaN()
	}
	p := proposal{t.Periods, now, int32(t.Trial.Predictors), int32(t.Trial.Trainers), int32(t.Trial.Agents), old, trial, statistic, 0}
	if kept {
		p.Kept = 1
	}
	t.Trace.add(p)
}

// Trace implements train.Traced.
func (m *GA3C) Trace() []byte {
	if _, repeated := m.pace.(*recorded); m.tuner == nil || repeated {
		return nil
	}
	return m.tuner.Trace.csv(m.tuner.Periods)
}

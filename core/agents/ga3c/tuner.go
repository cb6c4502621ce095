package ga3c

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/rng"
)

// counts are NP, NT and NA: how many predictors, trainers and agents are active. A predictor or a
// trainer that is not takes nothing. An agent that is not finishes its segment first; its
// environment and its stream of random numbers go on when it is active again.
type counts struct {
	Predictors int `json:"predictors"`
	Trainers   int `json:"trainers"`
	Agents     int `json:"agents"`
}

// within reports whether every count is 1 to that of most.
func (c counts) within(most counts) bool {
	return min(c.Predictors, c.Trainers, c.Agents) >= 1 && c.Predictors <= most.Predictors && c.Trainers <= most.Trainers && c.Agents <= most.Agents
}

// clamp returns the nearest counts within most.
func (c counts) clamp(most counts) counts {
	return counts{min(max(1, c.Predictors), most.Predictors), min(max(1, c.Trainers), most.Trainers), min(max(1, c.Agents), most.Agents)}
}

// Forms of the tuner.
const (
	tunerNone    = "none"
	tunerPaper   = "paper"
	tunerAuthors = "authors"
	tunerLadder  = "ladder"
)

// tuner is the dynamic adjustment of section 4.3: every period it proposes other counts, and keeps
// them or takes them back by the updates a second (TPS).
//
//	paper     one of the three, at random, by +1 or -1
//	ladder    NP or NT by 1, or NA times 2 or by 2. A move that was kept is repeated; the others are tried
//	          in a random order, each once before any twice
//	authors   all three by -1, 0 or +1
//
// With paper and ladder a period has tuner_pairs pairs of windows, one with the counts so far and
// one with those proposed, in the order old, new, new, old and so on. The first quarter of a window
// is not measured. The proposal is kept if the mean of the differences of the pairs is above 0 and
// above tuner_test standard errors. With authors the updates in the second half of a period are
// compared with those of the period before, as numbers.
type tuner struct {
	form   string
	period int64 // nanoseconds
	pairs  int
	test   float64
	most   counts
	stream *rng.Stream
	tunerState
}

// tunerState is what a checkpoint holds of a tuner.
type tunerState struct {
	Kept      counts    `json:"kept"`
	Trial     counts    `json:"trial"`
	Move      int       `json:"move"`  // of ladder: the one that is tried
	Tried     int       `json:"tried"` // of ladder: a bit for each move tried since one was kept
	Measuring bool      `json:"measuring"`
	From      int64     `json:"from"`    // time at which measuring began
	Updates   int64     `json:"updates"` // updates at that time
	Due       int64     `json:"due"`     // time of the next event; 0: the tuner has not begun
	Rates     []float64 `json:"rates"`   // of the windows of the period
	Before    float64   `json:"before"`  // of authors: updates of the period before; -1: there is none
	Periods   int64     `json:"periods"`
	Accepted  int64     `json:"accepted"` // proposals that were kept
	Stream    []byte    `json:"stream"`
	Trace     trace     `json:"trace"`
}

func newTuner(c *Config) *tuner {
	t := &tuner{form: c.Tuner, period: int64(c.TunerPeriod * 1e9), pairs: c.TunerPairs, test: c.TunerTest,
		most: counts{c.Predictors, c.Trainers, c.NumEnvs}, stream: rng.New(uint64(c.Seed), "tuner", 0)}
	t.Kept = counts{c.TunerStart[0], c.TunerStart[1], c.TunerStart[2]}.clamp(t.most)
	t.Before = -1
	return t
}

// begin begins the first period, and returns the counts, which are those at the start. With authors
// it is a period without a proposal.
func (t *tuner) begin(now int64) counts {
	if t.Trial = t.Kept; t.form != tunerAuthors {
		t.propose()
	}
	return t.window(now)
}

// window begins a window, and returns its counts.
func (t *tuner) window(now int64) counts {
	t.Measuring = false
	if t.form == tunerAuthors {
		t.Due = now + max(1, t.period/2)
		return t.Trial
	}
	t.Due = now + max(1, t.length()/4)
	if n := len(t.Rates) % 4; n == 0 || n == 3 {
		return t.Kept
	}
	return t.Trial
}

// length is the time of a window.
func (t *tuner) length() int64 { return t.period / int64(2*t.pairs) }

// next processes the tuner's event, and returns the counts from now on.
func (t *tuner) next(now, updates int64, active counts) counts {
	if !t.Measuring {
		t.Measuring, t.From, t.Updates = true, now, updates
		rest := t.length() - t.length()/4
		if t.form == tunerAuthors {
			rest = t.period - t.period/2
		}
		t.Due = now + max(1, rest)
		return active
	}
	n := float64(updates - t.Updates)
	if t.form == tunerAuthors {
		kept := n >= t.Before
		t.judged(now, t.Before, n, math.NaN(), kept)
		t.Before = n
		t.propose()
		return t.window(now)
	}
	if t.Rates = append(t.Rates, n/(float64(now-t.From)/1e9)); len(t.Rates) < 2*t.pairs {
		return t.window(now)
	}
	old, trial, statistic := t.compare()
	t.Rates = t.Rates[:0]
	t.judged(now, old, trial, statistic, trial > old && statistic > t.test)
	t.propose()
	return t.window(now)
}

// compare returns the mean rates of the windows with the old and the proposed counts, and the mean
// of the differences of the pairs in standard errors; +Inf if there is one pair or all are equal.
func (t *tuner) compare() (old, trial, statistic float64) {
	k := float64(t.pairs)
	mean, squares := 0.0, 0.0
	var differences []float64
	for m := 0; m < len(t.Rates); m += 2 {
		a, b := t.Rates[m], t.Rates[m+1]
		if m%4 == 2 {
			a, b = b, a
		}
		old, trial = old+a/k, trial+b/k
		differences = append(differences, b-a)
		mean += (b - a) / k
	}
	for _, d := range differences {
		squares += float64((d - mean) * (d - mean))
	}
	if squares == 0 {
		return old, trial, math.Inf(1)
	}
	return old, trial, mean / math.Sqrt(squares/(k*(k-1)))
}

// judged keeps the proposal or takes it back, and records it.
func (t *tuner) judged(now int64, old, trial, statistic float64, kept bool) {
	t.Periods++
	t.record(now, old, trial, statistic, kept)
	if kept {
		t.Accepted++
		t.Kept, t.Tried = t.Trial, 0
	} else {
		t.Tried |= 1 << t.Move
	}
}

// moves of ladder are numbered: NP, NT, NA up, then NP, NT, NA down. Those of paper, too.
const moves = 6

// moved returns the counts after a move.
func (t *tuner) moved(move int) counts {
	c, by := t.Kept, 1
	if move >= moves/2 {
		by = -1
	}
	switch move % (moves / 2) {
	case 0:
		c.Predictors += by
	case 1:
		c.Trainers += by
	default:
		switch {
		case t.form == tunerPaper:
			c.Agents += by
		case by > 0:
			c.Agents *= 2
		default:
			c.Agents /= 2
		}
	}
	return c
}

// propose chooses Trial.
func (t *tuner) propose() {
	switch t.form {
	case tunerAuthors:
		by := func() int { return t.stream.Intn(3) - 1 }
		t.Trial = counts{t.Kept.Predictors + by(), t.Kept.Trainers + by(), t.Kept.Agents + by()}.clamp(t.most)
		return
	case tunerPaper:
		t.Move = t.stream.Intn(moves)
		if t.Trial = t.moved(t.Move); !t.Trial.within(t.most) { // the other way
			t.Trial = t.moved((t.Move + moves/2) % moves)
		}
		t.Trial = t.Trial.clamp(t.most)
		return
	}
	if t.Periods > 0 && t.Tried == 0 && t.moved(t.Move).within(t.most) { // it was kept
		t.Trial = t.moved(t.Move)
		return
	}
	for range 2 {
		var list []int
		for move := range moves {
			if t.Tried>>move&1 == 0 && t.moved(move).within(t.most) {
				list = append(list, move)
			}
		}
		if len(list) > 0 {
			t.Move = list[t.stream.Intn(len(list))]
			t.Trial = t.moved(t.Move)
			return
		}
		t.Tried = 0
	}
	t.Trial = t.Kept // there is one of each, and no more
}

// save and check are of a checkpoint's state.
func (t *tuner) save() (*tunerState, error) {
	s := t.tunerState
	s.Rates, s.Trace = append([]float64{}, t.Rates...), slices.Clone(t.Trace)
	var err error
	s.Stream, err = t.stream.MarshalBinary()
	return &s, err
}

// load returns adopt of a saved state.
func (t *tuner) load(s *tunerState) (adopt func(), err error) {
	var stream rng.Stream
	if err := stream.UnmarshalBinary(s.Stream); err != nil {
		return nil, fmt.Errorf("tuner: %w", err)
	}
	finite := s.Before-s.Before == 0
	for _, r := range s.Rates {
		finite = finite && r >= 0 && r-r == 0
	}
	if !finite || !s.Kept.within(t.most) || !s.Trial.within(t.most) && s.Due > 0 || s.Move < 0 || s.Move >= moves || s.Tried < 0 || s.Tried >= 1<<moves ||
		min(s.From, s.Updates, s.Due, s.Periods, s.Accepted) < 0 || max(s.From, s.Updates, s.Due) > 1<<61 || len(s.Rates) >= 2*t.pairs {
		return nil, fmt.Errorf("tuner: a state that no run has: %+v and %+v, move %d, %d rates, due %d", s.Kept, s.Trial, s.Move, len(s.Rates), s.Due)
	}
	if err := s.Trace.check(s.Periods, t.most); err != nil {
		return nil, err
	}
	return func() {
		t.tunerState = *s
		*t.stream = stream
	}, nil
}

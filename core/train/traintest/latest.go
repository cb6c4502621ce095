package traintest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// recordedWalk is a Walk that records its latest results. Its info is the number of its steps.
type recordedWalk struct {
	*Walk
	steps      int32
	reward     float32
	end        env.End
	obs        []byte
	started    bool   // obs is the first observation of an episode
	final      []byte // last observation of the latest episode that ended
	finalSteps int32  // steps at that end
}

func (o *recordedWalk) Infos() []env.InfoSpec {
	return []env.InfoSpec{{Name: "steps", DType: env.Int32}}
}

func (o *recordedWalk) Inform(columns [][]byte, i int) {
	binary.NativeEndian.PutUint32(columns[0][4*i:], uint32(o.steps))
}

func (o *recordedWalk) Reset(obs []byte) error {
	err := o.Walk.Reset(obs)
	o.obs, o.started = bytes.Clone(obs), true
	return err
}

func (o *recordedWalk) Step(action int32, obs []byte) (reward float32, end env.End, err error) {
	reward, end, err = o.Walk.Step(action, obs)
	o.record(reward, end, obs)
	return reward, end, err
}

func (o *recordedWalk) StepAction(branches []int32, box []float32, obs []byte) (reward float32, end env.End, err error) {
	reward, end, err = o.Walk.StepAction(branches, box, obs)
	o.record(reward, end, obs)
	return reward, end, err
}

func (o *recordedWalk) record(reward float32, end env.End, obs []byte) {
	o.steps++
	o.obs, o.started = bytes.Clone(obs), false
	if o.reward, o.end = reward, end; end != 0 {
		o.final, o.finalSteps = o.obs, o.steps
	}
}

// latestRows compares the rows that a host reads after every round with the results of the
// environments. It also tests resets during the update, and reads that run the updates due.
func latestRows(t *testing.T, s Subject) {
	maxGroups := 2
	if s.refusesGroups() {
		maxGroups = 1
	}
	for numGroups := 1; numGroups <= maxGroups; numGroups++ {
		for _, reset := range []string{"true", "false"} {
			c := s.config(t, "groups", strconv.Itoa(numGroups))
			if _, err := c.Get("mid_batch_reset"); err == nil {
				check(t, c.Set("mid_batch_reset", reset))
			} else if reset == "false" {
				continue // not every method has the setting
			}
			s.compareRounds(t, c, reset == "false")
		}
	}
}

// compareRounds tests the rows of a run. With resetInUpdate an environment takes no step after an
// end until the update.
func (s *Subject) compareRounds(t *testing.T, c *train.Config, resetInUpdate bool) {
	t.Helper()
	var walks []*recordedWalk
	tr := s.newTrainer(t, c, func(i int) (env.Env, error) {
		e, err := s.walks(7)(i)
		walks = append(walks, &recordedWalk{Walk: e.(*Walk)})
		return walks[i], err
	})
	n, size := len(walks), tr.Spec().Obs.Bytes()
	rows := vec.NewRows(tr.Spec().Obs, n)
	rows.AddInfos(tr.Infos())
	check(t, tr.Begin(total/3, 0))
	r := rand.New(rand.NewPCG(4, 4))
	noStep, ended := 0, int64(0)
	for tr.Stats().Steps < total/3 {
		before := make([]int32, n)
		for i, w := range walks {
			before[i] = w.steps
		}
		check(t, tr.Run(1, 0))
		if r.IntN(2) == 0 {
			check(t, tr.Settle(0)) // as the end of a run and a read do
		}
		check(t, tr.Latest(rows, vec.Actions{}))
		for i, w := range walks {
			reward, end := w.reward, w.end
			if w.steps == before[i] {
				reward, end = 0, 0
				noStep++
			}
			if rows.Rewards[i] != reward || rows.Ends[i] != end || rows.Starts[i] != w.started || !bytes.Equal(rows.Obs[i*size:(i+1)*size], w.obs) {
				t.Fatalf("row %d: reward %v, end %v, start %v, must be %v, %v, %v, or another observation", i, rows.Rewards[i], rows.Ends[i], rows.Starts[i], reward, end, w.started)
			}
			if end == 0 {
				continue
			}
			ended++
			if steps := int32(binary.NativeEndian.Uint32(rows.FinalInfos[0][4*i:])); !bytes.Equal(rows.FinalObs[i*size:(i+1)*size], w.final) || steps != w.finalSteps {
				t.Fatalf("row %d: another last observation, or the info of step %d at the end, must be %d", i, steps, w.finalSteps)
			}
		}
	}
	if st := tr.Stats(); ended != st.Episodes || ended == 0 || !resetInUpdate && noStep > 0 && !s.Alone || resetInUpdate && noStep == 0 && s.Settings["n_steps"] != "1" {
		t.Errorf("%d episodes ended in the rounds, %d were counted; %d rows without a step", ended, st.Episodes, noStep)
	}
}

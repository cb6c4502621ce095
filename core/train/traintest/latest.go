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

// observed is a walk that remembers what it gave last. Its info is the number of its steps.
type observed struct {
	*Walk
	steps      int32
	reward     float32
	end        env.End
	obs, final []byte // final: of the episode that ended last
	finalSteps int32
	started    bool // obs is the first of an episode
}

func (o *observed) Infos() []env.InfoSpec { return []env.InfoSpec{{Name: "steps", DType: env.Int32}} }

func (o *observed) Inform(columns [][]byte, i int) {
	binary.NativeEndian.PutUint32(columns[0][4*i:], uint32(o.steps))
}

func (o *observed) Reset(obs []byte) error {
	err := o.Walk.Reset(obs)
	o.obs, o.started = bytes.Clone(obs), true
	return err
}

func (o *observed) Step(action int32, obs []byte) (reward float32, end env.End, err error) {
	reward, end, err = o.Walk.Step(action, obs)
	o.steps++
	o.obs, o.started = bytes.Clone(obs), false
	if o.reward, o.end = reward, end; end != 0 {
		o.final, o.finalSteps = o.obs, o.steps
	}
	return reward, end, err
}

// latestRound compares what a host sees of every round with what the environments gave, also
// where they are not reset at once, and where a read has settled what was due in between.
func latestRound(t *testing.T, s Subject) {
	most := 2
	if s.Settings["synchronized"] == "false" {
		most = 1 // each environment takes its steps by itself
	}
	for groups := 1; groups <= most; groups++ {
		for _, reset := range []string{"true", "false"} {
			c := s.config(t, "groups", strconv.Itoa(groups))
			if _, err := c.Get("mid_batch_reset"); err == nil {
				check(t, c.Set("mid_batch_reset", reset))
			} else if reset == "false" {
				continue // not every method has the setting
			}
			s.compareRounds(t, c, reset == "false")
		}
	}
}

func (s *Subject) compareRounds(t *testing.T, c *train.Config, rests bool) {
	t.Helper()
	var walks []*observed
	tr := s.start(t, c, func(i int) (env.Env, error) {
		e, err := s.walks(7)(i)
		walks = append(walks, &observed{Walk: e.(*Walk)})
		return walks[i], err
	})
	n, size := len(walks), tr.Spec().Obs.Bytes()
	rows := vec.NewRows(tr.Spec().Obs, n)
	rows.AddInfos(tr.Infos())
	check(t, tr.Begin(total/3, 0))
	r := rand.New(rand.NewPCG(4, 4))
	rested, ended := 0, int64(0)
	for tr.Stats().Steps < total/3 {
		before := make([]int32, n)
		for i, w := range walks {
			before[i] = w.steps
		}
		check(t, tr.Run(1, 0))
		if r.IntN(2) == 0 {
			check(t, tr.Settle(0)) // as at the end of a run, and as a read does
		}
		check(t, tr.Latest(rows, nil))
		for i, w := range walks {
			reward, end := w.reward, w.end
			if w.steps == before[i] {
				reward, end = 0, 0
				rested++
			}
			if rows.Rewards[i] != reward || rows.Ends[i] != end || rows.Starts[i] != w.started || !bytes.Equal(rows.Obs[i*size:(i+1)*size], w.obs) {
				t.Fatalf("row %d: reward %v, end %v, start %v, must be %v, %v, %v, or another observation", i, rows.Rewards[i], rows.Ends[i], rows.Starts[i], reward, end, w.started)
			}
			if end == 0 {
				continue
			}
			ended++
			if steps := int32(binary.NativeEndian.Uint32(rows.FinalInfos[0][4*i:])); !bytes.Equal(rows.FinalObs[i*size:(i+1)*size], w.final) || steps != w.finalSteps {
				t.Fatalf("row %d: another last observation, or an info of step %d at the end, must be %d", i, steps, w.finalSteps)
			}
		}
	}
	if st := tr.Stats(); ended != st.Episodes || ended == 0 || !rests && rested > 0 || rests && rested == 0 && s.Settings["n_steps"] != "1" {
		t.Errorf("%d episodes ended in the rounds, %d were counted; %d rows rested", ended, st.Episodes, rested)
	}
}

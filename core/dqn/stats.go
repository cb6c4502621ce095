package dqn

import (
	"math"
	"sync"
	"time"
)

// Stats says where a DQN stands. Rates are for the caller to take from two of
// them.
type Stats struct {
	Steps        int64 // num_timesteps: agent steps, warm-up included
	Total        int64 // at which the course of learning ends
	Updates      int64
	UpdatesDue   int64
	Episodes     int64
	Windows      int64
	ReplaySize   int64 // transitions that can be sampled
	ReplayBytes  int64
	Epsilon      float64
	LearningRate float64
	Loss         float64 // mean of the latest 100 updates, NaN before the first
	MeanReturn   float64 // of the latest 100 episodes, NaN before the first
	MeanLength   float64
	// Where the time went: added over threads, except Wait, which is the main
	// thread's, for the trainer or for a core.
	Env, Act, Train, Wait time.Duration
}

// stats is what Stats reads while a run is in progress.
type stats struct {
	mu       sync.Mutex
	recent   [100]episode
	episodes int64
	now      Stats
}

// count closes a round: the episodes that ended in it, and what Stats shows.
func (d *DQN) count() {
	st := &d.stats
	st.mu.Lock()
	d.samplers.takeFinished(func(e episode) {
		st.recent[st.episodes%int64(len(st.recent))] = e
		st.episodes++
	})
	st.now.Steps = d.clock.steps()
	st.mu.Unlock()
}

// publish refreshes the rest at the end of a call.
func (d *DQN) publish() {
	st := &d.stats
	st.mu.Lock()
	defer st.mu.Unlock()
	c := &d.clock
	n := &st.now
	n.Steps, n.Total, n.Windows = c.steps(), c.End, c.Windows
	n.Epsilon, n.LearningRate = d.schedule.epsilon(c.T), d.schedule.rate(c.steps())
	if !c.Warm {
		n.Epsilon = 1
	}
	n.UpdatesDue = d.due(c.T)
	n.ReplaySize, n.ReplayBytes = int64(d.memory.Len()), d.memory.Bytes()
	n.Env, n.Act, n.Wait = d.times.env, d.times.act, d.times.wait
}

// Stats may be called at any time. Steps, Updates and the means are those of
// this moment, the rest is that of the end of the latest call.
func (d *DQN) Stats() Stats {
	st := &d.stats
	st.mu.Lock()
	now := st.now
	n := min(st.episodes, int64(len(st.recent)))
	now.Episodes = st.episodes
	now.MeanReturn, now.MeanLength = math.NaN(), math.NaN()
	if n > 0 {
		now.MeanReturn, now.MeanLength = 0, 0
		for _, e := range st.recent[:n] {
			now.MeanReturn += e.Return / float64(n)
			now.MeanLength += float64(e.Length) / float64(n)
		}
	}
	st.mu.Unlock()
	now.Loss, now.Updates, now.Train = d.trainer.meanLoss()
	return now
}

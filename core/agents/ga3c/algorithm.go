package ga3c

import (
	"math"
	"time"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
)

// This file is section 4.1 of the paper, with (1), (2), (3) and (5). What waits where is in
// events.go:
//
//	Agent      queues policy requests in a Prediction Queue         GA3C.request
//	           before each action, and periodically submits         GA3C.ready, queue.Segments.Join
//	           a batch of experiences to a Training Queue
//	Predictor  dequeues as many prediction requests as are          GA3C.predict
//	           immediately available, batches them into a single
//	           inference query, returns the requested policy to     predictor.run
//	           each respective waiting agent
//	Trainer    dequeues training batches submitted by agents and    GA3C.train
//	           submits them to the GPU for model updates            trainer.run, GA3C.apply
//
// The parameters theta are those of the latest update (versions.go). A predictor and a trainer read
// the version that was the latest when they took their batch.

// run is an inference query for a batch of agents: pi(a|s; theta) and V(s; theta). Each agent draws
// its action from its own stream.
func (p *predictor) run() error {
	defer p.version.done()
	m, n := p.m, len(p.batch)
	size := len(p.obs) / cap(p.batch)
	for j, i := range p.batch {
		copy(p.obs[j*size:(j+1)*size], m.group.Row(i))
	}
	out, err := p.network.Forward(p.version.Params, p.obs[:n*size], n)
	if err != nil {
		return err
	}
	p.row.Outputs, p.row.LogStds = out, p.version.LogStd()
	for j, i := range p.batch {
		p.row.Index = j
		if err := m.group.ChooseRow(i, p.first+int64(j), m.chooser, &p.row, p.version.Updates); err != nil {
			return err
		}
	}
	return nil
}

// run computes the gradient of the loss of a batch of segments:
//
//	f_pi = log(pi(a_t|s_t; theta) + eps) (R_t - V(s_t; theta_t)) + beta H(pi(s_t; theta) + eps)    (5)
//	f_v  = (R_t - V(s_t; theta_t))^2                                                               (2)
//
// theta_t are the parameters now, and not those that acted, for V(s_t) and also for the V(s_t+k)
// with which R_t ends.
func (t *trainer) run() error {
	defer t.version.done()
	m := t.m
	if m.before != nil {
		m.before()
	}
	if err := t.evaluateLast(); err != nil {
		return err
	}
	for k := range t.weights {
		t.weights[k] = 0
		if k < t.rows {
			t.weights[k] = 1
		}
	}
	n, b := t.learner.rows, t.batch.First(t.learner.rows)
	err := t.learner.Gradient(t.version.Params, nn.Batch{
		Obs: b.Obs, Actions: b.Actions, Continuous: b.Continuous, Masks: b.Masks,
		Columns: [][]float32{t.advantages[:n], t.returns[:n], t.weights[:n]}, Complete: t.complete,
	}, t.grad, &t.report)
	if err == nil {
		t.report.Norm, _ = t.device.ClipGradNorm(t.grad, math.Inf(1))
	}
	return err
}

// evaluateLast computes V(s_t+k; theta_t) of the observations after the last steps.
func (t *trainer) evaluateLast() error {
	obs, size := t.batch.Last, t.m.group.Spec.Obs.Bytes()
	for first, rows := 0, len(obs)/size; first < rows; first += valueRows {
		n := min(valueRows, rows-first)
		out, err := t.network.Forward(t.version.Params, obs[first*size:(first+n)*size], n)
		if err != nil {
			return err
		}
		copy(t.last[first:first+n], out.Values[t.m.headV])
	}
	return nil
}

// complete computes R_t and R_t - V(s_t; theta_t) of the batch, whose outputs by theta_t are out.
func (t *trainer) complete(out nn.Outputs) error {
	m := t.m
	copy(t.values[:t.rows], out.Values[m.headV])
	if t.ratios != nil {
		if err := t.compare(out); err != nil {
			return err
		}
	}
	t.trace(m.cfg.Gamma, m.cfg.GAELambda)
	t.explained = rollout.ExplainedVarianceOf(t.returns, t.values, t.weights)
	if m.cfg.NormalizeAdvantage {
		rollout.MomentsOf(t.advantages, t.weights).Normalize(t.advantages, t.weights)
	}
	return nil
}

// trace computes R_t = sum of gamma^i r_t+i + gamma^k V(s_t+k; theta_t) for every step of every
// segment, where k reaches to the end of the segment and the last term is 0 after a terminal state,
// and R_t - V(s_t). With gae_lambda below 1 they are those of generalised advantage estimation, and
// with vtrace those of V-trace. The recursion is in float64, as that of package rollout.
func (t *trainer) trace(gamma, lambda float64) {
	b := t.batch
	end, last := 0, 0
	for _, s := range b.Segments {
		first := end
		end += s.Rows
		next, after := 0.0, 0.0
		if s.Continues() {
			next = float64(t.last[last])
			last++
		}
		for k := end - 1; k >= first; k-- {
			v := float64(t.values[k])
			if t.ratios != nil {
				t.advantages[k], t.returns[k], after = t.m.vtrace.Step(b.Rewards[k], t.values[k], t.ratios[k], next, after)
				next = v
				continue
			}
			delta := float64(b.Rewards[k]) + float64(gamma*next) - v
			after = delta + float64(gamma*lambda*after)
			t.advantages[k], t.returns[k] = float32(after), float32(after+v)
			next = v
		}
	}
}

// apply applies a trainer's gradient to the latest parameters:
//
//	g = alpha g + (1 - alpha) dtheta^2,  theta = theta - eta dtheta / sqrt(g + eps)               (3)
//
// Trainers share g. dtheta is the sum of the gradients over the batch (section 5.3), or their mean.
func (m *GA3C) apply(t *trainer) error {
	err := m.tasks.wait(t.task)
	if t.task != nil {
		m.units.Look(t.learner, m.clock.Steps, t.batch.Obs[:t.rows*m.group.Spec.Obs.Bytes()])
	}
	done, began := t.task, time.Now()
	t.busy, t.task = false, nil
	if err == nil {
		err = m.step(t)
		m.measured("update", t.rows, done, time.Since(began))
	}
	if err != nil {
		m.err = train.AtUpdate(err, m.clock.Steps, m.clock.Updates+1)
		return m.err
	}
	m.clock.Updates++
	m.monitor.Updates.Store(m.clock.Updates)
	if !m.updated {
		m.updated = true
		m.monitor.FirstUpdate("learning_rate", m.clock.Rate, m.clock.Steps)
	}
	if m.cfg.WaitForUpdate {
		return m.release(t.envs)
	}
	return nil
}

// step takes the optimiser's step.
func (m *GA3C) step(t *trainer) error {
	r, most := &t.report, m.cfg.MaxGradNorm
	if r.Loss-r.Loss != 0 {
		return &nn.NotFinite{What: "loss", Value: r.Loss}
	}
	if most == 0 {
		most = math.Inf(1)
	}
	rows := 1 // that the learner's mean is multiplied by
	if m.cfg.LossReduction == reductionSum {
		rows = t.rows
	}
	norm := float64(r.Norm * float64(rows))
	factor := nn.ClipFactor(norm, most) * float32(rows)
	if r.Norm = norm; norm-norm != 0 {
		return &nn.NotFinite{What: "gradient norm", Value: norm}
	}
	p := m.versions.write()
	m.sums.update(t, p.Updates)
	m.report = report{r.Loss, norm, append(m.report.parts[:0], r.Parts...), t.explained}
	return m.optimizer.Apply(p, t.grad, factor, m.clock.Rate.At(m.clock.Steps))
}

package pqn

// This file is Algorithm 1 of Gallici et al. 2025 where it is not acting. doc.go lists its
// symbols and closes what it leaves open. The loop is onpolicy.Run's:
//
//	for each episode do
//	  for each i in I (in parallel) do
//	    a ~ pi_explore(s), r ~ P_R, s' ~ P_S        Worker.Fill
//	  after T steps of all of them:
//	  compute R_lambda backward from R_T = max_a Q  Update(0)
//	  for number of epochs do
//	    for number of minibatches do
//	      theta <- theta - alpha grad (R - Q)^2     Update(0), Update(1), ...

// Update is minibatch k of an update. k counts through all epochs.
func (p *PQN) Update(k int) (done bool, err error) {
	if k == 0 {
		// Backward from R_T = max Q(s_T), with max Q as it was recorded while acting,
		//
		//	R_t = r_t + gamma (lambda R_t+1 + (1-lambda) max Q(s_t+1))
		//
		// At a termination R_t is r_t, at a truncation r_t + gamma max Q of the last observation.
		// Rollout.Finish computes R. With V = max Q, R_t - V_t is delta_t + gamma lambda
		// (R_t+1 - V_t+1), which is the recursion of generalised advantages. Returns add V_t.
		if err := p.Finish(p.cfg.Gamma, p.cfg.QLambda); err != nil {
			return false, err
		}
		p.latest = means{value: p.meanValue()}
	}
	k %= p.perEpoch
	if k == 0 {
		p.minibatches.Begin()
	}
	if !p.minibatches.Gather(k, p.columns) {
		return false, nil // no step is left for this minibatch
	}
	if err := p.Step(p.minibatches.Batch); err != nil {
		return false, err
	}
	p.latest.add(p.Report.Loss, p.Report.Norm)
	return false, nil
}

// columns are those of a row of the rollout, except its weight.
func (p *PQN) columns(row int, to []float32) {
	to[columnTarget] = p.Rollout.Batch().Returns[row]
}

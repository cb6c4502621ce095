package order

// Visited returns how many visits of its leg learner k has done. If it is not 0, the next slice
// continues the visits: the pushes left belong to the same gradient.
func (t *Turns) Visited(k int) int { return t.learners[k].done }

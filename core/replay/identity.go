package replay

// Identity is a number of visible transition `pick` that stays the same while the transition is
// stored. After a load other transitions may have it.
func (m *Memory) Identity(pick int) int64 {
	e := m.environment(pick)
	return int64(e)<<identityBits | (m.parts[e].oldest + int64(pick-m.firstPick[e]))
}

// identityBits are the bits of a transition's number in its partition, which counts all that were
// added.
const identityBits = 42

// Pick is the number of the visible transition with an Identity, for Gather and Sampler.Update. ok
// is false if it is no longer stored, or never was.
func (m *Memory) Pick(identity int64) (pick int, ok bool) {
	e, k := identity>>identityBits, identity&(1<<identityBits-1)
	if identity < 0 || e >= int64(len(m.parts)) {
		return 0, false
	}
	p := &m.parts[e]
	return m.firstPick[e] + int(k-p.oldest), k >= p.oldest && k < p.visible
}

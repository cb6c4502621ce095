package ga3c

// DrainRows returns how many steps were learned from in this run, are in gradients, or are in
// segments. It empties the segments.
func (m *GA3C) DrainRows() (rows int64) {
	rows = m.sums.learned
	for _, t := range m.trainers {
		if t.busy {
			rows += int64(t.rows)
		}
	}
	b := m.segments.NewBatch(1)
	for {
		for i := range m.agents {
			m.segments.Cut(i)
			if m.segments.Ended(i) && m.segments.Inside(i) {
				if err := m.segments.Join(i); err != nil {
					panic(err)
				}
			}
		}
		if m.segments.Take(1, b) == 0 {
			return rows
		}
		rows += int64(b.Rows)
	}
}

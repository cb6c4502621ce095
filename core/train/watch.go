package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/vec"
)

// Infos describes the environments' columns of infos; nil if the host steps them.
func (t *Trainer) Infos() []env.InfoSpec {
	if t.source == nil {
		return nil
	}
	return t.source.Infos()
}

// Latest copies the rows and actions of the latest round; nil arrays are left out. FinalObs,
// FinalInfos and FinalMasks are written in the rows whose episode ended. An environment that waits
// for its reset has reward 0 and End 0.
func (t *Trainer) Latest(rows *vec.Rows, actions vec.Actions) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.calls.Unlock()
	switch {
	case t.source == nil:
		return errors.New("rows: the environments of this trainer are stepped by the caller, who has them")
	case !t.begun:
		return errors.New("rows: no run was begun")
	case t.stepped == nil:
		return fmt.Errorf("rows: %s does not show them", t.def.Name)
	}
	from, taken := t.stepped.Latest()
	copy(rows.Obs, from.Obs)
	copy(rows.Rewards, from.Rewards)
	copy(rows.Ends, from.Ends)
	copy(rows.Starts, from.Starts)
	copy(rows.Masks, from.Masks)
	copy(actions.Discrete, taken.Discrete)
	copy(actions.Box, taken.Box)
	copyColumns(rows.Infos, from.Infos)
	size, maskBytes := t.spec.Obs.Bytes(), t.spec.Action.Logits()
	for i, end := range from.Ends {
		if !end.Over() {
			continue
		}
		if rows.FinalObs != nil {
			copy(rows.FinalObs[i*size:(i+1)*size], from.FinalObs[i*size:])
		}
		if rows.FinalMasks != nil {
			copy(rows.FinalMasks[i*maskBytes:(i+1)*maskBytes], from.FinalMasks[i*maskBytes:])
		}
	}
	copyColumns(rows.FinalInfos, from.FinalInfos)
	return nil
}

func copyColumns(to, from [][]byte) {
	for k := range to {
		copy(to[k], from[k])
	}
}

// Episodes returns the latest episodes that ended, oldest first: those of the means of Stats. It
// may be called at any time.
func (t *Trainer) Episodes() []Episode {
	m := t.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.recent)
}

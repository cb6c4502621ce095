package vec

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/threads"
)

// Part returns environments first to first+n-1 of v as a Vec, which steps them on a pool of the
// caller's. It counts them from 0, in errors too. Parts without common environments may be used
// concurrently; v may not be used meanwhile, and is closed after its parts.
func (v *Vec) Part(first, n int, pool *threads.Pool) (*Vec, error) {
	end := first + n
	if first < 0 || n < 1 || end > len(v.envs) {
		return nil, fmt.Errorf("part: environments %d to %d, must be within 0 to %d", first, end-1, len(v.envs)-1)
	}
	p := &Vec{
		envs: v.envs[first:end], phases: v.phases[first:end], spec: v.spec, bytes: v.bytes, width: v.width, infos: v.infos,
		maskBytes: v.maskBytes, mode: v.mode, pool: pool, part: true, serial: true, batched: v.batched,
	}
	if d := v.decorrelation; d != nil {
		p.decorrelation = &decorrelation{d.maxSteps, d.due[first:end], d.seeds[first:end]}
	}
	return p, p.open()
}

// Part returns rows first to first+n-1, which share the memory of r.
func (r *Rows) Part(first, n int) *Rows {
	of := len(r.Rewards)
	return &Rows{
		Obs: share(r.Obs, first, n, of), FinalObs: share(r.FinalObs, first, n, of),
		Masks: share(r.Masks, first, n, of), FinalMasks: share(r.FinalMasks, first, n, of),
		Infos: columns(r.Infos, first, n, of), FinalInfos: columns(r.FinalInfos, first, n, of),
		IDs: share(r.IDs, first, n, of), Rewards: share(r.Rewards, first, n, of), Ends: share(r.Ends, first, n, of), Starts: share(r.Starts, first, n, of),
	}
}

// Copy copies the rows of from, which has the same size, except IDs.
func (r *Rows) Copy(from *Rows) {
	copy(r.Obs, from.Obs)
	copy(r.FinalObs, from.FinalObs)
	copy(r.Masks, from.Masks)
	copy(r.FinalMasks, from.FinalMasks)
	for i := range r.Infos {
		copy(r.Infos[i], from.Infos[i])
		copy(r.FinalInfos[i], from.FinalInfos[i])
	}
	copy(r.Rewards, from.Rewards)
	copy(r.Ends, from.Ends)
	copy(r.Starts, from.Starts)
}

// Part returns the actions of environments first to first+n-1 of `of`, which share the memory of a.
func (a Actions) Part(first, n, of int) Actions {
	return Actions{Discrete: share(a.Discrete, first, n, of), Box: share(a.Box, first, n, of)}
}

// share returns the part of n of `of` rows, nil of nil.
func share[T any](all []T, first, n, of int) []T {
	if len(all) == 0 {
		return nil
	}
	size := len(all) / of
	return all[first*size : (first+n)*size : (first+n)*size]
}

func columns(all [][]byte, first, n, of int) [][]byte {
	var parts [][]byte
	for _, column := range all {
		parts = append(parts, share(column, first, n, of))
	}
	return parts
}

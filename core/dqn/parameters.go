package dqn

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
)

// Parameters lists the arrays of GetParameters and SetParameters: those of
// theta as "q_net.*", then those of theta-minus as "q_net_target.*".
func (d *DQN) Parameters() []nn.Param {
	layout := d.theta.Layout
	var list []nn.Param
	for k, prefix := range []string{onlinePrefix, targetPrefix} {
		for _, p := range layout.Params {
			p.Name, p.Offset = prefix+p.Name, p.Offset+k*layout.Size
			list = append(list, p)
		}
	}
	return list
}

// GetParameters copies theta and theta-minus, after the updates due at this
// step.
func (d *DQN) GetParameters(to []float32) (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	n := len(d.theta.Data)
	if len(to) != 2*n {
		return fmt.Errorf("parameters: %d numbers, must be %d", len(to), 2*n)
	}
	if err := d.settleToSee(); err != nil {
		return err
	}
	copy(to, d.theta.Data)
	copy(to[n:], d.thetaMinus.Data)
	return nil
}

// SetParameters overwrites theta and theta-minus (and the snapshot, with theta).
func (d *DQN) SetParameters(from []float32) (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	n := len(d.theta.Data)
	if len(from) != 2*n {
		return fmt.Errorf("parameters: %d numbers, must be %d", len(from), 2*n)
	}
	if k := slices.IndexFunc(from, func(v float32) bool { return v-v != 0 }); k >= 0 {
		return fmt.Errorf("parameters: number %d is %v, %w", k, from[k], fault.ErrNotFinite)
	}
	if err := d.settle(); err != nil {
		return err
	}
	copy(d.theta.Data, from)
	copy(d.thetaMinus.Data, from[n:])
	if d.snapshot != nil {
		copy(d.snapshot.Data, from)
	}
	return nil
}

// Hashes are SHA-256 digests in hexadecimal.
type Hashes struct {
	Replay  string // the transitions that can be sampled
	Weights string // theta
	Target  string // theta-minus
}

// Hashes returns digests of what was learnt from and learnt, after the updates
// due at this step. With the same settings and seed they are the same for any
// number of threads.
func (d *DQN) Hashes() (h Hashes, err error) {
	if err := d.enter(); err != nil {
		return h, err
	}
	defer d.leave(&err)
	if err := d.settleToSee(); err != nil {
		return h, err
	}
	return d.hashes(), nil
}

func (d *DQN) hashes() Hashes {
	replay := d.memory.Hash()
	return Hashes{Replay: hex.EncodeToString(replay[:]), Weights: hashFloats(d.theta.Data), Target: hashFloats(d.thetaMinus.Data)}
}

func hashFloats(data []float32) string {
	h := sha256.New()
	buf := make([]byte, 0, 4096)
	for i, v := range data {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		if len(buf) == cap(buf) || i == len(data)-1 {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

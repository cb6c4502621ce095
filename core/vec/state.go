package vec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
)

const (
	saveVersion = 1
	// stepsDueBit in the byte of the phase says that random first steps are due. Eight bytes of
	// their seed follow the byte.
	stepsDueBit = 0x80
)

// ErrNoSaver is the error of Save and Restore if the environment is no env.Saver.
var ErrNoSaver = errors.New("has no save and restore")

// Save returns the whole state of environment i, including its random stream. The row is the
// caller's and not part of the state. The environment must be an env.Saver.
func (v *Vec) Save(i int) ([]byte, error) {
	s, err := v.saver(i)
	if err != nil {
		return nil, err
	}
	state, err := s.Save()
	if err != nil {
		return nil, &env.Error{Index: i, Err: err}
	}
	head := []byte{saveVersion, byte(v.phases[i])}
	if v.decorrelation != nil && v.decorrelation.due[i] {
		head[1] |= stepsDueBit
		head = binary.LittleEndian.AppendUint64(head, v.decorrelation.seeds[i])
	}
	return append(head, state...), nil
}

// Restore puts environment i into a state that Save returned for any environment with an equal
// Spec in the same autoreset mode. After an error environment i must be reset.
func (v *Vec) Restore(i int, state []byte) error {
	s, err := v.saver(i)
	if err != nil {
		return err
	}
	v.phases[i] = fresh
	malformed := &env.Error{Index: i, Err: errors.New("state: not one that Save of a vector environment returned")}
	if len(state) < 2 || state[0] != saveVersion {
		return malformed
	}
	to, due, seed, envState := phase(state[1]&^stepsDueBit), state[1]&stepsDueBit != 0, uint64(0), state[2:]
	if to > ended || to == ended && v.mode == SameStep || due && len(envState) < 8 {
		return malformed
	}
	if due {
		seed, envState = binary.LittleEndian.Uint64(envState), envState[8:]
	}
	if err := s.Restore(envState); err != nil {
		return &env.Error{Index: i, Err: err}
	}
	v.phases[i] = to
	if v.decorrelation != nil {
		v.decorrelation.due[i], v.decorrelation.seeds[i] = due, seed
	}
	return nil
}

// at returns environment i. It fails while environments are under way.
func (v *Vec) at(i int) (env.Env, error) {
	if err := v.checkIdle(); err != nil {
		return nil, err
	}
	if i < 0 || i >= len(v.envs) {
		return nil, fmt.Errorf("environment: %d, must be 0 to %d", i, len(v.envs)-1)
	}
	return v.envs[i], nil
}

func (v *Vec) saver(i int) (env.Saver, error) {
	e, err := v.at(i)
	if err != nil {
		return nil, err
	}
	s, ok := e.(env.Saver)
	if !ok {
		return nil, &env.Error{Index: i, Err: fmt.Errorf("%s %w", v.spec.ID, ErrNoSaver)}
	}
	return s, nil
}

// Render returns an RGB image of environment i, which must be an env.Renderer.
func (v *Vec) Render(i int) (rgb []byte, width, height int, err error) {
	e, err := v.at(i)
	if err != nil {
		return nil, 0, 0, err
	}
	r, ok := e.(env.Renderer)
	if !ok {
		return nil, 0, 0, &env.Error{Index: i, Err: fmt.Errorf("%s cannot be rendered", v.spec.ID)}
	}
	if rgb, width, height, err = r.Render(); err != nil {
		err = &env.Error{Index: i, Err: err}
	}
	return rgb, width, height, err
}

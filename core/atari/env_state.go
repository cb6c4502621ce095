package atari

import (
	"encoding/binary"
	"fmt"

	"github.com/paceline-rl/paceline/core/rng"
)

const (
	flagRunning = 1 << iota
	flagLifeOver
	flagFirst
	flagSeed // a seed waits for the next reset
)

const envHead = 1 + 3 + 4*4 + 8 + rng.StateSize

// Save returns the episode's position, the streams, the last act's images where they are
// needed, the stack and the console.
func (e *Env) Save() ([]byte, error) {
	chance, err := e.chance.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 4, envHead)
	var seed uint64
	for flag, on := range map[byte]bool{flagRunning: e.running, flagLifeOver: e.lifeOver, flagFirst: e.first, flagSeed: e.seed != nil} {
		if on {
			b[0] |= flag
		}
	}
	if e.seed != nil {
		seed = *e.seed
	}
	for _, v := range []int{e.frames, e.played, e.lives, e.reward} {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
	}
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = append(append(b, chance...), e.seen...)
	return append(e.stack.Append(b), e.console.Save(true)...), nil
}

// Restore goes on from what Save returned, of an environment with the same recipe. What is
// refused changes nothing.
func (e *Env) Restore(b []byte) error {
	stack := e.spec.Obs.Bytes()
	if rest := envHead + len(e.seen) + stack; len(b) < rest {
		return fmt.Errorf("state: %d bytes, must be more than %d: it is none of %s with this recipe", len(b), rest, e.spec.ID)
	}
	if b[0] >= flagSeed<<1 || b[1]|b[2]|b[3] != 0 {
		return fmt.Errorf("state: its first bytes are %v, it is none of %s", b[:4], e.spec.ID)
	}
	chance := new(rng.Stream)
	if err := chance.UnmarshalBinary(b[envHead-rng.StateSize : envHead]); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	at := envHead + len(e.seen)
	if err := e.console.Restore(b[at+stack:]); err != nil {
		return err
	}
	if err := e.stack.Restore(b[at : at+stack]); err != nil {
		return err
	}
	number := func(k int) int { return int(int32(binary.LittleEndian.Uint32(b[4+4*k:]))) }
	e.episode = episode{
		running: b[0]&flagRunning != 0, lifeOver: b[0]&flagLifeOver != 0, first: b[0]&flagFirst != 0,
		frames: number(0), played: number(1), lives: number(2), reward: number(3),
	}
	e.seed, e.chance, e.drawn = nil, *chance, true
	if b[0]&flagSeed != 0 {
		seed := binary.LittleEndian.Uint64(b[20:])
		e.seed = &seed
	}
	copy(e.seen, b[envHead:])
	return nil
}

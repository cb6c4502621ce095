package atari

import (
	"encoding/binary"
	"fmt"

	"github.com/paceline-rl/paceline/core/rng"
)

const (
	flagRunning = 1 << iota
	flagLifeOver
	flagAtStart
	flagSeed // a seed is set for the next reset
)

const envHead = 1 + 3 + 4*4 + 8 + rng.StateSize

// Save returns the state of the episode, the stream, savedImages, the stack and the console.
func (e *Env) Save() ([]byte, error) {
	stream, err := e.stream.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 4, envHead)
	var seed uint64
	for flag, on := range map[byte]bool{flagRunning: e.running, flagLifeOver: e.lifeOver, flagAtStart: e.atStart, flagSeed: e.seed != nil} {
		if on {
			b[0] |= flag
		}
	}
	if e.seed != nil {
		seed = *e.seed
	}
	for _, v := range []int{e.gameFrames, e.actFrames, e.lives, e.rawReward} {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
	}
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = append(append(b, stream...), e.savedImages...)
	return append(e.stack.Append(b), e.console.Save(true)...), nil
}

// Restore loads a state from Save of an environment with the same recipe. After an error the
// environment is unchanged.
func (e *Env) Restore(b []byte) error {
	stack := e.spec.Obs.Bytes()
	if rest := envHead + len(e.savedImages) + stack; len(b) < rest {
		return fmt.Errorf("state: %d bytes, must be more than %d: it is not a state of %s with this recipe", len(b), rest, e.spec.ID)
	}
	if b[0] >= flagSeed<<1 || b[1]|b[2]|b[3] != 0 {
		return fmt.Errorf("state: its first bytes are %v: it is not a state of %s", b[:4], e.spec.ID)
	}
	stream := new(rng.Stream)
	if err := stream.UnmarshalBinary(b[envHead-rng.StateSize : envHead]); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	at := envHead + len(e.savedImages)
	if err := e.console.Restore(b[at+stack:]); err != nil {
		return err
	}
	if err := e.stack.Restore(b[at : at+stack]); err != nil {
		return err
	}
	number := func(k int) int { return int(int32(binary.LittleEndian.Uint32(b[4+4*k:]))) }
	e.episode = episode{
		running: b[0]&flagRunning != 0, lifeOver: b[0]&flagLifeOver != 0, atStart: b[0]&flagAtStart != 0,
		gameFrames: number(0), actFrames: number(1), lives: number(2), rawReward: number(3),
	}
	e.seed, e.stream, e.stacked = nil, *stream, true
	if b[0]&flagSeed != 0 {
		seed := binary.LittleEndian.Uint64(b[20:])
		e.seed = &seed
	}
	copy(e.savedImages, b[envHead:])
	return nil
}

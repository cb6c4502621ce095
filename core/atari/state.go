package atari

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"unsafe"

	"github.com/paceline-rl/paceline/core/rng"
)

// A saved state is a head with the layout's version and the game, the bytes of the state, and a
// checksum.
const stateMagic = "paceline atari 2"

const (
	stateHead   = len(stateMagic) + 32 + 4 // magic, MD5, flags
	flagWithRNG = 1
	flagEarlier = 2 // Console.earlier follows the state
)

// mostDraws limits hardwareDraws of a restored state: the next reset computes all draws up to it. A
// reset takes at most 129 draws.
const mostDraws = 1 << 27

func (s *state) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
}

// Save returns the console's whole state without its settings. If withRNG is false, the state has
// no generators, and Restore leaves the console's generators as they are.
func (c *Console) Save(withRNG bool) []byte {
	c.machine.drawPending(c.rom.cartridge)
	s := c.state
	flags := uint32(flagWithRNG)
	if !withRNG {
		flags, s.generator, s.starts = 0, generator{}, rng.Stream{}
	}
	out := make([]byte, 0, stateHead+len(s.bytes())+4)
	if len(c.earlier) > 0 {
		flags |= flagEarlier
	}
	out = append(out, stateMagic...)
	out = append(out, c.rom.md5...)
	out = binary.LittleEndian.AppendUint32(out, flags)
	out = append(append(out, s.bytes()...), c.earlier...)
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// Restore loads a state from Save of a console with the same cartridge and the same build of the
// library. After an error the console is unchanged.
func (c *Console) Restore(saved []byte) error {
	if len(saved) < stateHead || string(saved[:len(stateMagic)]) != stateMagic {
		return fmt.Errorf("state: %d bytes that are not a console's state", len(saved))
	}
	if md5 := string(saved[len(stateMagic):][:32]); md5 != c.rom.md5 {
		return fmt.Errorf("state: of the cartridge with MD5 %s, must be of the cartridge with %s", md5, c.rom.md5)
	}
	flags := binary.LittleEndian.Uint32(saved[stateHead-4:])
	end := stateHead + len(c.state.bytes())
	size := end + 4
	if flags&flagEarlier != 0 {
		size += c.rows * Width
	}
	if len(saved) != size {
		return fmt.Errorf("state: %d bytes, must be %d: it was cut off or is of another build", len(saved), size)
	}
	body := saved[:size-4]
	if binary.LittleEndian.Uint32(saved[size-4:]) != crc32.ChecksumIEEE(body) {
		return fmt.Errorf("state: its checksum is wrong, it is damaged")
	}
	s := new(state)
	copy(s.bytes(), body[stateHead:end])
	if s.hardwareDraws < 0 || s.hardwareDraws > mostDraws {
		return fmt.Errorf("state: %d draws of the hardware's generator, must be 0 to %d", s.hardwareDraws, mostDraws)
	}
	if !s.machine.accepts(c.rom.cartridge, &c.machine) || s.generator.next < 0 || s.generator.next > len(s.generator.state) {
		return fmt.Errorf("state: not a possible state of this game's console")
	}
	own, starts := c.generator, c.starts
	c.state, c.earlier = *s, append(c.earlier[:0], body[end:]...)
	if flags&flagWithRNG == 0 {
		c.generator, c.starts = own, starts
	}
	return nil
}

//go:build !cgo

package atari

import "errors"

// available returns an error if this build has no machine.
func available() error {
	return errors.New("atari: built without a C compiler, and the machine is written in C")
}

type cartridge struct{}

func newCartridge([]byte, int) *cartridge { return nil }

type machine struct{}

func (*machine) reset(*cartridge, byte)            {}
func (*machine) frame(*cartridge, bool)            {}
func (*machine) drawPending(*cartridge)            {}
func (*machine) accepts(*cartridge, *machine) bool { return false }
func (*machine) ram() *[128]byte                   { return nil }
func (*machine) cartridgeRAM() *[128]byte          { return nil }
func (*machine) lines() int                        { return 0 }
func (*machine) setImage(int, int, bool)           {}
func (*machine) setPAL(bool)                       {}
func (*machine) image() []byte                     { return nil }
func (*machine) unfinished() bool                  { return false }
func (*machine) other() []byte                     { return nil }
func (*machine) setSwitches(byte)                  {}
func (*machine) setSticks(byte)                    {}
func (*machine) setButton(int, byte)               {}
func (*machine) setPaddle(int, paddleMode, uint32) {}

//go:build !cgo

package atari

import "errors"

// available says why there are no machines, if so.
func available() error {
	return errors.New("atari: built without a C compiler, and the machine is written in C")
}

type cartridge struct{}

func newCartridge([]byte, int) *cartridge { return nil }

type box struct{}

func (*box) reset(*cartridge, byte)            {}
func (*box) frame(*cartridge, bool)            {}
func (*box) settle(*cartridge)                 {}
func (*box) accepts(*cartridge, *box) bool     { return false }
func (*box) ram() *[128]byte                   { return nil }
func (*box) cartridgeRAM() *[128]byte          { return nil }
func (*box) lines() int                        { return 0 }
func (*box) setImage(int, int, bool)           {}
func (*box) setPAL(bool)                       {}
func (*box) image() []byte                     { return nil }
func (*box) previous() []byte                  { return nil }
func (*box) setSwitches(byte)                  {}
func (*box) setSticks(byte)                    {}
func (*box) setButton(int, byte)               {}
func (*box) setPaddle(int, paddleMode, uint32) {}
func (*box) bytes() []byte                     { return nil }

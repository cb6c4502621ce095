//go:build !cgo

package atari

import "errors"

// available says why there are no machines, if so.
func available() error {
	return errors.New("atari: built without a C compiler, and the machine is written in C")
}

type image struct{}

func newImage([]byte, int) *image { return nil }

type box struct{}

func (*box) reset(*image, byte)                {}
func (*box) frame(*image, bool)                {}
func (*box) settle(*image)                     {}
func (*box) accepts(*image, *box) bool         { return false }
func (*box) ram() *[128]byte                   { return nil }
func (*box) cartridgeRAM() *[128]byte          { return nil }
func (*box) lines() int                        { return 0 }
func (*box) setPicture(int, int, bool)         {}
func (*box) setPAL(bool)                       {}
func (*box) picture() []byte                   { return nil }
func (*box) previous() []byte                  { return nil }
func (*box) setSwitches(byte)                  {}
func (*box) setSticks(byte)                    {}
func (*box) setButton(int, byte)               {}
func (*box) setPaddle(int, paddleMode, uint32) {}
func (*box) bytes() []byte                     { return nil }

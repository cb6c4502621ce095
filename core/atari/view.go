package atari

import (
	"sync"

	"github.com/paceline-rl/paceline/core/atari/screen"
)

// The blends are built at the first use, because each takes some milliseconds.
var (
	ntscBlend = sync.OnceValue(func() *screen.Blend { return screen.NewBlend(screen.NTSC) })
	palBlend  = sync.OnceValue(func() *screen.Blend { return screen.NewBlend(screen.PAL) })
)

// Palette returns the game's colours.
func (c *Console) Palette() *screen.Palette {
	if c.pal {
		return screen.PAL
	}
	return screen.NTSC
}

// Screen returns the image of the last frame, [Rows, Width], as TIA colour bytes. With
// ColourAveraging it is blended with the previous image. The slice is valid until the next call.
func (c *Console) Screen() []byte {
	c.machine.drawPending(c.rom.cartridge)
	now, before := c.machine.image(), c.machine.other() // ALE blends its two buffers, also after an unfinished frame
	if !c.settings.ColourAveraging {
		return now
	}
	blend := ntscBlend
	if c.pal {
		blend = palBlend
	}
	c.blended = append(c.blended[:0], now...)
	blend().Average(c.blended, now, before)
	return c.blended
}

// images returns the images of the last two frames.
func (c *Console) images() (now, before []byte) {
	c.machine.drawPending(c.rom.cartridge)
	if len(c.earlier) > 0 {
		return c.machine.image(), c.earlier
	}
	return c.machine.image(), c.machine.other()
}

// Grey writes the image's grey levels, [Rows, Width].
func (c *Console) Grey(to []byte) { screen.ToGrey(to, c.Screen(), c.Palette()) }

// observers holds the observers by look and size. All consoles and environments share them, because
// the weights of an observer take tens of kilobytes.
var observers struct {
	sync.Mutex
	of map[[4]int]*screen.Observer
}

func observerOf(look screen.Look, rows, h, w int) (o *screen.Observer, err error) {
	observers.Lock()
	defer observers.Unlock()
	key := [4]int{int(look), rows, h, w}
	if o = observers.of[key]; o != nil {
		return o, nil
	}
	if o, err = screen.NewObserver(look, rows, h, w); err != nil {
		return nil, err
	}
	if observers.of == nil {
		observers.of = map[[4]int]*screen.Observer{}
	}
	observers.of[key] = o
	return o, nil
}

// Side is the width and height of Observe's frames.
const Side = 84

// Observe writes a frame of an observation, [Side, Side]: the greater grey of the last two images,
// then the mean over the area of each output pixel (screen.GreyArea).
func (c *Console) Observe(to []byte) {
	now, before := c.images()
	c.observer.Observe(to, now, before, c.Palette())
}

// RGB writes the image's colours, [Rows, Width, 3].
func (c *Console) RGB(to []byte) { screen.ToRGB(to, c.Screen(), c.Palette()) }

package atari

import (
	"sync"

	"github.com/paceline-rl/paceline/core/atari/screen"
)

// blends are made when first asked for: they take some milliseconds.
var (
	ntscBlend = sync.OnceValue(func() *screen.Blend { return screen.NewBlend(screen.NTSC) })
	palBlend  = sync.OnceValue(func() *screen.Blend { return screen.NewBlend(screen.PAL) })
)

// Palette returns the colours that the game is shown in.
func (c *Console) Palette() *screen.Palette {
	if c.pal {
		return screen.PAL
	}
	return screen.NTSC
}

// Screen returns the image of the last frame, [Rows, Width], as the TIA's colour
// bytes, blended with the one before where ColourAveraging is set. It is valid until
// the next call.
func (c *Console) Screen() []byte {
	now, before := c.images()
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

// images returns those of the last two frames.
func (c *Console) images() (now, before []byte) {
	c.box.settle(c.rom.cartridge)
	return c.box.image(), c.box.previous()
}

// Grey writes the image's grey levels, [Rows, Width].
func (c *Console) Grey(to []byte) { screen.ToGrey(to, c.Screen(), c.Palette()) }

// observers, by their looks and sizes, are shared by all consoles and environments: the
// weights of one are tens of kilobytes.
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

// Side is the width and the height of what Observe writes.
const Side = 84

// Observe writes what a learner looks at, [Side, Side]: the brighter of the last two
// frames' pixels in grey, each weighted by the area it covers (Mnih et al. 2015).
func (c *Console) Observe(to []byte) {
	now, before := c.images()
	c.observer.Observe(to, now, before, c.Palette())
}

// RGB writes the image's colours, [Rows, Width, 3].
func (c *Console) RGB(to []byte) { screen.ToRGB(to, c.Screen(), c.Palette()) }

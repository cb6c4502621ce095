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

// Screen returns the picture of the last frame, [Rows, Width], as the TIA's colour
// bytes, blended with the one before where ColourAveraging is set. It is valid until
// the next call.
func (c *Console) Screen() []byte {
	now, before := c.pictures()
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

// pictures returns those of the last two frames.
func (c *Console) pictures() (now, before []byte) {
	c.box.settle(c.rom.image)
	return c.box.picture(), c.box.previous()
}

// Grey writes the picture's grey levels, [Rows, Width].
func (c *Console) Grey(to []byte) { screen.ToGrey(to, c.Screen(), c.Palette()) }

// resizers, by the rows of the picture, are shared by all consoles.
var resizers struct {
	sync.Mutex
	of map[int]*screen.Resizer
}

func resizerOf(rows int) (*screen.Resizer, error) {
	resizers.Lock()
	defer resizers.Unlock()
	if r := resizers.of[rows]; r != nil {
		return r, nil
	}
	r, err := screen.NewResizer(rows, Side, Side)
	if err != nil {
		return nil, err
	}
	if resizers.of == nil {
		resizers.of = map[int]*screen.Resizer{}
	}
	resizers.of[rows] = r
	return r, nil
}

// Side is the width and the height of what Observe writes.
const Side = 84

// Observe writes what a learner looks at, [Side, Side]: the brighter of the last two
// frames' pixels in grey, each weighted by the area it covers (Mnih et al. 2015).
func (c *Console) Observe(to []byte) {
	now, before := c.pictures()
	c.resizer.MaxGreyResize(to, now, before, c.Palette())
}

// RGB writes the picture's colours, [Rows, Width, 3].
func (c *Console) RGB(to []byte) { screen.ToRGB(to, c.Screen(), c.Palette()) }

package screen

import "fmt"

// Look is a way from the last two images to one frame of an observation. Papers that
// all say "84 x 84, as Mnih et al." differ here, some of them without knowing.
type Look uint8

const (
	// GreyArea is the grey of each colour, the brighter of two, then the mean over the
	// area that each pixel of the observation covers: [h, w]. It is ALE's and Gymnasium's
	// way, used by Machado et al. (2018) and Dopamine, with OpenCV's INTER_AREA.
	GreyArea Look = iota
	// RGBArea is the same for each of red, green and blue: [h, w, 3].
	RGBArea
	// LumaArea is the way of Mnih et al. (2015): the brighter of two in each of red, green
	// and blue, of these the luma, and of the luma Torch's image.scale, in float32 from 0
	// to 1, times 255 and cut to a byte: [h, w]. What image.scale calls bilinear is
	// nothing of the kind when it shrinks: it is a mean over fractional boxes, along the
	// rows and then along the columns. It differs from GreyArea in two ways: the brighter
	// of two colours may be a mixture of both, and as the byte is cut, not rounded, half of
	// all colours come out a level darker. Where float32 falls short of a whole number that
	// happens in some boxes and not in others: a flat 74 becomes a pattern of 73 and 74.
	LumaArea
	// GreyHalf is the way of Stooke and Abbeel (2018): grey, the brighter of two, the
	// last two rows cropped, then the mean of each 2 x 2 pixels, a half going up:
	// [(rows-2)/2, 80], so 104 x 80 of 210 rows. Their code asks OpenCV for the nearest
	// pixel, but where cv2.resize takes something else, and so gets its default, which at
	// this factor is the mean. Their later rlpyt crops the first row and the last.
	GreyHalf
	// OpenCVArea is the way of OpenAI's wrappers and those of Stable-Baselines3: the brighter
	// of two in each of red, green and blue, of these OpenCV's grey, in whole numbers, then
	// INTER_AREA: [h, w]. The brighter of two colours may be a mixture of both.
	OpenCVArea
)

// Observer makes the frames of one look at one size.
type Observer struct {
	look    Look
	rows    int
	length  int
	resizer *resizer // all looks but LumaArea
	luma    *boxes   // LumaArea
}

// NewObserver makes what a look needs that takes rows x [Width] to h x w. rows is 1 to
// [MaxRows], h 1 to rows and w 1 to Width, but GreyHalf takes an even number of rows from
// 4 on and has one size for each.
func NewObserver(look Look, rows, h, w int) (*Observer, error) {
	o := &Observer{look: look, rows: rows, length: h * w}
	var err error
	switch look {
	case GreyArea, OpenCVArea:
		o.resizer, err = newResizer(rows, w, h)
	case RGBArea:
		o.length *= 3
		o.resizer, err = newResizer(rows, w, h)
	case LumaArea:
		o.luma, err = newBoxes(rows, w, h)
	case GreyHalf:
		switch {
		case rows < 4 || rows > MaxRows || rows%2 != 0:
			return nil, fmt.Errorf("rows: %d, must be even, 4 to %d", rows, MaxRows)
		case w != Width/2:
			return nil, fmt.Errorf("width: %d, must be %d, half the width of the screen", w, Width/2)
		case h != (rows-2)/2:
			return nil, fmt.Errorf("height: %d, must be %d, half the rows of the screen less two", h, (rows-2)/2)
		}
		o.resizer, err = newResizer(rows-2, w, h)
	default:
		return nil, fmt.Errorf("look: %d, must be 0 to %d", look, OpenCVArea)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Len returns the number of bytes of a frame: h*w, for RGBArea h*w*3.
func (o *Observer) Len() int { return o.length }

// Observe writes a frame to dst, [Observer.Len] bytes, of the last image and the one
// before it, each rows x [Width] colour bytes. before may be now: then there is no other
// image to be brighter.
func (o *Observer) Observe(dst, now, before []byte, p *Palette) {
	if len(dst) != o.length {
		panic(fmt.Sprintf("screen: Observe: dst has %d bytes, must have %d", len(dst), o.length))
	}
	if len(now) != o.rows*Width || len(before) != o.rows*Width {
		panic(fmt.Sprintf("screen: Observe: the images have %d and %d bytes, both must have %d, %d rows of %d", len(now), len(before), o.rows*Width, o.rows, Width))
	}
	switch o.look {
	case LumaArea:
		o.luma.resize(dst, now, before, p.lumas.of(&p.RGB, luma))
	case RGBArea:
		o.resizer.maxRGBResize(dst, now, before, &p.RGB)
	case OpenCVArea:
		plane := planes.Get().(*[MaxRows * Width]byte)
		grey := plane[:len(now)]
		mixGrey(grey, now, before, p.greys.of(&p.RGB, opencvGrey))
		o.resizer.maxGreyResize(dst, grey, grey, &identity)
		planes.Put(plane)
	default:
		n := o.resizer.rows * Width // GreyHalf crops
		o.resizer.maxGreyResize(dst, now[:n], before[:n], &p.Grey)
	}
}

// maxRGBResize treats each channel as a grey.
func (r *resizer) maxRGBResize(dst, a, b []byte, rgb *[256][3]uint8) {
	var level [256]uint8
	var plane [MaxRows * Width]byte
	for c := range 3 {
		for i := range level {
			level[i] = rgb[i][c]
		}
		r.maxGreyResize(plane[:r.length()], a, b, &level)
		to := dst[c:]
		for i, v := range plane[:r.length()] {
			to[3*i] = v
		}
	}
}

// ObserveAll is Observe for any number of images, at its leisure. LumaArea and OpenCVArea
// look at the first two alone.
func (o *Observer) ObserveAll(dst []byte, p *Palette, images ...[]byte) {
	if o.look == LumaArea || o.look == OpenCVArea {
		o.Observe(dst, images[0], images[min(1, len(images)-1)], p)
		return
	}
	channels := 1
	if o.look == RGBArea {
		channels = 3
	}
	// Levels take the place of colours: the brightest of each pixel, a channel at a time.
	levels, plane := make([]byte, o.resizer.rows*Width), make([]byte, o.resizer.length())
	for c := range channels {
		clear(levels)
		for _, image := range images {
			for i := range levels {
				level := p.Grey[image[i]]
				if channels == 3 {
					level = p.RGB[image[i]][c]
				}
				levels[i] = max(levels[i], level)
			}
		}
		o.resizer.maxGreyResize(plane, levels, levels, &identity)
		for i, v := range plane {
			dst[channels*i+c] = v
		}
	}
}

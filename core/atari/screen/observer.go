package screen

import "fmt"

// Look is a function from the last two images to one frame of an observation. Papers that describe
// their frames as "84 x 84, as Mnih et al." use different looks.
type Look uint8

const (
	// GreyArea is the look of ALE, Gymnasium, Machado et al. (2018) and Dopamine: the greater
	// grey of the two images, then the mean over the area of each output pixel (OpenCV's
	// INTER_AREA). Frames are [h, w].
	GreyArea Look = iota
	// RGBArea is GreyArea for each of red, green and blue. Frames are [h, w, 3].
	RGBArea
	// LumaArea is the look of Mnih et al. (2015). It takes the maximum of the two images in each of
	// red, green and blue, then the luma, then Torch's image.scale in float32 from 0 to 1. The
	// result is multiplied by 255 and truncated to a byte. Frames are [h, w]. image.scale calls its
	// shrinking bilinear, but it is a mean over fractional boxes, first along the rows, then along
	// the columns.
	//
	// LumaArea differs from GreyArea in two ways. The maximum of two colours may be a mixture of
	// both. And since the byte is truncated, not rounded, half of all colours are one level
	// darker. Whether float32 falls below a whole number depends on the box: a flat 74 becomes a
	// pattern of 73 and 74.
	LumaArea
	// GreyHalf is the look of Stooke and Abbeel (2018). It takes the greater grey of the two images,
	// crops the last two rows, and takes the mean of each 2 x 2 pixels; a half is rounded up. Frames
	// are [(rows-2)/2, 80], which is 104 x 80 for 210 rows. Their code passes OpenCV's constant
	// for the nearest pixel as a different argument of cv2.resize and so uses the default
	// interpolation, which is the mean at this factor. Their later rlpyt crops the first row and
	// the last.
	GreyHalf
	// OpenCVArea is the look of the wrappers of OpenAI and Stable-Baselines3: the maximum of the
	// two images in each of red, green and blue, then OpenCV's grey as a whole number, then
	// INTER_AREA. Frames are [h, w]. The maximum of two colours may be a mixture of both.
	OpenCVArea
)

// Observer computes the frames of one look at one size.
type Observer struct {
	look    Look
	rows    int
	length  int
	resizer *resizer // for all looks except LumaArea
	luma    *boxes   // for LumaArea
}

// NewObserver returns an observer from images of rows x [Width] to frames of h x w. rows is 1 to
// [MaxRows], h 1 to rows and w 1 to Width. GreyHalf needs an even number of rows, at least 4, and
// has one size for each.
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

// Len returns the size of a frame in bytes: h*w, for RGBArea h*w*3.
func (o *Observer) Len() int { return o.length }

// Observe writes a frame to dst, [Observer.Len] bytes, from the last image and the image before,
// each rows x [Width] colour bytes. The frame of a single image has before equal to now.
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

// maxRGBResize resizes each channel as a grey image.
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

// ObserveAll is Observe for any number of images. It is slow and allocates. LumaArea and OpenCVArea
// use only the first two images.
func (o *Observer) ObserveAll(dst []byte, p *Palette, images ...[]byte) {
	if o.look == LumaArea || o.look == OpenCVArea {
		o.Observe(dst, images[0], images[min(1, len(images)-1)], p)
		return
	}
	channels := 1
	if o.look == RGBArea {
		channels = 3
	}
	// levels is the maximum of all images, one channel at a time.
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

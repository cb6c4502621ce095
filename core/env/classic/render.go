package classic

import (
	"bytes"
	"image"
	"math"

	"golang.org/x/image/vector"

	"github.com/paceline-rl/paceline/core/env"
)

// The images have the sizes, shapes and colours of Gymnasium's rgb_array; tests compare images of
// Gymnasium in testdata/. Only the smoothed edges of slanted and round shapes differ. An image
// depends only on the state and is newly allocated. Before the first reset the state is all zeros.
var (
	_ env.Renderer = (*CartPole)(nil)
	_ env.Renderer = (*Acrobot)(nil)
	_ env.Renderer = (*MountainCar)(nil)
	_ env.Renderer = (*Pendulum)(nil)
	_ env.Renderer = (*ContinuousCar)(nil)
)

type paint [3]byte

var (
	black  = paint{0, 0, 0}
	grey   = paint{128, 128, 128}
	wood   = paint{202, 152, 101}
	violet = paint{129, 132, 203}
	cyan   = paint{0, 204, 204}
	yellow = paint{204, 204, 0}
	red    = paint{204, 77, 77}
)

// Render draws the cart on its rail, 600x400. The width shows the track from -2.4 to 2.4.
func (c *CartPole) Render() (rgb []byte, width, height int, err error) {
	const (
		scale = 600 / (2 * cartLimit) // pixels a metre
		rail  = 100                   // the height of the rail and of the cart's middle
		axle  = rail + 7.5
		pole  = scale * 2 * cartHalfLength
	)
	p := newCanvas(600, 400)
	x := float64(c.state[0]*scale) + 300
	p.block(black, box{-25, 25, -15, 15}, 0, point{x, rail})
	p.block(wood, box{-5, 5, -5, pole - 5}, -c.state[2], point{x, axle})
	p.disc(violet, point{x, axle}, 5)
	p.line(black, point{0, rail}, point{600, rail})
	return p.rgb, p.width, p.height, nil
}

// Render draws both links and the line to reach, 500x500. The image shows 2.2 m to each side of the
// fixed joint, which is in the middle.
func (a *Acrobot) Render() (rgb []byte, width, height int, err error) {
	const (
		middle    = 250
		scale     = 250 / (2*acroLength + 0.2) // pixels a metre
		length    = acroLength * scale
		thickness = 0.1 * scale // to each side of the axis
	)
	p := newCanvas(500, 500)
	goal := math.Floor(middle + scale)
	p.line(black, point{0, goal}, point{500, goal})

	// A link with angle 0 hangs down. The second angle is relative to the first.
	link := box{0, length, -thickness, thickness}
	angle := a.state[0] - math.Pi/2
	joint := point{middle, middle}
	p.block(cyan, link, angle, joint)
	p.disc(yellow, joint, thickness)
	joint = joint.plus(point{length, 0}.turned(angle))
	p.block(cyan, link, angle+a.state[1], joint)
	p.disc(yellow, joint, thickness)
	return p.rgb, p.width, p.height, nil
}

// Render draws the rod on its axle, 500x500. The image shows 2.2 m to each side of the axle, which
// is in the middle. Gymnasium's arrow for the torque, which is not part of the state, is left out.
func (p *Pendulum) Render() (rgb []byte, width, height int, err error) {
	const (
		middle    = 250
		scale     = 250 / 2.2 // pixels a metre
		length    = pendLength * scale
		thickness = 0.1 * scale // to each side of the axis
	)
	c := newCanvas(500, 500)
	axle := point{middle, middle}
	angle := p.state[0] + math.Pi/2
	c.block(red, box{0, length, -thickness, thickness}, angle, axle)
	c.disc(red, axle, thickness)
	c.disc(red, axle.plus(point{length, 0}.turned(angle)), thickness)
	c.disc(black, axle, 0.05*scale)
	return c.rgb, c.width, c.height, nil
}

// Render draws the car on its hills and the flag at the goal, 600x400. The width shows the whole
// track.
func (m *MountainCar) Render() (rgb []byte, width, height int, err error) {
	return drawCar(m.state[0], carGoal)
}

// Render draws what MountainCar draws.
func (c *ContinuousCar) Render() (rgb []byte, width, height int, err error) {
	return drawCar(c.state[0], continuousGoal)
}

// drawCar draws a car at position x and a flag at the goal.
func drawCar(x, goal float64) (rgb []byte, width, height int, err error) {
	const (
		track     = 1.7999999999999998 // carMax - carMin as float64 arithmetic rounds it
		scale     = 600 / track        // pixels a unit of position
		spans     = 99                 // straight lines that make the hills
		clearance = 10                 // height of the wheels' middle above the ground
	)
	ground := func(x float64) point {
		return point{float64((x - carMin) * scale), float64((float64(sine(3*x)*0.45) + 0.55) * scale)}
	}
	p := newCanvas(600, 400)
	hills := make([]point, spans+1)
	for i := range hills {
		hills[i] = ground(carMin + float64((carMax-carMin)*float64(i)/spans))
	}
	p.line(black, hills...)

	angle := cosine(3 * x) // Gymnasium's angle, which is not that of the slope
	at := ground(x).plus(point{0, clearance})
	p.block(black, box{-20, 20, 0, 20}, angle, at)
	p.disc(grey, at.plus(point{10, 0}.turned(angle)), 8)
	p.disc(grey, at.plus(point{-10, 0}.turned(angle)), 8)

	foot := ground(goal).whole()
	p.line(black, foot, foot.plus(point{0, 50}))
	p.fill(yellow, foot.plus(point{0, 50}), foot.plus(point{25, 45}), foot.plus(point{0, 40}))
	return p.rgb, p.width, p.height, nil
}

// point is a position in an image, in pixels. As in Gymnasium's drawings, y points upwards and the
// middles of pixels have whole numbers; (0, 0) is the middle of the pixel at the bottom left.
type point struct{ x, y float64 }

func (p point) plus(q point) point    { return point{p.x + q.x, p.y + q.y} }
func (p point) times(k float64) point { return point{float64(k * p.x), float64(k * p.y)} }
func (p point) whole() point          { return point{math.Trunc(p.x), math.Trunc(p.y)} }
func (p point) turned(angle float64) point {
	sin, cos := sineAndCosine(angle)
	return point{float64(cos*p.x) - float64(sin*p.y), float64(sin*p.x) + float64(cos*p.y)}
}

// towards returns the unit vector from p to q.
func (p point) towards(q point) point {
	d := point{q.x - p.x, q.y - p.y}
	return d.times(1 / math.Sqrt(float64(d.x*d.x)+float64(d.y*d.y)))
}

// left returns p turned to the left by a quarter turn.
func (p point) left() point { return point{-p.y, p.x} }

type box struct{ left, right, bottom, top float64 }

// canvas is an image and the rasterizer that draws into it.
type canvas struct {
	rgb           []byte // row by row from the top
	width, height int
	raster        vector.Rasterizer
}

// newCanvas returns a white canvas.
func newCanvas(width, height int) *canvas {
	return &canvas{rgb: bytes.Repeat([]byte{255}, 3*width*height), width: width, height: height}
}

// block fills the rectangle b, relative to the point at and turned by angle around that point.
// Corners are whole pixels, as in the library that draws for Gymnasium.
func (p *canvas) block(c paint, b box, angle float64, at point) {
	corners := []point{{b.left, b.bottom}, {b.left, b.top}, {b.right, b.top}, {b.right, b.bottom}}
	for i := range corners {
		corners[i] = at.plus(corners[i].turned(angle)).whole()
	}
	p.fill(c, corners...)
}

// disc fills a circle. Its middle and radius are whole pixels, as block's corners are.
func (p *canvas) disc(c paint, middle point, radius float64) {
	var corners [64]point // corners are invisible up to a radius of 100
	for i := range corners {
		angle := -2 * math.Pi * float64(i) / float64(len(corners))
		corners[i] = middle.whole().plus(point{math.Trunc(radius), 0}.turned(angle))
	}
	p.fill(c, corners[:]...)
}

// line draws a line through points, one pixel wide: a polygon along the points and back.
func (p *canvas) line(c paint, points ...point) {
	path := append([]point(nil), points...)
	for i := len(points) - 2; i > 0; i-- {
		path = append(path, points[i])
	}
	p.fill(c, path...)
}

// fill fills a polygon with clockwise corners. The polygon includes the outer halves of the pixels
// on its edge: a square from 0 to 2 has three pixels a side.
func (p *canvas) fill(c paint, corners ...point) {
	edge := p.outline(corners)
	low, high := edge[0], edge[0]
	for _, q := range edge {
		low = point{min(low.x, q.x), min(low.y, q.y)}
		high = point{max(high.x, q.x), max(high.y, q.y)}
	}
	low = point{max(math.Floor(low.x), 0), max(math.Floor(low.y), 0)}
	high = point{min(math.Ceil(high.x), float64(p.width)), min(math.Ceil(high.y), float64(p.height))}
	if !(low.x < high.x && low.y < high.y) {
		return // the polygon is outside the image, or the state is not finite
	}

	r := image.Rect(int(low.x), int(low.y), int(high.x), int(high.y))
	p.raster.Reset(r.Dx(), r.Dy())
	for i, q := range edge {
		x, y := float32(q.x-low.x), float32(q.y-low.y)
		if i == 0 {
			p.raster.MoveTo(x, y)
		} else {
			p.raster.LineTo(x, y)
		}
	}
	p.raster.ClosePath()
	mask := image.NewAlpha(image.Rect(0, 0, r.Dx(), r.Dy()))
	p.raster.Draw(mask, mask.Rect, image.Opaque, image.Point{})
	for y := range r.Dy() {
		row := p.rgb[3*((r.Min.Y+y)*p.width+r.Min.X):]
		for x, cover := range mask.Pix[y*mask.Stride:][:r.Dx()] {
			for i := range c {
				row[3*x+i] = byte((int(row[3*x+i])*(255-int(cover)) + int(c[i])*int(cover) + 127) / 255)
			}
		}
	}
}

// outline returns the polygon half a pixel outside corners, in rows and columns of rgb. Corners
// sharper than 60 degrees are cut off.
func (p *canvas) outline(corners []point) []point {
	edge := make([]point, 0, len(corners)+2)
	for i, q := range corners {
		in := corners[(i+len(corners)-1)%len(corners)].towards(q)
		out := q.towards(corners[(i+1)%len(corners)])
		if along := float64(in.x*out.x) + float64(in.y*out.y); along > -0.5 {
			edge = append(edge, q.plus(in.left().plus(out.left()).times(0.5/(1+along))))
		} else {
			edge = append(edge, q.plus(in.plus(in.left()).times(0.5)), q.plus(out.left().plus(out.times(-1)).times(0.5)))
		}
	}
	for i, q := range edge {
		edge[i] = point{q.x + 0.5, float64(p.height) - 0.5 - q.y}
	}
	return edge
}

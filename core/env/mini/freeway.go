package mini

import "github.com/paceline-rl/paceline/core/rng"

// freeway is Mini-Freeway-v0: a chicken crosses six lanes of cars, with a strip in the middle.
type freeway struct {
	Row  int8               // the chicken's, 1 to 9: at the top it returns to the bottom at once
	Rest uint8              // steps for which the chicken cannot move
	Cars [2 * roadLanes]car // of rows 1 to 3 and 6 to 8
}

// car moves one cell every Every steps, from one end of its lane on at the other end.
type car struct {
	Col, Dir int8
	Every    uint8
	Moved    uint8 // steps since the car last moved
}

const (
	chickenCol  = 4
	chickenRest = 2
	carSpeeds   = 5
	roadLanes   = 3 // of one half of the freeway
	stripRows   = 2
)

// carRow returns the row of car i.
func carRow(i int) int8 {
	if i < roadLanes {
		return int8(1 + i)
	}
	return int8(1 + stripRows + i)
}

// Planes of freeway. Cars that move every n steps have their trails in plane freewayTrail+n-1.
const (
	freewayChicken = iota
	freewayCar
	freewayTrail
)

var freewayColours = []colour{{250, 210, 60}, {230, 70, 70},
	{150, 110, 110}, {130, 95, 95}, {110, 80, 80}, {90, 65, 65}, {70, 50, 50}}

func (f *freeway) start(r *rng.Stream) {
	*f = freeway{Row: bottom}
	for i := range f.Cars {
		f.Cars[i].Col = int8(r.Intn(side))
	}
	f.changeSpeeds(r)
}

// changeSpeeds draws the direction and the speed of each car.
func (f *freeway) changeSpeeds(r *rng.Stream) {
	for i := range f.Cars {
		f.Cars[i] = car{Col: f.Cars[i].Col, Dir: 2*int8(r.Intn(2)) - 1, Every: drawSpeed(r)}
	}
}

// drawSpeed returns n with a probability proportional to n.
func drawSpeed(r *rng.Stream) (n uint8) {
	for k := int8(r.Intn(carSpeeds * (carSpeeds + 1) / 2)); k >= 0; k -= int8(n) {
		n++
	}
	return n
}

func (f *freeway) step(t *turn) (reward float32, over bool) {
	f.moveChicken(t)
	if f.Row == 0 {
		reward, f.Row = 1, bottom
		f.changeSpeeds(t.rng)
	}
	f.hit()
	for i := range f.Cars {
		f.Cars[i].advance()
	}
	f.hit()
	return reward, false
}

func (f *freeway) moveChicken(t *turn) {
	if f.Rest > 0 {
		f.Rest--
		return
	}
	_, row := t.direction()
	if to := min(f.Row+row, bottom); to != f.Row {
		f.Row, f.Rest = to, chickenRest
	}
}

// hit returns the chicken to the bottom if a car is in its cell.
func (f *freeway) hit() {
	for i := range f.Cars {
		if f.Cars[i].Col == chickenCol && carRow(i) == f.Row {
			f.Row = bottom
		}
	}
}

func (c *car) advance() {
	if due(&c.Moved, int(c.Every)) {
		c.Col = around(c.Col + c.Dir)
	}
}

// around returns a column on the board for one that is one cell off it, at the other end.
func around(col int8) int8 { return (col + side) % side }

func (f *freeway) draw(p planes) {
	p.set(freewayChicken, chickenCol, f.Row)
	for i := range f.Cars {
		c := &f.Cars[i]
		p.set(freewayCar, c.Col, carRow(i))
		p.set(freewayTrail+int(c.Every)-1, around(c.Col-c.Dir), carRow(i))
	}
}

func (f *freeway) valid(bool) bool {
	for _, c := range f.Cars {
		if !onBoard(c.Col) || c.Dir != 1 && c.Dir != -1 || c.Every < 1 || c.Every > carSpeeds || c.Moved >= c.Every {
			return false
		}
	}
	return f.Row >= 1 && f.Row <= bottom && f.Rest <= chickenRest
}

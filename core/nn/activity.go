package nn

// Activity is which hidden units of a network were above 0, over any number of
// minibatches, and whether its outputs depended on the observations.
type Activity struct {
	// Layers are the hidden layers with rectifiers, in the order of the layout. One
	// with a tanh has no units that are 0 all the time.
	Layers []UnitActivity
	// Flat says that in the latest minibatch every output was the same for all rows, to
	// within a millionth of the largest output of its head.
	Flat bool
}

// UnitActivity is that of one layer. A channel of a convolution is one unit.
type UnitActivity struct {
	Name  string // "features_extractor.cnn.4", as in the names of its parameters (of the convolution's, not of the normalisation's behind it)
	Alive []bool // by unit: it was above 0 somewhere
}

// Dead returns how many units were 0 all the time.
func (u *UnitActivity) Dead() (n int) {
	for _, alive := range u.Alive {
		if !alive {
			n++
		}
	}
	return n
}

// NewActivity returns that of no minibatch. s is a network that Layout accepts.
func (s Spec) NewActivity() *Activity {
	a := &Activity{}
	layers, _ := s.layers()
	for i := range layers {
		if l := &layers[i]; l.act == relu {
			name := l.name
			if l.norm != nil {
				name = layers[l.from].name
			}
			a.Layers = append(a.Layers, UnitActivity{name, make([]bool, l.units())})
		}
	}
	return a
}

// Reset forgets what was seen.
func (a *Activity) Reset() {
	for _, l := range a.Layers {
		clear(l.Alive)
	}
	a.Flat = false
}

func (l *learner) Look(a *Activity) {
	k := 0
	for _, h := range l.graph.hidden {
		if h.l.act == relu {
			h.look(a.Layers[k].Alive, h.y.Float32s(), l.graph.capacity, h.planar())
			k++
		}
	}
	a.Flat = true
	for i, h := range l.graph.heads {
		a.Flat = a.Flat && constant(h.Op().(*layerOp).y.Float32s(), l.graph.spec.Heads[i].Out)
	}
}

// planar reports whether the CPU has the places of a unit side by side.
func (o hidden) planar() bool {
	return o.l.conv != nil && o.l.conv.PlanarOut || o.l.norm != nil && o.l.norm.Planar
}

// look finds out which units of the layer's outputs y are above 0 somewhere. It looks at a
// unit up to the first such place, so that it takes long where units are dead, and only there.
func (o hidden) look(alive []bool, y []float32, rows int, planar bool) {
	places := 1 // of a unit in a row
	switch c, n := o.l.conv, o.l.norm; {
	case c != nil:
		places = c.OutH() * c.OutW()
	case n != nil:
		places = n.Positions
	}
	apart, next := len(alive), 1 // from one place to the next, from unit to unit
	if planar {
		apart, next = 1, places
	}
	for unit := range alive {
		for at := unit * next; !alive[unit] && at < rows*o.l.out; at += o.l.out {
			for k := range places {
				if y[at+k*apart] > 0 {
					alive[unit] = true
					break
				}
			}
		}
	}
}

// constant reports whether all rows of outputs are the same.
func constant(y []float32, width int) bool {
	largest, spread := float32(0), float32(0)
	for i, v := range y {
		largest = max(largest, v, -v)
		d := v - y[i%width]
		spread = max(spread, d, -d)
	}
	return spread <= 1e-6*largest
}

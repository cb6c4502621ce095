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
	layers, _ := s.Layers()
	for i := range layers {
		if l := &layers[i]; l.Activation == ReLU {
			name := l.Name
			if l.Norm != nil {
				name = layers[l.From].Name
			}
			a.Layers = append(a.Layers, UnitActivity{name, make([]bool, l.Units())})
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

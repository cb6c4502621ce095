package nn

// Activity records, over any number of minibatches, which hidden units of a network were above 0
// and whether the outputs depended on the observations.
type Activity struct {
	// Layers are the hidden layers with rectifiers, in the order of the layout. Layers with a tanh
	// are left out: their units are never 0 on all observations.
	Layers []UnitActivity
	// Flat says that in the latest minibatch every output was the same for all rows, to within a
	// millionth of the largest output of its head.
	Flat bool
}

// UnitActivity records the units of one layer. A channel of a convolution is one unit.
type UnitActivity struct {
	// Name is the prefix of the layer's parameters, "features_extractor.cnn.4". For a layer with a
	// normalisation it is the layer's own prefix.
	Name  string
	Alive []bool // Alive[i]: unit i was above 0 in some row
}

// Dead returns the number of units that were 0 in all rows.
func (u *UnitActivity) Dead() (n int) {
	for _, alive := range u.Alive {
		if !alive {
			n++
		}
	}
	return n
}

// NewActivity returns an empty record. Layout must accept s.
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

func (a *Activity) Reset() {
	for _, l := range a.Layers {
		clear(l.Alive)
	}
	a.Flat = false
}

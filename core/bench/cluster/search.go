package cluster

// Point is what a number of bundles does with different numbers of shards.
type Point struct {
	Bundles int    `json:"bundles"`
	Here    Result `json:"here"` // with Shards of the cluster
	// Best is the highest rate that the search has found, with BestShards. No number of shards has a
	// rate that is more than 2 % higher.
	BestShards int    `json:"best_shards"`
	Best       Result `json:"best"`
	// Shards is the smallest number of shards with Share of the highest rate, and Enough its result.
	Shards int    `json:"shards"`
	Enough Result `json:"enough"`
}

const (
	// Share is the part of the highest rate that a large enough number of shards has.
	Share = 0.95
	// margin is the part by which a bound must exceed the highest rate for a simulation to be
	// worthwhile.
	margin = 1.02
)

// Scale returns the points of numbers of bundles. Each part has a machine of its own: c.Cores is 0.
//
// More shards have smaller arrays and less to do each, and a bundle has more calls to make. So the
// rate rises with the number of shards and falls again, and it jumps where arrays become small
// enough to travel in messages. Numbers of shards whose bound is too low are not simulated.
func Scale(c Cluster, k Costs, bundles []int, updates int, seed uint64) (points []Point) {
	for _, n := range bundles {
		c.Bundles = n
		x := newSearch(c, k, updates, seed)
		p := Point{Bundles: n, Here: x.simulate(c.Shards)}
		p.BestShards, p.Best = x.best()
		p.Shards, p.Enough = x.smallest(p.BestShards, Share*p.Best.Updates)
		points = append(points, p)
	}
	return points
}

// search simulates clusters that differ in the number of shards.
type search struct {
	Cluster
	k       Costs
	updates int
	seed    uint64
	bounds  []float64 // by the number of shards, from 1 on
	known   map[int]Result
}

func newSearch(c Cluster, k Costs, updates int, seed uint64) *search {
	x := &search{Cluster: c, k: k, updates: updates, seed: seed, bounds: []float64{0}, known: map[int]Result{}}
	for n := 1; n <= min(MaxShards, k.Parameters); n++ {
		c.Shards = n
		x.bounds = append(x.bounds, c.bound(&k))
	}
	return x
}

func (x *search) simulate(shards int) Result {
	r, ok := x.known[shards]
	if !ok {
		c := x.Cluster
		c.Shards = shards
		r = Simulate(c, x.k, x.updates, x.seed)
		x.known[shards] = r
	}
	return r
}

// best returns a number of shards with the highest rate. Of those that promise about as much it
// simulates the smallest, and all others only if their bounds exceed its rate.
func (x *search) best() (shards int, found Result) {
	for {
		most, next := 0.0, 0
		for n, bound := range x.bounds {
			if _, ok := x.known[n]; !ok && bound > margin*found.Updates {
				most = max(most, bound)
			}
		}
		for n, bound := range x.bounds {
			if _, ok := x.known[n]; !ok && bound > 0 && bound*margin >= most && bound > margin*found.Updates {
				next = n
				break
			}
		}
		if next == 0 {
			break
		}
		x.simulate(next)
		for n, r := range x.known {
			if r.Updates > found.Updates || r.Updates == found.Updates && n < shards {
				shards, found = n, r
			}
		}
	}
	return shards, found
}

// smallest returns the smallest number of shards with a rate, which `enough` shards have.
func (x *search) smallest(enough int, rate float64) (int, Result) {
	low := 1
	for low < enough && x.bounds[low] < rate {
		low++
	}
	high := enough
	// The numbers below low are too few, and high are enough.
	for n, step := low, 1; n < high; n, step = n+step, 2*step {
		if x.bounds[n] >= rate && x.simulate(n).Updates >= rate {
			high = n
			break
		}
		low = n + 1
	}
	for low < high {
		middle := (low + high) / 2
		if x.bounds[middle] >= rate && x.simulate(middle).Updates >= rate {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return high, x.simulate(high)
}

package cluster

// Point is what a number of bundles does.
type Point struct {
	Bundles int `json:"bundles"`
	// Alone is the rate of as many bundles that have all shards for themselves, at the number of
	// shards with the highest such rate: the rate without a limit.
	Alone float64 `json:"alone"`
	// Here has Shards of the cluster.
	Here Result `json:"here"`
	// Shards is the smallest number of shards whose rate is at least Share of Alone. 0: no number of
	// shards has it; Best is then with the number of shards whose resources allow the highest rate.
	Shards     int    `json:"shards"`
	BestShards int    `json:"best_shards"` // Shards, if it is not 0
	Best       Result `json:"best"`        // with BestShards
}

// Share is the part of the rate without a limit that a large enough number of shards keeps.
const Share = 0.95

// search simulates clusters that differ in bundles and shards.
type search struct {
	Cluster
	k      Costs
	rounds int
	seed   uint64
	made   int // simulations
}

func (x *search) simulate(bundles, shards int) Result {
	x.made++
	return Simulate(x.with(bundles, shards), x.k, x.rounds, x.seed)
}

func (x *search) with(bundles, shards int) Cluster {
	c := x.Cluster
	c.Bundles, c.Shards = bundles, shards
	return c
}

// mostShards returns the largest number of shards.
func (x *search) mostShards() int { return min(MaxShards, x.k.Parameters) }

// Scale returns the points of numbers of bundles. Each part has a machine of its own: c.Cores is 0.
//
// A simulated rate is not above bound, so numbers of shards whose bound is below Share are not
// simulated. The rate grows with the number of shards until calls cost more than smaller arrays save.
func Scale(c Cluster, k Costs, bundles []int, rounds int, seed uint64) (points []Point) {
	x := &search{Cluster: c, k: k, rounds: rounds, seed: seed}
	alone := x.alone()
	for _, n := range bundles {
		p := Point{Bundles: n, Alone: float64(n) * alone, Here: x.simulate(n, c.Shards)}
		p.Shards, p.Best = x.smallest(n, Share*p.Alone)
		if p.BestShards = p.Shards; p.Shards == 0 {
			p.BestShards = x.best(n)
			p.Best = x.simulate(n, p.BestShards)
		}
		points = append(points, p)
	}
	return points
}

// alone returns the highest rate of one bundle.
func (x *search) alone() (rate float64) {
	calm := *x
	calm.k.Sigma = 0 // the rate of one bundle is then exact after few rounds
	for shards := 1; shards <= x.mostShards(); shards *= 2 {
		rate = max(rate, calm.simulate(1, shards).Updates)
	}
	return rate
}

// best returns the number of shards with the highest bound.
func (x *search) best(bundles int) (shards int) {
	most := 0.0
	for n := 1; n <= x.mostShards(); n++ {
		c := x.with(bundles, n)
		if rate := c.bound(&x.k); rate > most {
			most, shards = rate, n
		}
	}
	return shards
}

// smallest returns the smallest number of shards with a rate, and its result; 0: there is none.
func (x *search) smallest(bundles int, rate float64) (int, Result) {
	allowed := func(shards int) bool {
		c := x.with(bundles, shards)
		return c.bound(&x.k) >= rate
	}
	low, end := 1, x.mostShards()
	for low <= end && !allowed(low) {
		low++
	}
	// Between low-1, which is too few, and high, which is enough.
	high, found := 0, Result{}
	for n, step := low, 1; n <= end && allowed(n); n, step = n+step, 2*step {
		if r := x.simulate(bundles, n); r.Updates >= rate {
			high, found = n, r
			break
		}
		low = n + 1
	}
	if high == 0 {
		return 0, found
	}
	for low < high {
		middle := (low + high) / 2
		if r := x.simulate(bundles, middle); r.Updates >= rate {
			high, found = middle, r
		} else {
			low = middle + 1
		}
	}
	return high, found
}

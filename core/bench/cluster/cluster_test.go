package cluster

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

// plain are costs without variation of 4,000 parameters, all of whose arrays are objects.
func plain() Costs {
	return Costs{
		Parameters: 4000, Step: 0.002, Gradient: 0.02, Apply: 1e-8, Message: 1000,
		Push: Cost{0.0002, 0.0001, 1e-9}, Visit: Cost{0.0005, 0.0004, 4e-9}, Get: Cost{0.00015, 0.00005, 2e-9},
		Keep: Cost{0.0006, 0, 1e-9}, Wait: Cost{0.00006, 0.00004, 0}, Ray: Cost{0.0006, 0.0001, 0},
	}
}

func apart(bundles, shards int) Cluster {
	return Cluster{Bundles: bundles, Shards: shards, Steps: 4, Speed: 1e8, Latency: 1e-4}
}

func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if !(math.Abs(got-want) <= part*want) {
		t.Errorf("%s: %v, want %v within %v", what, got, want, part)
	}
}

// One bundle waits for nothing but its own messages.
func TestOneBundleOneShard(t *testing.T) {
	k := plain()
	const bytes, state = 4 * 4000, 8 * 4000
	const learner = 4*0.002 + 0.02
	bundle := learner + 0.0003 + 0.0002 + 3e-9*bytes
	visit := 0.0005 + 0.0004 + 4e-9*bytes + 1e-8*4000
	message := 1e-4 + 0.00005 + (bytes+1000)/1e8
	c := apart(1, 1)
	near(t, "apart", Simulate(c, k, 10, 1).Updates, 1/(bundle+visit+2*message), 1e-9)
	c.Keep = 1 // the copies leave before the answer
	near(t, "with copies", Simulate(c, k, 10, 1).Updates, 1/(bundle+visit+0.0004+2*0.0002+4e-9*state+2*message+2*(state+1000)/1e8), 1e-9)
	c.Keep, c.Delay = 0, 1
	near(t, "with a delay", Simulate(c, k, 10, 1).Updates, 1/learner, 1e-9)
	c.Delay, c.Cores = 0, 3
	near(t, "on three cores", Simulate(c, k, 10, 1).Updates, 1/(bundle+visit+2*0.00005), 1e-9)
	k.Pause = 0.003
	near(t, "with a pause", Simulate(c, k, 10, 1).Updates, 1/(0.003+bundle+visit+2*0.00005), 1e-9)
	c.Cores = 0
	near(t, "a pause on a machine of its own", Simulate(c, k, 10, 1).Updates, Simulate(c, plain(), 10, 1).Updates, 1e-9)
	k.Pause, c.Cores = 0, 3
	k.Inline = bytes
	near(t, "without objects", Simulate(c, k, 10, 1).Updates, 1/(bundle-0.00015+visit-0.0004+2*0.00003), 1e-9)
}

// A reader gets one answer after the other, while further ones come. A sender pushes to one shard
// after the other, while the first ones answer.
func TestOneBundleManyShards(t *testing.T) {
	k := plain()
	k.Push = Cost{}
	c := apart(1, 4)
	const message = 4000 + 1000
	const learner, get = 4*0.002 + 0.02, 0.0002 + 2e-9*4000
	visit := 0.0005 + 0.0004 + 4e-9*4000 + 1e-8*1000
	near(t, "reading", Simulate(c, k, 10, 1).Updates, 1/(learner+visit+2*(1e-4+0.00005)+2*message/1e8+4*get), 1e-9)
	k.Get = Cost{} // the links carry four messages one after the other
	near(t, "links", Simulate(c, k, 10, 1).Updates, 1/(learner+visit+2*(1e-4+0.00005)+5*message/1e8), 1e-9)
	k.Get, k.Push.Call = plain().Get, 0.001
	near(t, "sending", Simulate(c, k, 10, 1).Updates, 1/(learner+4*0.001+visit+2*(1e-4+0.00005)+2*message/1e8+get), 1e-9)
	c.Delay, k.Push.Call = 1, 0.01
	near(t, "a sender that does not keep up", Simulate(c, k, 20, 1).Updates, 1/0.04, 1e-9)
	k.Get.Call, k.Push.Call = 0.0101, 0
	near(t, "a reader that does not keep up", Simulate(c, k, 20, 1).Updates, 1/(4*(0.0101+0.00005+2e-9*4000)), 1e-9)
}

func TestSaturation(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit string
		set   func(c *Cluster, k *Costs)
		rate  float64
	}{
		{"a shard", Shards, func(c *Cluster, k *Costs) { c.Shards, k.Apply = 1, 1e-6 }, 1 / (0.0009 + 4e-9*16000 + 0.004)},
		{"shards with copies", Shards, func(c *Cluster, k *Costs) { c.Keep, k.Visit.Call = 10, 0.005 },
			1 / (0.0054 + 4e-9*4000 + 1e-5 + 0.1*(0.0004+2*0.0002+4e-9*8000))},
		{"shards, whose keepers do not keep up", Shards, func(c *Cluster, k *Costs) { c.Keep, k.Keep.Call = 1, 0.1 },
			1 / (0.0009 + 4e-9*4000 + 1e-5 + 0.0004 + 2*0.0002 + 4e-9*8000)},
		{"links out of shards", "links out of shards", func(c *Cluster, k *Costs) { c.Speed, k.Message = 1e6, 0 }, 1e6 / 4000},
		{"links of bundles", "links out of bundles", func(c *Cluster, k *Costs) { c.Bundles, c.Speed, c.Delay = 2, 4e5, 2 }, 2 * 4e5 / (16000 + 4*1000)},
		{"bundles", Bundles, func(c *Cluster, k *Costs) { c.Bundles, c.Delay, k.Gradient = 3, 1, 1 }, 3 / 1.008},
		{"bundles that pause", Bundles, func(c *Cluster, k *Costs) { c.Bundles, c.Cores, c.Delay, k.Gradient, k.Pause = 1, 9, 1, 1, 0.5 }, 1 / 1.508},
		{"cores of bundles that pause", Cores, func(c *Cluster, k *Costs) { c.Cores, c.Bundles, k.Pause = 2, 8, 0.01 },
			2 / (0.028 + 4*0.0005 + 3e-9*16000 + 4*(0.0009+0.0007+4e-9*4000+1e-5))},
		{"less than one core", Cores, func(c *Cluster, k *Costs) { c.Cores, c.Bundles = 0.5, 2 },
			0.5 / (0.028 + 4*0.0005 + 3e-9*16000 + 4*(0.0009+0.0007+4e-9*4000+1e-5))},
		{"cores", Cores, func(c *Cluster, k *Costs) { c.Cores, c.Bundles = 2, 8 },
			2 / (0.028 + 4*0.0005 + 3e-9*16000 + 4*(0.0009+0.0007+4e-9*4000+1e-5))},
	} {
		c, k := apart(200, 4), plain()
		c.Delay = 1
		test.set(&c, &k)
		r := Simulate(c, k, 30*c.Bundles, 1)
		near(t, test.name, r.Updates, test.rate, 0.01)
		if r.Limit != test.limit {
			t.Errorf("%s: %s are used most: %+v", test.name, r.Limit, r.Resources)
		}
		if at := r.Saturation(); test.limit != Bundles && (at.Name != test.limit || math.Abs(at.Most/test.rate-1) > 0.02) {
			t.Errorf("%s: saturates %+v, want %v", test.name, at, test.rate)
		}
		for _, u := range r.Resources {
			if u.Used < 0 || u.Used > 1.01 && u.limits() || u.Most > 0 && math.Abs(u.Most*u.Used/r.Updates-1) > 1e-9 || (u.Bytes > 0) != (strings.HasPrefix(u.Name, "links") && u.Used > 0) {
				t.Errorf("%s: %+v", test.name, u)
			}
		}
	}
}

// Threads share cores equally: of two jobs on one core, the short one ends after twice its time.
func TestPool(t *testing.T) {
	s := &simulation{pool: &pool{cores: 1}}
	ends := map[int32]float64{}
	s.work(1, event{kind: rayDone, update: 1})
	s.work(3, event{kind: rayDone, update: 3})
	for len(s.events.items) > 0 {
		next := s.events.take()
		s.now = next.key
		if len(s.pool.jobs.items) > 0 && next.event.update == s.pool.next {
			ends[s.pool.jobs.items[0].event.update] = s.now
		}
		s.happen(next.event)
	}
	if ends[1] != 2 || ends[3] != 4 {
		t.Errorf("%v, want 2 and 4", ends)
	}
}

// random returns a cluster and costs.
func random(r *rng.Stream) (Cluster, Costs) {
	c := Cluster{
		Bundles: 1 + r.Intn(12), Shards: 1 + r.Intn(7), Steps: 1 + r.Intn(4), Delay: r.Intn(3), Keep: r.Intn(6), Cores: float64(r.Intn(4)),
		Speed: r.Uniform(1e6, 1e8), Latency: r.Uniform(0, 1e-3),
	}
	k := Costs{Parameters: 100 + r.Intn(10000)}
	for _, cost := range []*Cost{&k.Push, &k.Visit, &k.Get, &k.Keep, &k.Wait, &k.Ray} {
		*cost = Cost{r.Uniform(0, 1e-3), r.Uniform(0, 1e-3), r.Uniform(0, 1e-7)}
	}
	k.Step, k.Apply, k.Inline = r.Uniform(0, 1e-3), r.Uniform(0, 1e-7), r.Uniform(0, 1e4)
	k.Sigma, k.Message, k.Gradient = r.Uniform(0, 0.5), r.Uniform(0, 2000), r.Uniform(1e-4, 1e-2)
	k.Pause = k.Step
	return c, k
}

// Every push is visited once by every shard, nothing is left over, and a seed has one result.
func TestConservation(t *testing.T) {
	r, others := rng.New(1, "clusters", 0), 0
	for range 200 {
		c, k := random(r)
		if c.Check() != nil || k.Check() != nil {
			t.Fatalf("%+v %+v: %v, %v", c, k, c.Check(), k.Check())
		}
		s := newSimulation(c, k, 20*c.Bundles, 7)
		s.run()
		if s.started != s.stop || len(s.events.items) > 0 || s.pool != nil && len(s.pool.jobs.items) > 0 {
			t.Errorf("%+v: %d updates of %d, %d events are left", c, s.started, s.stop, len(s.events.items))
		}
		for i := range s.bundles {
			if b, calls := &s.bundles[i], int(s.bundles[i].made)*c.Shards; b.sender.done != calls || b.reader.done != calls || b.waits {
				t.Errorf("%+v: bundle %d has sent %d and read %d of %d", c, i, b.sender.done, b.reader.done, calls)
			}
		}
		copies := 0
		for j := range s.shards {
			at := &s.shards[j]
			if int(at.visits) != s.started || at.busy || len(at.waiting) > 0 {
				t.Errorf("%+v: shard %d has %d visits of %d, %d wait", c, j, at.visits, s.started, len(at.waiting))
			}
			for i, own := range at.own {
				if own != s.bundles[i].made {
					t.Errorf("%+v: shard %d has %d visits of bundle %d, which made %d", c, j, own, i, s.bundles[i].made)
				}
			}
			if c.Keep > 0 {
				copies += int(at.visits) / c.Keep
			}
		}
		for i := range s.keepers {
			if at := &s.keepers[i]; at.copies != copies || at.busy {
				t.Errorf("%+v: keeper %d has %d copies of %d", c, i, at.copies, copies)
			}
		}
		result := s.result()
		sum, bound := 0.0, c.bound(&k)
		if c.Cores > 0 && c.Keep > 0 {
			bound = math.Inf(1) // the keepers' share of the cores may be too small for their work
		}
		for _, lags := range result.Lags {
			sum += lags.Share
		}
		if math.Abs(sum-1) > 1e-9 || !(result.Updates > 0) || result.Updates > 1.08*bound {
			t.Errorf("%+v: %v updates a second of %v, lags add up to %v", c, result.Updates, bound, sum)
		}
		if again := Simulate(c, k, 20*c.Bundles, 7); !reflect.DeepEqual(again, result) {
			t.Errorf("%+v: %+v and %+v with one seed", c, again, result)
		}
		if other := Simulate(c, k, 20*c.Bundles, 8); !reflect.DeepEqual(other, result) {
			others++
		}
	}
	if others < 150 {
		t.Errorf("another seed changed %d of 200 results", others)
	}
}

// Without variation each bundle makes one update while each other one makes one. A gradient is
// computed from the answers to the update 1 + Delay before it, so it misses 1 + Delay updates of
// each other bundle.
func TestLagsByHand(t *testing.T) {
	for _, bundles := range []int{1, 2, 5, 9} {
		for delay := range 3 {
			for _, shards := range []int{1, 3} {
				for _, visit := range []float64{1e-5, 0.1} { // never, and always waiting
					c, k := apart(bundles, shards), plain()
					c.Delay, k.Visit.Call = delay, visit
					lag := (bundles - 1) * (delay + 1)
					r := Simulate(c, k, 20*bundles, 3)
					if r.LagMost != lag || math.Abs(r.Lag-float64(lag)) > 1e-9 || !slices.Equal(r.Lags, []Lags{{lag, lag, 1}}) {
						t.Errorf("%d bundles, %d shards, delay %d, visits of %v: %v, at most %d, %v; want %d", bundles, shards, delay, visit, r.Lag, r.LagMost, r.Lags, lag)
					}
				}
			}
		}
	}
}

// Neighbouring lags are together, in at most mostLags parts of one width.
func TestHistogram(t *testing.T) {
	for _, test := range []struct {
		lags map[int]int
		want []Lags
	}{
		{map[int]int{}, nil},
		{map[int]int{7: 3}, []Lags{{7, 7, 1}}},
		{map[int]int{198: 1, 200: 2, 201: 1}, []Lags{{198, 198, 0.25}, {199, 199, 0}, {200, 200, 0.5}, {201, 201, 0.25}}},
		{map[int]int{0: 1, 12: 1, 13: 2}, []Lags{{0, 1, 0.25}, {2, 3, 0}, {4, 5, 0}, {6, 7, 0}, {8, 9, 0}, {10, 11, 0}, {12, 13, 0.75}}},
		{map[int]int{1: 1, 25: 3}, []Lags{{1, 3, 0.25}, {4, 6, 0}, {7, 9, 0}, {10, 12, 0}, {13, 15, 0}, {16, 18, 0}, {19, 21, 0}, {22, 24, 0}, {25, 25, 0.75}}},
	} {
		s, r := simulation{lags: test.lags}, Result{}
		if s.histogram(&r); !slices.Equal(r.Lags, test.want) || len(r.Lags) > mostLags {
			t.Errorf("%v: %v, want %v", test.lags, r.Lags, test.want)
		}
	}
}

// The search finds what trying every number finds.
func TestScale(t *testing.T) {
	for _, inline := range []float64{0, 1000} { // no array, and those of 16 shards travel in messages
		k := plain()
		k.Inline, k.Apply, k.Visit, k.Push.Call, k.Get.Call = inline, 2e-6, Cost{Call: 2e-5, Object: 1e-3}, 2e-4, 1e-4
		c := apart(1, 3)
		c.Delay, c.Speed = 1, 1e9
		numbers := []int{1, 20}
		for i, p := range Scale(c, k, numbers, 200, 1) {
			c.Bundles = numbers[i]
			rates, best := make([]float64, 40), 0.0
			for shards := 1; shards < len(rates); shards++ {
				c.Shards = shards
				rates[shards] = Simulate(c, k, 200, 1).Updates
				best = max(best, rates[shards])
			}
			c.Shards = 3
			if p.Bundles != c.Bundles || p.BestShards >= len(rates) || p.Best.Updates < best/margin || p.Best.Updates != rates[p.BestShards] || p.Here.Updates != rates[3] || p.Enough.Updates != rates[p.Shards] {
				t.Errorf("%d bundles: %+v, best %v", c.Bundles, p, best)
			}
			for shards := 1; shards < p.Shards; shards++ {
				if rates[shards] >= Share*p.Best.Updates {
					t.Errorf("%d bundles, arrays up to %v inline: %d shards have %v of %v, and %d are said to be the fewest", c.Bundles, inline, shards, rates[shards], p.Best.Updates, p.Shards)
					break
				}
			}
			if p.Enough.Updates < Share*p.Best.Updates {
				t.Errorf("%d bundles: %d shards have %v of %v", c.Bundles, p.Shards, p.Enough.Updates, p.Best.Updates)
			}
		}
	}
}

func TestWrong(t *testing.T) {
	for want, set := range map[string]func(*Cluster){
		"bundles: 0, must be 1 to 10000":  func(c *Cluster) { c.Bundles = 0 },
		"shards: 1025, must be 1 to 1024": func(c *Cluster) { c.Shards = 1025 },
		"delay: 9, must be 0 to 8":        func(c *Cluster) { c.Delay = 9 },
		"keep: -1, must be 0 to":          func(c *Cluster) { c.Keep = -1 },
		"speed: NaN, must be above 0":     func(c *Cluster) { c.Speed = math.NaN() },
		"latency: -1, must be 0 to 3600":  func(c *Cluster) { c.Latency = -1 },
	} {
		c := apart(1, 1)
		if set(&c); c.Check() == nil || !strings.HasPrefix(c.Check().Error(), want) {
			t.Errorf("%v, want %q", c.Check(), want)
		}
	}
	for want, set := range map[string]func(*Costs){
		"costs.parameters: 0, must be 1 to":               func(k *Costs) { k.Parameters = 0 },
		"costs.visit.byte: NaN, must be 0 to 3600":        func(k *Costs) { k.Visit.Byte = math.NaN() },
		"costs.sigma: 4, must be 0 to 3":                  func(k *Costs) { k.Sigma = 4 },
		"costs.wait.object: -1, must be 0 to 3600":        func(k *Costs) { k.Wait.Object = -1 },
		"costs.step and costs.gradient: 0, must not both": func(k *Costs) { k.Step, k.Gradient = 0, 0 },
	} {
		k := plain()
		if set(&k); k.Check() == nil || !strings.HasPrefix(k.Check().Error(), want) {
			t.Errorf("%v, want %q", k.Check(), want)
		}
	}
}

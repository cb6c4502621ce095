package cluster

import (
	"fmt"
	"math"
)

// Cluster is what is simulated.
type Cluster struct {
	Bundles int
	Shards  int
	Steps   int // of a bundle between two updates
	// Delay is the number of updates of a bundle that may be under way while it goes on: 0, a bundle
	// waits for all answers after each push.
	Delay   int
	Keep    int     // visits of a shard between two copies for the keepers; 0: no copies
	Cores   float64 // that all parts share, less what other programs use; 0: each part has a machine of its own
	Speed   float64 // of a link in each direction, bytes a second
	Latency float64 // of a link, seconds
}

// The largest values.
const (
	MaxBundles = 10_000
	MaxShards  = 1024
	maxDelay   = 8
	maxCores   = 1 << 20
)

// Keepers is the number of keepers.
const Keepers = 2

// Check refuses what cannot be simulated.
func (c *Cluster) Check() error {
	for _, n := range []struct {
		name              string
		value, low, large int
	}{
		{"bundles", c.Bundles, 1, MaxBundles}, {"shards", c.Shards, 1, MaxShards}, {"steps", c.Steps, 1, 1 << 20},
		{"delay", c.Delay, 0, maxDelay}, {"keep", c.Keep, 0, math.MaxInt32},
	} {
		if n.value < n.low || n.value > n.large {
			return fmt.Errorf("%s: %d, must be %d to %d", n.name, n.value, n.low, n.large)
		}
	}
	if !(c.Cores == 0 || c.Cores >= 0.01 && c.Cores <= maxCores) {
		return fmt.Errorf("cores: %v, must be 0.01 to %d, or 0", c.Cores, maxCores)
	}
	if !(c.Speed > 0) {
		return fmt.Errorf("speed: %v, must be above 0", c.Speed)
	}
	if !(c.Latency >= 0 && c.Latency <= mostSeconds) {
		return fmt.Errorf("latency: %v, must be 0 to %d", c.Latency, mostSeconds)
	}
	return nil
}

// Resource is a kind of resource of a cluster: all of it that are equally used.
type Resource struct {
	Name string  `json:"name"`
	Most float64 `json:"most"` // server updates a second that it allows; 0: any number
	Used float64 `json:"used"` // share of its time; above 1, keepers do not keep up
	// Bytes are bytes a second of one link; 0: not a link.
	Bytes float64 `json:"bytes_per_second"`
}

// Names of resources.
const (
	Bundles      = "bundles" // their learners
	Senders      = "senders"
	Readers      = "readers"
	Shards       = "shards"
	Keeping      = "keepers"
	Cores        = "cores"
	keepersLinks = "links into keepers"
)

// limits reports whether a resource limits the rate. Keepers do not, because no shard waits for
// them.
func (r *Resource) limits() bool { return r.Name != Keeping && r.Name != keepersLinks && r.Most > 0 }

// grows reports whether more bundles have more of a resource.
func (r *Resource) grows() bool { return r.Name == Bundles || r.Name == Senders || r.Name == Readers }

// resources returns all resources at a rate of server updates a second.
func (c *Cluster) resources(k *Costs, rate float64) (list []Resource) {
	copies := 0.0 // of a shard per visit
	if c.Keep > 0 {
		copies = 1 / float64(c.Keep)
	}
	n, s := float64(c.Bundles), c.Shards
	last := s - 1
	copying, keeping := k.copied(last, s)
	sender, reader := k.calls(s)
	learner, shard := k.compute(c.Steps), k.visit(last, s)+float64(copies*copying)
	keeper := float64(float64(s) * copies * keeping)
	add := func(name string, demand, bytes float64) {
		r := Resource{Name: name, Used: rate * demand, Bytes: rate * bytes}
		if demand > 0 {
			r.Most = 1 / demand
		}
		list = append(list, r)
	}
	pause := 0.0
	if c.Cores > 0 {
		pause = k.Pause
	}
	add(Bundles, (learner+pause)/n, 0)
	add(Senders, sender/n, 0)
	add(Readers, reader/n, 0)
	add(Shards, shard, 0)
	add(Keeping, keeper, 0)
	if c.Cores > 0 {
		visits := float64(float64(s) * (shard + k.besides(k.array(last, s)) + k.of(k.Wait, k.array(last, s))))
		add(Cores, (learner+sender+reader+visits+float64(Keepers*keeper))/c.Cores, 0)
		return list
	}
	link := func(name string, bytes float64) { add(name, bytes/c.Speed, bytes) }
	array, state := k.array(last, s)+k.Message, k.state(last, s)+k.Message
	link("links out of bundles", float64(s)*array/n)
	link("links into bundles", float64(s)*array/n)
	link("links out of shards", array+float64(float64(Keepers*copies)*state))
	link("links into shards", array)
	link(keepersLinks, float64(s)*copies*state)
	return list
}

// bound returns the rate of the cluster if no part waits for a resource that another part uses.
func (c *Cluster) bound(k *Costs) float64 {
	most := math.Inf(1)
	for _, r := range c.resources(k, 0) {
		if r.limits() {
			most = min(most, r.Most)
		}
	}
	return most
}

// Saturation returns what limits the rate if there are enough bundles: the resource, threads of
// bundles apart, that allows the fewest updates a second.
func (r *Result) Saturation() Resource {
	var tightest Resource
	for _, at := range r.Resources {
		if at.limits() && !at.grows() && (tightest.Most == 0 || at.Most < tightest.Most) {
			tightest = at
		}
	}
	return tightest
}

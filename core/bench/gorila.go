package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/paceline-rl/paceline/core/bench/cluster"
	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/train"
)

// GorilaOptions are the options of the simulation of Gorila on a cluster.
type GorilaOptions struct {
	Bundles   int     `json:"bundles"`
	Shards    int     `json:"shards"`
	Steps     int     `json:"steps"` // of a bundle between two updates
	Delay     int     `json:"delay"` // updates of a bundle that may be under way while it goes on
	Keep      int     `json:"keep"`  // visits of a shard between two copies for the keepers; 0: no copies
	Cores     float64 `json:"cores"` // that all parts share, less what other programs use; 0: each part has a machine of its own
	Gbits     float64 `json:"gbits"` // a second, of a link in each direction: an assumption
	LatencyMS float64 `json:"latency_ms"`
	Updates   int     `json:"updates"` // of the server that are simulated, at least 4 of each bundle
	Seed      uint64  `json:"seed"`
	// Scale are the numbers of bundles for which the smallest number of shards is searched. It is
	// empty where the parts share cores.
	Scale []int  `json:"scale"`
	Env   string `json:"env"` // whose steps are measured
	// Costs are cluster.Costs that replace those of this machine.
	Costs json.RawMessage `json:"costs"`
}

// GorilaSaturation says where a number of shards saturates.
type GorilaSaturation struct {
	Resource string  `json:"resource"`
	Updates  float64 `json:"updates_per_second"`
	// Bundles is the number of bundles that have this rate together if none waits for another.
	Bundles float64 `json:"bundles"`
}

// GorilaReport is the simulation of Gorila on a cluster: a prediction.
type GorilaReport struct {
	Options    GorilaOptions     `json:"options"`
	ISA        string            `json:"isa"`
	Costs      cluster.Costs     `json:"costs"`
	Sources    map[string]string `json:"sources"` // of the costs: "here", "file", "recorded" or "assumed"
	Recorded   string            `json:"recorded"`
	One        float64           `json:"one"` // updates a second of one bundle alone with as many shards
	Result     cluster.Result    `json:"result"`
	Saturation GorilaSaturation  `json:"saturation"`
	Points     []cluster.Point   `json:"points"` // of Scale
}

// recorded are costs of Ray 2.60 that the library cannot measure itself, with the machine that they
// were measured on. python/benchmarks/ray_costs.py measures them.
// The spread is an assumption, and so is that no learner pauses.
var recorded = cluster.Costs{
	Sigma: 0.1, Message: 1024, Inline: 100 << 10,
	Push:  cluster.Cost{Call: 370e-6, Object: 1280e-6, Byte: 0.29e-9},
	Visit: cluster.Cost{Call: 520e-6, Object: 1540e-6, Byte: 0.50e-9},
	Get:   cluster.Cost{Call: 120e-6, Object: 440e-6, Byte: 0.15e-9},
	Keep:  cluster.Cost{Call: 760e-6, Byte: 0.26e-9},
	Wait:  cluster.Cost{Call: 400e-6, Object: 1550e-6, Byte: 0.09e-9},
	Ray:   cluster.Cost{Call: 690e-6, Object: 5440e-6, Byte: 0.21e-9},
}

const recordedOn = "2 cores of an Intel Xeon, Ray 2.60.0"

// mostVisits bounds the time and the memory of a simulation.
const (
	mostVisits  = 20_000_000
	mostUpdates = 1_000_000
)

// benchGorila simulates.
func benchGorila(decode func(any) error) (any, error) {
	o := GorilaOptions{Bundles: 100, Shards: 31, Steps: 4, Delay: 1, Keep: 100, Gbits: 10, LatencyMS: 0.1, Updates: 1000, Seed: 1, Env: "Pong"}
	if err := decode(&o); err != nil {
		return nil, err
	}
	c, err := o.cluster()
	if err != nil {
		return nil, err
	}
	r := &GorilaReport{Options: o, ISA: cpu.Chosen(), Recorded: recordedOn, Points: []cluster.Point{}}
	if r.Costs, r.Sources, err = o.costs(); err != nil {
		return nil, err
	}
	if c.Shards > r.Costs.Parameters {
		return nil, fmt.Errorf("options: shards %d, must be at most %d, the number of parameters", c.Shards, r.Costs.Parameters)
	}
	one, calm := c, r.Costs
	one.Bundles, calm.Sigma = 1, 0
	r.One = cluster.Simulate(one, calm, o.Updates, o.Seed).Updates
	r.Result = cluster.Simulate(c, r.Costs, o.Updates, o.Seed)
	at := r.Result.Saturation()
	r.Saturation = GorilaSaturation{at.Name, at.Most, at.Most / r.One}
	if len(o.Scale) > 0 {
		r.Points = cluster.Scale(c, r.Costs, o.Scale, o.Updates, o.Seed)
	}
	return r, nil
}

// cluster returns what the options describe.
func (o *GorilaOptions) cluster() (cluster.Cluster, error) {
	if o.Scale == nil {
		if o.Scale = []int{10, 32, 100, 316, 1000}; o.Cores > 0 {
			o.Scale = []int{}
		}
	}
	c := cluster.Cluster{
		Bundles: o.Bundles, Shards: o.Shards, Steps: o.Steps, Delay: o.Delay, Keep: o.Keep, Cores: o.Cores,
		Speed: o.Gbits * 1e9 / 8, Latency: o.LatencyMS / 1e3,
	}
	switch {
	case !(o.Gbits > 0 && o.Gbits <= 1e6):
		return c, fmt.Errorf("options: gbits %v, must be above 0 and at most 1000000", o.Gbits)
	case !(o.LatencyMS >= 0 && o.LatencyMS <= 1e6):
		return c, fmt.Errorf("options: latency_ms %v, must be 0 to 1000000", o.LatencyMS)
	case o.Updates < 1 || o.Updates > mostUpdates:
		return c, fmt.Errorf("options: updates %d, must be 1 to %d", o.Updates, mostUpdates)
	case o.Cores > 0 && len(o.Scale) > 0:
		return c, fmt.Errorf("options: scale %v, must be empty with cores %v", o.Scale, o.Cores)
	}
	for _, n := range append([]int{o.Bundles}, o.Scale...) {
		at := c
		at.Bundles = n
		if err := at.Check(); err != nil {
			return c, fmt.Errorf("options: %w", err)
		}
		if visits := at.Visits(o.Updates); visits > mostVisits {
			return c, fmt.Errorf("options: %d bundles, %d shards and %d updates are %d visits, must be at most %d", n, o.Shards, o.Updates, visits, mostVisits)
		}
	}
	return c, nil
}

// costs returns the costs, and where each is from. A cost that the options have is taken whole.
func (o *GorilaOptions) costs() (k cluster.Costs, sources map[string]string, err error) {
	given, file := map[string]json.RawMessage{}, cluster.Costs{}
	if len(o.Costs) > 0 {
		d := json.NewDecoder(bytes.NewReader(o.Costs))
		d.DisallowUnknownFields()
		if err := errors.Join(json.Unmarshal(o.Costs, &given), d.Decode(&file)); err != nil {
			return k, nil, fmt.Errorf("options: costs: %w", err)
		}
	}
	k, sources = recorded, map[string]string{}
	measurable := []string{"parameters", "step", "gradient", "apply"}
	if slices.ContainsFunc(measurable, func(name string) bool { return given[name] == nil }) {
		if err := measureGorila(o.Env, &k); err != nil {
			return k, nil, err
		}
	}
	to, from := reflect.ValueOf(&k).Elem(), reflect.ValueOf(file)
	for i := range to.NumField() {
		name := to.Type().Field(i).Tag.Get("json")
		switch {
		case given[name] != nil:
			sources[name] = "file"
			to.Field(i).Set(from.Field(i))
		case slices.Contains(measurable, name):
			sources[name] = "here"
		case name == "sigma" || name == "pause":
			sources[name] = "assumed"
		default:
			sources[name] = "recorded"
		}
	}
	if err := k.Check(); err != nil {
		return k, nil, fmt.Errorf("options: %w", err)
	}
	return k, sources, nil
}

// measureGorila measures the costs of the library: of DQN by one learner, on one thread. They are
// lower quartiles, because other programs only add to them.
func measureGorila(env string, k *cluster.Costs) error {
	o := LatencyOptions{Method: "dqn", Env: env, NumEnvs: 1, Steps: 240, Settings: map[string]string{
		"shards": "1", "optimizer": "adagrad", "buffer_size": "1000", "learning_starts": "32", "train_freq": "4",
		"exploration_initial_eps": "0.1", "window": "1000", "concurrent": "false",
	}}
	durations, err := measureLearner(&o, func(t *train.Trainer) { k.Parameters = t.ParameterSets()[0].Size })
	if err != nil {
		return err
	}
	quartile := func(name string) float64 {
		list := slices.Sorted(slices.Values(durations[name]))
		return list[len(list)/4]
	}
	k.Step = quartile("step") + quartile("forward")
	k.Gradient = quartile("gradient")
	k.Apply = quartile("push") / float64(k.Parameters)
	return nil
}

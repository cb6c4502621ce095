package cluster

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/portable"
	"github.com/paceline-rl/paceline/core/rng"
)

// Cost is a cost of a call that carries an array, in seconds.
type Cost struct {
	Call   float64 `json:"call"`
	Object float64 `json:"object"` // besides, where the array is an object of the object store
	Byte   float64 `json:"byte"`   // per byte of the array
}

// Costs are what the parts do, in seconds of a thread where nothing else is said.
type Costs struct {
	Parameters int     `json:"parameters"` // of the network, float32
	Step       float64 `json:"step"`       // a learner: a step of the environment, with the forward pass for its action
	Gradient   float64 `json:"gradient"`   // a learner: a minibatch and its gradient
	Sigma      float64 `json:"sigma"`      // of the logarithm of the factor by which steps and gradient vary
	Pause      float64 `json:"pause"`      // a learner, for an update: waits for a core that another thread has while a core is idle; where parts share cores
	Apply      float64 `json:"apply"`      // a shard: a step of the optimiser, per parameter
	Push       Cost    `json:"push"`       // a sender: calls a shard, with its part of the gradient
	Visit      Cost    `json:"visit"`      // a shard: answers a call with its parameters
	Get        Cost    `json:"get"`        // a reader: copies an answer to the bundle's parameters
	Keep       Cost    `json:"keep"`       // a keeper: takes a copy
	Wait       Cost    `json:"wait"`       // of a call and its answer together: in which no thread above works
	Ray        Cost    `json:"ray"`        // core seconds of Ray's own threads and processes for a visit, those in wait included; where parts share cores
	Message    float64 `json:"message"`    // bytes of a message besides its array
	Inline     float64 `json:"inline"`     // bytes up to which an array travels in a message and is no object
}

const (
	parameterBytes = 4
	stateBytes     = 2 * parameterBytes // parameters and AdaGrad's accumulators

	mostSeconds    = 3600 // keeps sums finite
	mostSigma      = 3
	mostBytes      = 1 << 31
	mostParameters = 1 << 31
)

// Check refuses costs that are not numbers of seconds.
func (k *Costs) Check() error {
	if k.Parameters < 1 || k.Parameters > mostParameters {
		return fmt.Errorf("costs.parameters: %d, must be 1 to %d", k.Parameters, mostParameters)
	}
	type limit struct {
		name        string
		value, most float64
	}
	list := []limit{
		{"step", k.Step, mostSeconds}, {"gradient", k.Gradient, mostSeconds}, {"pause", k.Pause, mostSeconds},
		{"sigma", k.Sigma, mostSigma}, {"apply", k.Apply, mostSeconds}, {"message", k.Message, mostBytes}, {"inline", k.Inline, mostBytes},
	}
	for _, c := range []struct {
		name string
		Cost
	}{{"push", k.Push}, {"visit", k.Visit}, {"get", k.Get}, {"keep", k.Keep}, {"wait", k.Wait}, {"ray", k.Ray}} {
		list = append(list, limit{c.name + ".call", c.Call, mostSeconds}, limit{c.name + ".object", c.Object, mostSeconds}, limit{c.name + ".byte", c.Byte, mostSeconds})
	}
	for _, x := range list {
		if !(x.value >= 0 && x.value <= x.most) {
			return fmt.Errorf("costs.%s: %v, must be 0 to %.0f", x.name, x.value, x.most)
		}
	}
	if k.Step+k.Gradient == 0 {
		return errors.New("costs.step and costs.gradient: 0, must not both be 0")
	}
	return nil
}

// size returns the parameters of shard j of s. The sizes differ by at most one; the last is a
// largest.
func (k *Costs) size(j, s int) float64 {
	return float64(k.Parameters*(j+1)/s - k.Parameters*j/s)
}

// array returns the bytes of shard j's gradient, and of its parameters.
func (k *Costs) array(j, s int) float64 { return float64(parameterBytes * k.size(j, s)) }

// state returns the bytes of a copy of shard j.
func (k *Costs) state(j, s int) float64 { return float64(stateBytes * k.size(j, s)) }

// of returns the cost of a call with an array of this number of bytes.
func (k *Costs) of(c Cost, bytes float64) float64 {
	seconds := c.Call + float64(c.Byte*bytes)
	if bytes > k.Inline {
		seconds += c.Object
	}
	return seconds
}

// compute returns the bundle's time for steps and gradient, without their variation.
func (k *Costs) compute(steps int) float64 { return float64(float64(steps)*k.Step) + k.Gradient }

// calls returns the times of a bundle's sender and of its reader for an update.
func (k *Costs) calls(s int) (sender, reader float64) {
	for j := range s {
		sender += k.of(k.Push, k.array(j, s))
		reader += k.of(k.Get, k.array(j, s))
	}
	return sender, reader
}

// visit returns the shard's time for a visit.
func (k *Costs) visit(j, s int) float64 {
	return k.of(k.Visit, k.array(j, s)) + float64(k.Apply*k.size(j, s))
}

// copied returns the shard's time for a copy, whose object both keepers read, and a keeper's.
func (k *Costs) copied(j, s int) (shard, keeper float64) {
	bytes := k.state(j, s)
	return k.Visit.Object + float64(k.Visit.Byte*bytes) + float64(Keepers*k.Push.Call), k.of(k.Keep, bytes)
}

// besides returns the core seconds of Ray's own threads for a visit, without those in Wait.
func (k *Costs) besides(array float64) float64 { return max(0, k.of(k.Ray, array)-k.of(k.Wait, array)) }

// vary draws the factor of steps and gradient of an update, whose mean is 1.
func (k *Costs) vary(r *rng.Stream) float64 {
	return r.Lognormal(k.Sigma) * portable.Exp(-float64(k.Sigma*k.Sigma)/2)
}

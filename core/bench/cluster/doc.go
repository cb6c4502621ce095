// Package cluster simulates Gorila (Nair et al. 2015) on many machines in virtual time: how many
// updates a second N bundles and S shards make, how old their gradients are, and which resource
// limits them. It computes no gradient. All durations are Costs, which were measured on one
// machine.
//
// # Bundles, shards, keepers
//
// A bundle has three threads:
//
//   - The learner takes Steps steps of its environment and computes a gradient. The sum varies by a
//     lognormal factor of mean 1. It then waits until all but Delay of its updates are answered.
//   - The sender pushes a part of each gradient to each shard, one after the other, with a request
//     for the parameters after it.
//   - The reader gets the answers, in the order of the pushes, and copies them to the parameters.
//
// A visit is what a push is for a shard: the shard reads the gradient, takes a step of the
// optimiser, puts the new version of its parameters into the object store, and answers with it. A
// shard does one visit at a time, in the order in which the pushes arrive.
//
// After every Keep visits a shard puts a copy of its parameters and of the optimiser's state and
// sends it to both keepers, which take one copy at a time. No shard waits for a keeper.
//
// # Machines
//
// With Cores 0 each part has a machine of its own: no part waits for a core. Messages take the
// outgoing link of the sender and the incoming link of the receiver. A link carries one message at
// a time in each direction, in the order of their first bytes. A message occupies the receiver's
// link from its first byte on, so one message takes Latency + bytes/Speed. Switches between the
// links are not limited.
//
// With Cores above 0 all parts share one machine of that many cores: n runnable threads have
// min(1, Cores/n) of a core each. There are no links. Ray's own threads compete for the cores, and
// Wait is work of these threads. The equal shares are an ideal: a real learner also waits for a
// core that another thread has while a core is idle, which is Pause. It hardly matters where all
// cores are used.
//
// # Terms
//
// A server update is a visit of the last shard. The lag of a gradient is the number of visits of
// other bundles between the answer that the bundle had copied and the push, the largest over the
// shards.
//
// # Operational laws
//
// Each resource has a demand: seconds of it per server update. In the long run it is used for rate
// x demand, and the rate is at most 1 / demand. Waiting makes the rate lower than the smallest of
// these limits; the simulation is there for the waiting and for the lags.
package cluster

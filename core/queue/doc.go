// Package queue holds what waits between agents and the threads that serve them in GA3C: Segments
// of experience for a trainer, and Requests for a predictor. It knows neither networks nor threads.
//
// # Segments
//
// A segment is a number of successive steps of one environment. It ends after Config.Steps steps or
// with the step that ends an episode, and that last step is a part of it. The next segment begins
// with the observation after the last step, or after an end with the first one of the next episode.
//
//   - A step is in exactly one segment, and the steps of an environment keep their order.
//   - Unless the last step terminated, the segment has the observation after it (Batch.Last), from
//     whose value the returns continue.
//   - A segment that has ended waits at its environment (Ended) until Join appends it to the queue.
//     Environments may end segments concurrently; the caller of Join decides the order of the
//     queue.
//   - The queue is bounded by its caller: the first Config.Bound segments are inside (Inside), and
//     only these can be taken. An environment whose segment is outside takes no step. So the queue
//     never has more than Bound segments and one for each environment, and New allocates all
//     memory.
//   - Take copies whole segments, from the front, into a Batch.
//
// # Requests
//
// Requests are environments that wait for an action, in the order in which they came. The first
// Bound of them are inside, the others wait to get in; a predictor takes up to a number of those
// inside.
//
// # Goroutines
//
// Begin, Add, Open and Cut of one environment belong to one goroutine at a time; different
// environments are independent. All other calls belong to one goroutine at a time. Join and Ended
// of an environment do not run concurrently with the calls of that environment.
package queue

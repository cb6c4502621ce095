// Package ga3c is the hybrid CPU/GPU A3C of Babaeizadeh et al. 2017, "Reinforcement Learning
// through Asynchronous Advantage Actor-Critic on a GPU": agents ask predictors for their actions
// through a queue, and submit segments of experience to trainers through another one. There is one
// network. Read algorithm.go next to the paper; events.go says what waits for what.
//
// # Names
//
//	paper                here                    what
//	NA, NP, NT           num_envs, predictors,   agents, each with one environment; threads that choose
//	                     trainers                actions; threads that compute gradients
//	Prediction Queue     requests                agents that wait for an action
//	Training Queue       segments                segments that wait for a trainer
//	t_max                n_steps                 most steps of a segment
//	theta_t, theta_t-k   versions                parameters now, and when an action was chosen
//	k                    lag                     updates between the two
//	eps of (5), of (3)   log_eps, rms_prop_eps
//	TPS, PPS             ga3c/tps, ga3c/pps      updates and predictions a second
//
// # What the paper leaves open
//
//   - The last step of an episode is a part of its segment (the authors' code drops it, with its
//     reward), and a segment has at most t_max steps.
//   - R_t and V(s_t) are of the parameters with which the gradient is computed: both the baseline,
//     as in (4), and the value after the segment's last step. Where no update came in between they
//     are those of the parameters that acted.
//   - A prediction and a gradient have one whole version of the parameters (versions.go). With
//     several trainers a gradient is applied to later parameters than it was computed with; the
//     paper's trainers read and write the parameters of TensorFlow without locks.
//   - min_training_batch joins the segments of several agents to a batch. A trainer takes them at
//     once, when there are enough, or when no agent can move before an update. Where the host steps
//     the environments, that is when an agent waits for room in the training queue, or for its
//     update.
//   - With vtrace the targets are those of V-trace, which corrects for k (vtrace.go).
//   - The regulariser acts on each branch of an action. Gaussians have exact logarithms.
//   - Queues are bounded. An agent whose segment does not get into the training queue waits.
//   - With wait_for_update an agent waits until its segment has been learned from. k then counts
//     other agents' updates only: where the library steps the environments, it is 0 with one
//     trainer if every update learns from the segments of all agents (min_training_batch is at
//     least num_envs times n_steps). With one agent, predictor and trainer, the exact loss and its
//     mean, this is A2C with one environment, bit for bit where A2C's rollouts end with the
//     episodes.
//
// # Which computation ends when
//
// Everything follows from the order in which steps, predictions and updates end (pace). When the
// events of an instant have been processed, each idle trainer takes a batch of segments if there
// are enough, and then each idle predictor all agents that wait, up to prediction_batch_max; lower
// numbers come first.
//
//   - virtual: a model of latencies, by settings or a file, gives every computation a duration, in
//     which predictions and updates cost a function of their batch. A seed has one result for any
//     number of threads: computations run on the threads of num_threads while their events are
//     still to come. Predictions and updates, and steps, may wait for one another (latency_device,
//     latency_cores).
//   - race: a computation ends when it has been done. The events are recorded (order.go), about a
//     byte a step, prediction and update; checkpoints with experience have the record.
//   - recorded: the events come in the order of a record, so a race is repeated bit for bit, in any
//     slices, on any number of threads. The record of a race that was stopped and continued is one
//     record.
//
// The tuner of section 4.3 (tuner.go) changes how many predictors, trainers and agents are active.
// Its times are events, too; in a race its decisions are recorded.
//
// # What holds
//
//   - Each agent has its own environment and its own stream of random numbers, so what it does does
//     not depend on which predictor serves it.
//   - T counts steps when predictors take them. A slice of a run (Advance) ends when T has reached
//     its end, after the batch of a predictor, and waits for all computations that have begun.
//     Slices change nothing: what is in progress continues, and a checkpoint has it, gradients
//     included.
//   - The learning rate of an update is that of T when the update is applied.
//   - No update is due at the end of a slice: an update comes when its event comes.
//   - A step that fails ends the slice at its event, or at the end of the slice. The next slice
//     begins a new episode there; the steps before the failure end as a truncation.
//   - A prediction that fails, for example because an action is not finite, takes no step. Its
//     agents ask again in the next slice.
//   - Where the host steps the environments, a round has one step of each agent. Events are
//     processed until every agent has its action.
//
// Predictors and trainers are on the CPU, with one thread each. The setting groups changes nothing.
package ga3c

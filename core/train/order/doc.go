// Package order decides the order in which several learners visit the shards of a parameter store,
// to push and to pull. Each learner has its own environments and a copy of the parameters, and runs
// on a goroutine of its own. Turns gives the learners their turns, and says which rounds belong to
// a slice of the run. It knows neither the store nor the learners (core/train/async).
//
// # Events
//
// A learner's life is a sequence of legs. A leg is a number of rounds and then one visit to each
// shard in ascending order: pulls (PullAll), or after a gradient first pushes, then pulls
// (PushAndPull), or no visits (NoVisit). Rounds and visits are events. An event has a time, at
// which it ends. Events are ordered by (time, learner); no two events of a learner have the same
// time, except in a recorded order, where their sequence decides.
//
// T is the number of steps of all learners. T at an event is the number of steps in the rounds
// before that event. A learner reads T at its pull of shard 0.
//
// # Schedules
//
//   - Virtual: durations come from a latency model and a random stream of each learner
//     (latency.go), so the order is a function of the seed. When a learner plans a leg, all times
//     of the leg are drawn. Other learners then know its next visits while it computes.
//   - Race: learners do not wait for one another, except for the lock of a shard. The order of the
//     visits and T at each pull are recorded (record.go).
//   - Recorded: the visits have the order of a record, and each pull has the recorded T
//     (recorded.go). Visit g has the time (g+1)*visitUnit, which leaves room for the rounds of a
//     leg between two visits. These rounds are spread evenly between the visits around them.
//
// # What holds in virtual and recorded order
//
//   - The visits to one shard happen in their order. Visits to different shards may happen at the
//     same time, because the shards are independent.
//   - A learner may visit when the next visit to that shard of every other learner comes later. Of
//     a learner that has planned no leg, the end of its last leg is known, after which it comes.
//   - T at a pull is exact: the pull waits until the rounds before it are known. Rounds have
//     Config.Steps steps each, or with Config.Varies the steps that Took reports.
//   - A slice, from Begin to End, has all events before its end and no others. Its end is the first
//     round whose T has reached `until`. Slices therefore change nothing: any sequence of slices
//     has the events of one slice.
//   - At the end of a run a learner may rest before the others (Rest). T then counts no round of
//     its next leg. That leg comes after all events of the others, except with Config.Barrier.
//   - A learner may find out after its rounds that it has no use for the visits of its leg
//     (Replan). In a virtual order the time of these visits passes. In a record they do not exist,
//     and the rounds of both legs come before the next visit.
//   - The draws of a learner depend on its plans alone. The order therefore depends neither on the
//     number of threads nor on their speed.
//
// # Why learners cannot wait for one another forever
//
// Suppose that all learners of a slice wait or have ended. A learner that waits has planned its
// leg, and so has a learner whose last round or visit was refused. Take the learner whose next
// event is the least. Every event before that event has happened, and the times of all other
// learners are known up to that event. If it is a round, T before the round is therefore exact, and
// the round is taken or is the end of the slice. If it is a visit, no visit to its shard comes
// first, and T is exact. So this learner does not wait.
//
// A learner that waits for its turn holds no core, and a learner that waits for a core holds no
// lock. A learner that computes therefore always gets a core, and a budget of one core is enough.
// In a race a learner keeps its core while it waits for the lock of a shard, whose holder has a
// core.
//
// # Interrupts and failures
//
// After an Interrupt no further round is taken, and every wait ends. Visits in virtual and recorded
// order that have not had their turn are not done. The learners have then got to different times,
// which depend on the speed of the threads: some may have taken rounds that come late in the order.
// But the visits that are done are the first ones of every shard in the order, and the state of a
// learner is a function of its events. So the next slice continues with the same bits, also after a
// save and a load. Steps counts all rounds taken. If the next slice has a smaller `until` than the
// interrupted one, rounds that come after its end may be among them. In a race an interrupted
// learner finishes its visits.
//
// A failure of learner k (Fail) takes the place of its next visit to each shard: visits before that
// visit are done, visits after it are refused. The other learners go on until a visit is refused or
// the slice ends, so that the state after the failure does not depend on threads either. If several
// learners fail, End returns the failure that comes first in the order. The next slice continues as
// after an interrupt. In a race all visits and rounds that have not begun are refused.
//
// # Cores
//
// Learners share the cores of Config.Cores. A core goes to the learner whose next event is the
// earliest, because others may wait for that learner. While no core is free, the visits of a
// learner that waits are made by the learner that moves it to its turn, so that it is woken once
// for all. In a race a core goes to the learner that has waited longest, and a learner gives its
// core up after a millisecond if another one waits.
package order

package train

import (
	"fmt"
	"strings"
	"time"

	"github.com/paceline-rl/paceline/core/threads"
)

// This file is the rules of Trainer.Proposal: from measured figures and settings to one line.
//
// # What bounds a run
//
// A round of DQN has three parts: the networks choose actions, the environments step, and updates
// train. Which of them bounds the run depends on the mode (sections 3 and 4 of "Human-Level Control
// without Server-Grade Hardware"):
//
//	standard      all parts follow one another: the time of a round is their sum
//	concurrent    training runs during the other two: the larger of training and of acting + stepping
//	synchronized  acting is one forward pass for all environments, whose steps run at the same time
//	both          the larger of training and of one forward pass + one step of all environments
//
// In every mode the cores are a bound of their own: training that runs during acting takes cores
// from it. On-policy methods are as synchronized: they need a rollout's end before they train.
//
// # The rules
//
// The first rule that applies has the line. A rule proposes a setting only if its model says that
// the run becomes faster by the share worth.
//
//  1. Steps that sleep while they hold a core: the environment should declare that its steps wait.
//     Each environment then has a thread, and updates use the cores during the waits.
//  2. The cores are full: more threads if the machine has more cores. Without Synchronized
//     Execution the forward passes of single rows may be what fills the cores.
//  3. Training and stepping alternate though cores are idle: concurrent.
//  4. Concurrently, samplers wait for the trainer at the ends of windows, and the trainer waits for
//     the samplers inside them: a longer window. A window's updates are released as its steps are
//     taken, so the trainer of a short window idles at its start and the samplers wait at its end.
//     Each boundary is such a wait, so a window that is twice as long halves the waits. The limit
//     is target_update_interval, the paper's C.
//  5. The trainer never waits: the updates are the bound, and more threads help only if the machine
//     has the cores. In a long window samplers may still be far ahead of it.
//  6. The host has most of the time: no setting changes it.
//  7. Steps wait: groups, which choose the actions of one half during the steps of the other, so at
//     most half of the forward passes is hidden. Then more environments (the paper's W), because
//     the waits of a round run at the same time.
//  8. Steps compute on fewer cores than there are: at least an environment for each core.
//
// There is no rule for more threads than cores: 8 threads on 2 cores, which other programs shared,
// were as fast as 2.
//
// # The figures
//
// Times are those of the goroutine that calls the method, the paper's main thread, and of cores of
// num_threads that were held. A held core may sleep: in a step that sleeps, or while a thread waits
// for another one's share of a loop. So held time counts as busy up to the CPU time of the process,
// plus the time that its threads were queued for a core of the machine. Queued threads had work, so
// a machine that other programs share does not look idle. CPU time of other parts of the process
// makes the cores look busier, and a proposal less likely.

// figures are what the rules read.
type figures struct {
	Knobs
	envs, groups, cores int
	available           int  // cores of the machine
	hosted              bool // the host steps the environments
	waits, batched      bool // steps wait; environments step in one call
	wall                time.Duration
	reading             // differences since the first update
}

const (
	// leastMeasured is how long a run must be measured.
	leastMeasured = time.Second
	// worth is the least share of time that a proposal must win.
	worth = 0.1
	// full is the share of busy cores from which on no core is idle.
	full = 0.85
	// asleepFrom is the share of their time from which on steps sleep. Threads that wait for one
	// another's share of a loop sleep for less than half of it.
	asleepFrom = 0.5
	// divisible is the least duration of a step, or of an update, that threads can share.
	divisible = 20 * time.Microsecond
)

// proposal is the line.
func (f *figures) proposal() string {
	if f.wall < leastMeasured {
		return "not measured yet: a run is measured from its first update on; train for at least a second more, and ask again"
	}
	for _, rule := range []func(f *figures) string{
		(*figures).sleepingSteps, (*figures).fullCores, (*figures).alternating, (*figures).shortWindow,
		(*figures).training, (*figures).host, (*figures).waitingSteps, (*figures).idleCores,
	} {
		if line := rule(f); line != "" {
			return line
		}
	}
	return fmt.Sprintf("nothing to propose: cores are busy %s of the time; %s of it acts, %s steps, %s trains or waits for training",
		percent(f.busy()), percent(f.share(Acting)), percent(f.share(Stepping)), percent(f.trains()))
}

// share is a share of the main thread's time.
func (f *figures) share(a Activity) float64 { return of(f.own[a], f.wall) }

// busy is the share of the cores' time in which they were needed.
func (f *figures) busy() float64 {
	held := f.held[Stepping] + f.held[Acting] + f.held[Learning]
	if f.known {
		held = min(held, f.computed+f.queued)
	}
	return of(held, f.coreTime())
}

// coreTime is the time of all cores.
func (f *figures) coreTime() time.Duration { return f.wall * time.Duration(min(f.cores, f.available)) }

// asleep reports whether steps sleep while they hold a core. Only what acting and learning cannot
// have computed counts as computed by steps.
func (f *figures) asleep() bool {
	slept := min(f.held[Stepping], f.held[Stepping]+f.held[Acting]+f.held[Learning]-f.computed-f.queued)
	return f.known && !f.waits && f.held[Stepping] > 0 && of(slept, f.held[Stepping]) >= asleepFrom
}

// step is the mean time of a step: the one that its core was held, or, where all steps of a round
// wait at the same time, the round's.
func (f *figures) step() time.Duration {
	spent := f.held[Stepping]
	if f.waits {
		spent = f.own[Stepping] * time.Duration(f.envs)
	}
	return spent / time.Duration(max(1, f.steps))
}

// trains is the share of time in which the main thread trains. Where no other thread trains, its
// waits for updates are updates.
func (f *figures) trains() float64 { return f.share(Learning) + f.share(Waiting) }

// queues is the share of the cores' time in which threads were queued behind other programs.
func (f *figures) queues() float64 {
	if !f.known || f.cores > f.available {
		return 0
	}
	return min(1, of(f.queued, f.coreTime()))
}

func (f *figures) sleepingSteps() string {
	if !f.asleep() || f.batched || f.share(Stepping) < worth {
		return ""
	}
	return fmt.Sprintf("waits %s of the time for environments: declare that their steps wait, waits=True instead of False among the "+
		"environment's options (a step takes %s and holds a core meanwhile)", percent(f.share(Stepping)), duration(f.step()))
}

func (f *figures) fullCores() string {
	busy := f.busy()
	if busy < full {
		return ""
	}
	if line := f.moreThreads(fmt.Sprintf("cores are busy %s of the time", percent(busy))); line != "" {
		return line
	}
	if alone := of(f.held[Acting], f.coreTime()); !f.Synchronized && f.envs > 1 && alone >= 3*worth {
		return fmt.Sprintf("forward passes of single environments take %s of the cores' time: synchronized=True instead of False%s",
			percent(alone), f.changes(!f.Concurrent))
	}
	line := fmt.Sprintf("nothing to propose: cores are busy %s of the time", percent(busy))
	if queues := f.queues(); queues >= worth {
		line += fmt.Sprintf(", and queue behind other programs %s of it", percent(queues))
	}
	return line
}

// moreThreads proposes more threads, if the machine has the cores, other programs leave them, and
// the threads would have work.
func (f *figures) moreThreads(why string) string {
	update := f.updating / time.Duration(max(1, f.updates))
	shares := f.Concurrent && f.updating > 0 || update >= 10*divisible || f.envs > 1 && !f.hosted && !f.batched && f.step() >= divisible
	if n := min(f.available, 2*f.cores); n > f.cores && shares && f.queues() < 3*worth {
		return fmt.Sprintf("%s, and %d cores are available: num_threads=%d instead of %d", why, f.available, n, f.cores)
	}
	return ""
}

func (f *figures) alternating() string {
	train := f.trains()
	if !f.Replay || f.Concurrent || faster(max(train, 1-train)) < 1+worth {
		return ""
	}
	return fmt.Sprintf("acting and environments wait %s of the time for training, and training waits for them: concurrent=True instead of False%s",
		percent(train), f.changes(true))
}

func (f *figures) shortWindow() string {
	waits, idle := f.share(Waiting), 1-f.trainer()
	if !f.Concurrent || f.Window >= f.Longest || min(waits, idle) < worth {
		return ""
	}
	times := int64(2)
	for waits/float64(times) > worth/4 && times < 1<<20 {
		times *= 2
	}
	return fmt.Sprintf("environments wait %s of the time for training at the ends of windows, and training waits %s of it inside them: window=%d instead of %d%s",
		percent(waits), percent(idle), min(f.Longest, f.Window*times), f.Window, f.changes(true))
}

// trainer is the share of time in which the trainer thread has updates to do. It may wait for a
// core meanwhile.
func (f *figures) trainer() float64 { return 1 - min(1, of(f.idle, f.wall)) }

func (f *figures) training() string {
	if !f.Concurrent || f.trainer() < 1-worth || of(f.updating, f.wall) < 0.5 { // below it, it waits for a core
		return ""
	}
	why := fmt.Sprintf("updates are due %s of the time, and environments wait for them %s of it", percent(f.trainer()), percent(f.share(Waiting)))
	if line := f.moreThreads(why); line != "" {
		return line
	}
	return "nothing to propose: " + why
}

func (f *figures) host() string {
	own := time.Duration(0)
	for _, spent := range f.own {
		own += spent
	}
	share, what := 1-of(own, f.wall), "the caller has %s of the time, for callbacks, evaluations or records"
	if f.hosted {
		what = "the caller, who steps the environments, has %s of the time"
	}
	if share < 0.5 {
		return ""
	}
	return "nothing to propose: " + fmt.Sprintf(what, percent(share))
}

func (f *figures) waitingSteps() string {
	steps := f.share(Stepping)
	if f.hosted || !f.waits && !f.asleep() || steps < worth {
		return ""
	}
	why := fmt.Sprintf("waits %s of the time for environments", percent(steps))
	if hidden := min(steps, f.share(Acting)/2); f.groups == 1 && f.Alternates && f.envs > 1 && faster(1-hidden) >= 1+worth {
		return fmt.Sprintf("%s and acts %s: groups=2 instead of 1", why, percent(f.share(Acting)))
	}
	return f.moreEnvs(why, 2, 4)
}

func (f *figures) idleCores() string {
	if f.hosted || f.waits || f.batched || f.asleep() || f.envs >= min(f.cores, f.available) || f.share(Stepping) < 3*worth || f.step() < divisible {
		return ""
	}
	cores := min(f.cores, f.available)
	why := fmt.Sprintf("environments step %s of the time, on %d of %d cores", percent(f.share(Stepping)), f.envs, cores)
	return f.moreEnvs(why, float64(cores)/float64(f.envs))
}

// moreEnvs proposes as many times the environments, whose steps then take the same time of a round,
// if the other parts of a round, the cores and the trainer allow. Of several numbers it takes the
// last that still adds a fifth.
func (f *figures) moreEnvs(why string, times ...float64) string {
	best, n := 1.0, f.envs
	for _, k := range times {
		steps := f.share(Stepping)
		rate := k / (float64(k*(1-steps)) + steps)
		if f.busy() > 0 {
			rate = min(rate, 1/f.busy())
		}
		if f.Concurrent && f.trainer() > 0 {
			rate = min(rate, 1/f.trainer())
		}
		envs := int(k * float64(f.envs))
		if rate >= 1.2*best && envs <= threads.Max && (!f.Replay || int64(envs) <= f.Window) {
			best, n = rate, envs
		}
	}
	if n == f.envs {
		return ""
	}
	line := fmt.Sprintf("%s: num_envs=%d instead of %d", why, n, f.envs)
	if f.waits && f.groups == 1 {
		return line + fmt.Sprintf(" (a step takes %s; changes the results)", duration(f.step()))
	}
	return line + f.changes(true)
}

// changes says of a proposal that it changes the results.
func (f *figures) changes(results bool) string {
	if results {
		return " (changes the results)"
	}
	return ""
}

// faster is how many times faster a run is whose time shrinks to a share.
func faster(share float64) float64 { return 1 / max(share, 1e-9) }

// of is part/whole.
func of(part, whole time.Duration) float64 { return float64(part) / float64(max(1, whole)) }

func percent(share float64) string {
	return strings.TrimSpace(fmt.Sprintf("%.0f %%", 100*max(0, min(1, share))))
}

func duration(d time.Duration) string {
	switch ms := d.Seconds() * 1e3; {
	case ms < 0.1:
		return fmt.Sprintf("%.0f us", ms*1e3)
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}

package order

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkLearners compares the schedules on two cores. The learners sleep while they hold a core,
// so that other programs on the machine disturb less: a round takes 2 ms, a gradient 15 ms and a
// visit 0.3 ms. The model has the same medians. ns/op is the time of a round of all learners
// together.
func BenchmarkLearners(b *testing.B) {
	model := func(sigma string) *Latency {
		return &Latency{Step: mustDuration(b, "0.001"+sigma), Forward: mustDuration(b, "0.001"+sigma), Gradient: mustDuration(b, "0.015"+sigma),
			Push: mustDuration(b, "0.0012"+sigma), Pull: mustDuration(b, "0.0012"+sigma)}
	}
	for _, learners := range []int{1, 2, 4, 8, 64} {
		for _, row := range []struct {
			name string
			Config
		}{{"race", Config{Schedule: Race}}, {"lognormal", Config{Schedule: Virtual, Latency: model(":0.5")}},
			{"wide", Config{Schedule: Virtual, Latency: model(":1")}}, {"constant", Config{Schedule: Virtual, Latency: model("")}}} {
			b.Run(fmt.Sprintf("%d/%s", learners, row.name), func(b *testing.B) {
				w := newWorld(programme{rounds: 5, updates: 1}, learners, 4, 16, false)
				w.work = func(what string) {
					time.Sleep(map[string]time.Duration{"round": 2 * time.Millisecond, "gradient": 15 * time.Millisecond, "visit": 300 * time.Microsecond}[what])
				}
				t := newTurns(b, row.Config, w, 2)
				b.ResetTimer()
				if err := w.run(t, 16*int64(b.N), nil); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkTurns is the time that Turns itself takes, for each round, with learners that do
// nothing. The order changes hands at nearly every visit.
func BenchmarkTurns(b *testing.B) {
	model := &Latency{Step: mustDuration(b, "0.001:0.5"), Forward: mustDuration(b, "0.001:0.5"), Gradient: mustDuration(b, "0.015:0.5"), Push: mustDuration(b, "0.0012:0.5"), Pull: mustDuration(b, "0.0012:0.5")}
	for _, learners := range []int{1, 4, 64} {
		for _, c := range []Config{{Schedule: Race}, {Schedule: Race, Unrecorded: true}, {Schedule: Virtual, Latency: model}} {
			b.Run(fmt.Sprintf("%d/%s/unrecorded=%v", learners, c.Schedule, c.Unrecorded), func(b *testing.B) {
				w := newWorld(programme{rounds: 5, updates: 1}, learners, 4, 16, false)
				t := newTurns(b, c, w, 2)
				began := processor()
				b.ResetTimer()
				if err := w.run(t, 16*int64(b.N), nil); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(processor()-began)/float64(b.N), "cpu-ns/round")
				if s := t.Stats(); s.Bytes > 0 {
					b.ReportMetric(float64(8*s.Bytes)/float64(s.Visits), "bytes/update")
				}
			})
		}
	}
}

// processor returns the processor time of the process in nanoseconds.
func processor() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

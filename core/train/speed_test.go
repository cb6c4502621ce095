package train

import (
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
)

// idleDevice has no helpers.
type idleDevice struct{}

func (idleDevice) Busy() time.Duration { return 0 }

func newMeasured() *Monitor {
	m := newMonitor(1)
	m.use.device, m.speed.knobs = idleDevice{}, &Knobs{}
	m.start()
	m.speed.begin(m)
	return m
}

// ago moves the latest lap into the past, so that the next one takes that long at least.
func (m *Monitor) ago(long time.Duration) { m.mark = m.mark.Add(-long) }

// Time before the first update of a run does not count, a later run begins anew, and a reading
// needs time since the one before.
func TestSpeedIsMeasuredFromTheFirstUpdate(t *testing.T) {
	m := newMeasured()
	m.Updates.Store(7)
	m.speed.begin(m) // a run that continues after 7 updates
	m.ago(time.Hour)
	m.Lap(Acting)
	m.speed.look(m)
	if m.speed.started || !m.speed.to.at.IsZero() {
		t.Fatalf("measured before the first update: %+v, %+v", m.speed.from, m.speed.to)
	}
	m.Updates.Add(1)
	m.Lap(Waiting)
	if !m.speed.started {
		t.Fatal("not measured after the first update")
	}
	m.ago(time.Minute)
	m.Lap(Learning)
	now := time.Now()
	m.speed.idle.set(true, now.Add(-3*time.Second))
	m.speed.idle.set(false, now.Add(-2*time.Second))
	m.Idle(true)
	m.Updates.Add(2)
	m.speed.look(m)
	if !m.speed.to.at.IsZero() {
		t.Fatal("a reading right after the beginning")
	}
	m.speed.from.at = m.speed.from.at.Add(-lookEvery)
	m.speed.look(m)
	got := m.speed.to.since(&m.speed.from)
	if got.own[Learning] < time.Minute || got.own[Acting] != 0 || got.held[Learning] < time.Minute || got.idle < time.Second || got.updates != 2 || got.updating < time.Minute {
		t.Errorf("%+v", got)
	}
	latest := m.speed.to.at
	if m.speed.look(m); m.speed.to.at != latest {
		t.Error("two readings at once")
	}
	if m.speed.begin(m); !m.speed.from.at.IsZero() || !m.speed.to.at.IsZero() || m.speed.started {
		t.Errorf("a run does not begin anew: %+v, %+v", m.speed.from, m.speed.to)
	}
}

// A span in progress counts as far as it has come.
func TestStopwatch(t *testing.T) {
	var s stopwatch
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	for k, x := range []struct {
		on        bool
		set, read int
		want      time.Duration
	}{{true, 10, 12, 2}, {false, 13, 20, 3}, {false, 21, 22, 3}, {true, 30, 30, 3}, {true, 31, 32, 5}, {false, 40, 50, 13}} {
		s.set(x.on, at(x.set))
		if got := s.read(at(x.read)); got != x.want*time.Second {
			t.Errorf("%d: %v, want %v s", k, got, int(x.want))
		}
	}
}

// A round's time is the main thread's, also where threads that act alone add up to more.
func TestSpeedDividesARound(t *testing.T) {
	m := newMeasured()
	m.ago(8 * time.Second)
	m.Ran(actor.Ran{Acting: 10 * time.Second, Stepping: 30 * time.Second})
	acting, stepping := m.speed.own[Acting], m.speed.own[Stepping]
	if acting < 2*time.Second || stepping < 6*time.Second || acting > stepping {
		t.Errorf("acting %v, stepping %v of 8 s, must be 2 and 6", acting, stepping)
	}
	m.ago(time.Second)
	m.Ran(actor.Ran{})
	if m.speed.own[Stepping] < 7*time.Second {
		t.Errorf("%v, must have a round without steps, too", m.speed.own)
	}
	other := newMonitor(1) // of a method without rules
	other.use.device = idleDevice{}
	other.start()
	if other.Lap(Acting); other.speed.own[Acting] != 0 {
		t.Error("measured without rules")
	}
}

func TestProposalOfAMethodWithoutRules(t *testing.T) {
	tr := &Trainer{def: &Definition{Name: "other"}, monitor: newMonitor(1)}
	if got := tr.Proposal(); !strings.HasPrefix(got, "nothing to propose for other: there are no rules") {
		t.Error(got)
	}
}

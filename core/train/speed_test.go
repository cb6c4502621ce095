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

func newMeasured() *Host {
	h := newHost(1)
	h.use.device, h.speed.knobs = idleDevice{}, &Knobs{}
	h.start()
	h.speed.begin(h)
	return h
}

// ago moves the latest lap into the past, so that the next one takes that long at least.
func (h *Host) ago(long time.Duration) { h.mark = h.mark.Add(-long) }

// Time before the first update of a run does not count, a later run begins anew, and a reading needs
// time since the one before.
func TestSpeedIsMeasuredFromTheFirstUpdate(t *testing.T) {
	h := newMeasured()
	h.Updates.Store(7)
	h.speed.begin(h) // a run that continues after 7 updates
	h.ago(time.Hour)
	h.Lap(Acting)
	h.speed.look(h)
	if h.speed.started || !h.speed.to.at.IsZero() {
		t.Fatalf("measured before the first update: %+v, %+v", h.speed.from, h.speed.to)
	}
	h.Updates.Add(1)
	h.Lap(Waiting)
	if !h.speed.started {
		t.Fatal("not measured after the first update")
	}
	h.ago(time.Minute)
	h.Lap(Learning)
	now := time.Now()
	h.speed.idle.set(true, now.Add(-3*time.Second))
	h.speed.idle.set(false, now.Add(-2*time.Second))
	h.Idle(true)
	h.Updates.Add(2)
	h.speed.look(h)
	if !h.speed.to.at.IsZero() {
		t.Fatal("a reading right after the beginning")
	}
	h.speed.from.at = h.speed.from.at.Add(-lookEvery)
	h.speed.look(h)
	got := h.speed.to.since(&h.speed.from)
	if got.own[Learning] < time.Minute || got.own[Acting] != 0 || got.held[Learning] < time.Minute || got.idle < time.Second || got.updates != 2 || got.updating < time.Minute {
		t.Errorf("%+v", got)
	}
	latest := h.speed.to.at
	if h.speed.look(h); h.speed.to.at != latest {
		t.Error("two readings at once")
	}
	if h.speed.begin(h); !h.speed.from.at.IsZero() || !h.speed.to.at.IsZero() || h.speed.started {
		t.Errorf("a run does not begin anew: %+v, %+v", h.speed.from, h.speed.to)
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
	h := newMeasured()
	h.ago(8 * time.Second)
	h.Ran(actor.Ran{Acting: 10 * time.Second, Stepping: 30 * time.Second})
	acting, stepping := h.speed.own[Acting], h.speed.own[Stepping]
	if acting < 2*time.Second || stepping < 6*time.Second || acting > stepping {
		t.Errorf("acting %v, stepping %v of 8 s, must be 2 and 6", acting, stepping)
	}
	h.ago(time.Second)
	h.Ran(actor.Ran{})
	if h.speed.own[Stepping] < 7*time.Second {
		t.Errorf("%v, must have a round without steps, too", h.speed.own)
	}
	other := newHost(1) // of a method without rules
	other.use.device = idleDevice{}
	other.start()
	if other.Lap(Acting); other.speed.own[Acting] != 0 {
		t.Error("measured without rules")
	}
}

func TestProposalOfAMethodWithoutRules(t *testing.T) {
	tr := &Trainer{def: &Definition{Name: "other"}, host: newHost(1)}
	if got := tr.Proposal(); !strings.HasPrefix(got, "nothing to propose for other: there are no rules") {
		t.Error(got)
	}
}

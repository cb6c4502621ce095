package capi

import (
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

func TestTableEqualsAMap(t *testing.T) {
	tab := newTable[int](kindConfig)
	naive := map[uint64]int{}
	var ids []uint64
	r := rand.New(rand.NewSource(1))
	for i := range 20000 {
		switch {
		case r.Intn(3) > 0 || len(ids) == 0:
			id := tab.put(i)
			if _, again := naive[id]; again || id == 0 {
				t.Fatalf("handle %#x was used before, or is 0", id)
			}
			naive[id] = i
			ids = append(ids, id)
		default: // any handle, including freed ones
			id := ids[r.Intn(len(ids))]
			want, alive := naive[id]
			if got, ok := tab.remove(id); ok != alive || got != want {
				t.Fatalf("remove(%#x) = %d, %v, want %d, %v", id, got, ok, want, alive)
			}
			delete(naive, id)
		}
		id := ids[r.Intn(len(ids))]
		want, alive := naive[id]
		got := 0
		err := tab.use(id, func(v int) error { got = v; return nil })
		if alive != (err == nil) || got != want {
			t.Fatalf("use(%#x): %d, %v, want %d, %v", id, got, err, want, alive)
		}
	}
	if len(tab.live) != len(naive) {
		t.Errorf("%d live, want %d", len(tab.live), len(naive))
	}
}

func TestHandleErrorNamesTheFault(t *testing.T) {
	a, b := newTable[int](kindConfig), newTable[int](kindVec)
	live, freed := a.put(1), a.put(2)
	a.remove(freed)
	for _, c := range []struct {
		id   uint64
		says string
	}{
		{live, "is a paceline_config"},
		{0, "not a handle"},
		// a count that has not been issued yet
		{uint64(kindVec)<<kindShift | 1<<50, "not a handle"},
		{99 << kindShift, "not a handle"},
	} {
		if err := b.use(c.id, func(int) error { return nil }); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("use(%#x): %v, want ...%s...", c.id, err, c.says)
		}
	}
	if err := a.use(freed, func(int) error { return nil }); err == nil || !strings.Contains(err.Error(), "was freed") {
		t.Error(err)
	}
}

func TestPanicBreaksOneObject(t *testing.T) {
	tab := newTable[int](kindConfig)
	bad, good := tab.put(1), tab.put(2)
	first := tab.use(bad, func(int) error { panic("oops") })
	var p *fault.Panic
	if !errors.As(first, &p) || p.Value != "oops" || len(p.Stack) == 0 {
		t.Fatalf("%v", first)
	}
	if err := tab.use(bad, func(int) error { t.Error("was called"); return nil }); err != p {
		t.Error(err)
	}
	if err := tab.use(good, func(int) error { return nil }); err != nil {
		t.Error(err)
	}
	// A panic that core has recovered.
	if err := tab.use(good, func(int) error { return guarded(func() error { panic("far away") }) }); !errors.As(err, &p) {
		t.Error(err)
	}
	if err := tab.use(good, func(int) error { return nil }); !errors.As(err, &p) || p.Value != "far away" {
		t.Error(err)
	}
	// A panic of an environment breaks no object, unless another panic comes with it.
	other := tab.put(3)
	inEnvironment := &env.Error{Index: 1, Err: fault.Caught("in a step")}
	if err := tab.use(other, func(int) error { return fmt.Errorf("step: %w", inEnvironment) }); !errors.As(err, &p) {
		t.Error(err)
	}
	if err := tab.use(other, func(int) error { return errors.Join(inEnvironment, fault.Caught("far away")) }); !errors.As(err, &p) {
		t.Error(err)
	}
	if err := tab.use(other, func(int) error { return nil }); !errors.As(err, &p) || p.Value != "far away" {
		t.Error(err)
	}
	if err := guarded(func() error { panic(nil) }); !errors.As(err, &p) {
		t.Error(err)
	}
	if _, ok := tab.remove(bad); !ok {
		t.Error("a broken object cannot be freed")
	}
}

func TestTableIsSafeForConcurrentUse(t *testing.T) {
	tab := newTable[int](kindPolicy)
	var wg sync.WaitGroup
	freed := make(chan uint64, 10000)
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 1000 {
				id := tab.put(g*1000 + i)
				if err := tab.use(id, func(v int) error {
					if v != g*1000+i {
						return errors.New("the object of another handle")
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
				if _, ok := tab.remove(id); !ok {
					t.Error("the object is gone")
				}
				freed <- id
			}
		}()
	}
	wg.Wait()
	close(freed)
	seen := map[uint64]bool{}
	for id := range freed {
		if seen[id] {
			t.Fatalf("%#x was used twice", id)
		}
		seen[id] = true
	}
	if len(tab.live) != 0 {
		t.Errorf("%d left", len(tab.live))
	}
}

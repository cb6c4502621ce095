package ga3c

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/train/order"
)

// recorder is to come with races.
type recorder struct{}

func (r *recorder) add(code uint64, last bool) {}

func (m *GA3C) code(event) uint64                        { return 0 }
func (m *GA3C) orderParts(saving bool) []checkpoint.Part { return nil }
func (m *GA3C) position() int64                          { return 0 }
func (m *GA3C) seek(int64)                               {}

// setPace makes the pace of the schedule.
func (m *GA3C) setPace() error {
	if s := order.Schedule(m.cfg.Schedule); s != order.Virtual {
		return fmt.Errorf("schedule: %s, must be %s", s, order.Virtual)
	}
	latency := m.cfg.Latency
	if err := latency.open(); err != nil {
		return err
	}
	m.pace = newVirtual(&m.cfg, latency)
	return nil
}

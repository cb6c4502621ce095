package rollout

import (
	"errors"
	"fmt"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// The time of a round without environments and network, including its share of Finish and Next.
func BenchmarkRound(b *testing.B) {
	for _, size := range []int{16, 4 * 84 * 84} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			const envs = 8
			r, err := New(Config{Obs: env.ObsSpec{DType: env.Uint8, Shape: []int{size}}, Action: env.ActionSpec{N: 2}, Horizon: 5, Envs: envs, Columns: []string{ColumnValue}})
			check(b, err)
			obs, values, x := make([]byte, size), make([]float32, envs), experience.Step{Action: []int32{0}, Columns: []float32{0}}
			for i := range envs {
				check(b, r.Begin(i, obs))
			}
			value := func([]byte, int) ([]float32, error) { return values, nil }
			for b.Loop() {
				for i := range envs {
					err = errors.Join(err, r.Add(i, &x, obs))
				}
				err = errors.Join(err, r.EndRound())
				if r.Full() {
					err = errors.Join(err, r.Finish(.99, 1, value), r.Next())
				}
			}
			check(b, err)
		})
	}
}

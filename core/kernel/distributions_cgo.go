//go:build cgo

package kernel

/*
#cgo noescape paceline_kernel_categorical_means
#cgo nocallback paceline_kernel_categorical_means
#cgo noescape paceline_kernel_project
#cgo nocallback paceline_kernel_project
#cgo noescape paceline_kernel_categorical_loss
#cgo nocallback paceline_kernel_categorical_loss
#cgo noescape paceline_kernel_quantile_loss
#cgo nocallback paceline_kernel_quantile_loss
#include "kernel.h"
*/
import "C"

func (p native) categoricalMeans(means, logits []float32, s Support) {
	C.paceline_kernel_categorical_means(p.k, floats(means), floats(logits), C.ptrdiff_t(len(means)), C.ptrdiff_t(s.Atoms), C.double(s.Min), C.double(s.step()))
}

func (p native) project(targets, logits []float32, actions []int32, rewards, discounts []float32, width int, s Support) {
	C.paceline_kernel_project(p.k, floats(targets), floats(logits), integers(actions), floats(rewards), floats(discounts),
		C.ptrdiff_t(len(actions)), C.ptrdiff_t(width), C.ptrdiff_t(s.Atoms), C.double(s.Min), C.double(s.step()))
}

// c returns the arguments of a loss.
func (b *DistributionBatch) c(dx, perRow []float32, weight float32) C.struct_paceline_distribution_args {
	return C.struct_paceline_distribution_args{
		dx: floats(dx), per_row: floats(perRow), x: floats(b.X), actions: integers(b.Actions), targets: floats(b.Targets), weights: floats(b.Weights), taus: floats(b.Taus),
		n: C.ptrdiff_t(len(b.Actions)), width: C.ptrdiff_t(b.Width), points: C.ptrdiff_t(b.Points), goals: C.ptrdiff_t(b.goals()), weight: C.float(weight),
	}
}

func (p native) categoricalLoss(dx, perRow []float32, b *DistributionBatch, least float32, divergence bool, weight float32) float64 {
	return float64(C.paceline_kernel_categorical_loss(p.k, b.c(dx, perRow, weight), C.float(least), integer(divergence)))
}

func (p native) quantileLoss(dx, perRow []float32, b *DistributionBatch, kappa, weight float32) float64 {
	return float64(C.paceline_kernel_quantile_loss(p.k, b.c(dx, perRow, weight), C.float(kappa)))
}

//go:build cgo

package kernel

// #include "kernel.h"
import "C"

// modulation calls a pass that is cut into parts of whole rows.
func (p native) modulation(t *Team, which uint32, a C.struct_paceline_modulate_args) {
	shared := int(a.n)
	if int(a.n*a.times*a.width) < minSharedNumbers {
		shared = 1
	}
	helpers := t.begin(shared)
	parts := int(a.n)
	if helpers == 0 {
		parts = 1
	}
	C.paceline_kernel_modulate(p.k, t.share(helpers, parts), which, a)
	t.end(helpers)
}

func (p native) modulate(t *Team, y, x, by []float32, n, times, width int) {
	p.modulation(t, C.PACELINE_MODULATE_FORWARD, C.struct_paceline_modulate_args{
		into: floats(y), x: floats(x), by: floats(by), n: C.ptrdiff_t(n), times: C.ptrdiff_t(times), width: C.ptrdiff_t(width),
	})
}

func (p native) modulateBackward(t *Team, dby, dx, x, by, dy []float32, n, times, width int) {
	p.modulation(t, C.PACELINE_MODULATE_BACKWARD, C.struct_paceline_modulate_args{
		into: floats(dby), dx: floats(dx), x: floats(x), by: floats(by), dy: floats(dy), n: C.ptrdiff_t(n), times: C.ptrdiff_t(times), width: C.ptrdiff_t(width),
	})
}

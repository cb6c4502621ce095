package ga3c

import (
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/nn"
)

// versions are the parameters of the one network, and older ones that computations still read. An
// update changes the latest parameters in place where nothing reads them, and a copy otherwise. So
// a computation has one whole version.
type versions struct {
	now *version
	all []*version
}

// version is one version of the parameters. It is not written while it has readers.
type version struct {
	*nn.Params
	readers atomic.Int32
}

func newVersions(p *nn.Params) versions {
	v := &version{Params: p}
	return versions{v, []*version{v}}
}

// read returns the latest version for a reader, who calls done.
func (v *versions) read() *version {
	v.now.readers.Add(1)
	return v.now
}

func (x *version) done() { x.readers.Add(-1) }

// write returns the latest parameters for an update.
func (v *versions) write() *nn.Params {
	if v.now.readers.Load() == 0 {
		return v.now.Params
	}
	for _, x := range v.all {
		if x.readers.Load() == 0 {
			x.CopyFrom(v.now.Params)
			v.now = x
			return x.Params
		}
	}
	v.now = &version{Params: v.now.Clone()}
	v.all = append(v.all, v.now)
	return v.now.Params
}

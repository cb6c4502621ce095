package gpu

import (
	"fmt"
	"sync"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// gpu is a GPU that several devices of one owner share (nn.Device.Another). Everything made on the
// GPU is freed when the last of these devices is closed.
type gpu struct {
	*cuda.Device
	copying *cuda.Stream // of parameters

	mu    sync.Mutex
	users int      // devices that are not closed
	owned []func() // they free what was made on the GPU
}

func openGPU(index int) (*gpu, error) {
	d, err := cuda.Open(index)
	if err != nil {
		return nil, err
	}
	c := &gpu{Device: d}
	if c.copying, err = c.stream(cuda.Low); err != nil {
		d.Close()
		return nil, err
	}
	return c, nil
}

func (c *gpu) name() string { return infoOf(c.Info()).String() }

func (c *gpu) use() *gpu {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	return c
}

// release frees everything after the last use.
func (c *gpu) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	for i := len(c.owned) - 1; i >= 0; i-- {
		c.owned[i]()
	}
	c.owned = nil
	c.Device.Close() // the caller could do nothing about an error
}

func (c *gpu) own(free func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned = append(c.owned, free)
}

// memory allocates zeroed GPU memory and returns its address.
func (c *gpu) memory(bytes int64) (uint64, error) {
	m, err := c.Alloc(bytes)
	if err != nil {
		return 0, err
	}
	c.own(m.Free)
	return m.Ptr, nil
}

// pinned allocates page-locked host memory.
func (c *gpu) pinned(bytes int64) ([]byte, error) {
	p, err := c.Pinned(bytes)
	if err != nil {
		return nil, err
	}
	c.own(p.Free)
	return p.Data, nil
}

func (c *gpu) stream(p cuda.Priority) (*cuda.Stream, error) {
	s, err := c.Stream(p)
	if err == nil {
		c.own(s.Close)
	}
	return s, err
}

func (c *gpu) event(sleeping bool) (*cuda.Event, error) {
	e, err := c.Event(sleeping)
	if err == nil {
		c.own(e.Close)
	}
	return e, err
}

// paramsCopy is the copy of a parameter set in GPU memory.
type paramsCopy struct {
	gpu *gpu
	at  uint64

	mu        sync.Mutex
	writes    uint64 // Params.Writes of the copied parameters
	valid     bool   // there was a first upload
	hostStale bool   // host memory is older than the copy
}

// address uploads p if the copy is out of date, and returns the address of the copy. Several
// goroutines may call it at the same time if none writes p.
func (c *gpu) address(p *nn.Params) (uint64, error) {
	own, _ := p.DeviceCopy().(*paramsCopy)
	if own == nil || own.gpu != c {
		var err error
		if own, err = c.adopt(p); err != nil {
			return 0, err
		}
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if !own.valid || own.writes != p.Writes {
		if err := c.copying.Upload(own.at, graph.BytesOf(p.Raw())); err != nil {
			return 0, err
		}
		own.valid, own.writes, own.hostStale = true, p.Writes, false
	}
	return own.at, nil
}

// adopt makes a copy of p on this GPU. It first downloads p from the GPU that had it before.
func (c *gpu) adopt(p *nn.Params) (*paramsCopy, error) {
	p.Host()
	at, err := c.memory(int64(4 * len(p.Raw())))
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if own, ok := p.DeviceCopy().(*paramsCopy); ok && own.gpu == c { // another goroutine came first
		return own, nil
	}
	own := &paramsCopy{gpu: c, at: at}
	p.SetDeviceCopy(own)
	return own, nil
}

// wrote counts a change that the GPU made to p.
func (c *paramsCopy) wrote(p *nn.Params) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Writes++
	c.valid, c.writes, c.hostStale = true, p.Writes, true
}

// Download leaves host memory as it is if the GPU is lost.
func (c *paramsCopy) Download(p *nn.Params) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hostStale && c.gpu.copying.Download(graph.BytesOf(p.Raw()), c.at) == nil {
		c.hostStale = false
	}
}

func (c *paramsCopy) CopyTo(p *nn.Params) bool {
	to, _ := p.DeviceCopy().(*paramsCopy)
	if to == nil || to.gpu != c.gpu || to == c {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hostStale || c.gpu.copying.Copy(to.at, c.at, int64(4*len(p.Raw()))) != nil || c.gpu.copying.Synchronize() != nil {
		return false
	}
	to.wrote(p)
	return true
}

package gpu

import (
	"fmt"
	"sync"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// card is a GPU, for the Devices that one owner has on it. What is made on it is freed when
// the last of them is closed.
type card struct {
	*cuda.Device
	copying *cuda.Stream // of parameters, from one memory to the other

	mu    sync.Mutex
	users int      // Devices that are not closed
	owned []func() // free what was made
}

func openCard(index int) (*card, error) {
	d, err := cuda.Open(index)
	if err != nil {
		return nil, err
	}
	c := &card{Device: d}
	if c.copying, err = c.stream(cuda.Low); err != nil {
		d.Close()
		return nil, err
	}
	return c, nil
}

func (c *card) name() string { return infoOf(c.Info()).String() }

func (c *card) use() *card {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	return c
}

// release frees everything where nobody uses the card any more.
func (c *card) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	for i := len(c.owned) - 1; i >= 0; i-- {
		c.owned[i]()
	}
	c.owned = nil
	c.Device.Close() // an error here has nobody who could do anything about it
}

func (c *card) own(free func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned = append(c.owned, free)
}

// memory returns the address of so many bytes of zeros in the GPU's memory.
func (c *card) memory(bytes int64) (uint64, error) {
	m, err := c.Alloc(bytes)
	if err != nil {
		return 0, err
	}
	c.own(m.Free)
	return m.Ptr, nil
}

// pinned returns memory of the host that the GPU copies from and to by itself.
func (c *card) pinned(bytes int64) ([]byte, error) {
	p, err := c.Pinned(bytes)
	if err != nil {
		return nil, err
	}
	c.own(p.Free)
	return p.Data, nil
}

func (c *card) stream(p cuda.Priority) (*cuda.Stream, error) {
	s, err := c.Stream(p)
	if err == nil {
		c.own(s.Close)
	}
	return s, err
}

func (c *card) event(sleeping bool) (*cuda.Event, error) {
	e, err := c.Event(sleeping)
	if err == nil {
		c.own(e.Close)
	}
	return e, err
}

// gpuCopy is a parameter set's copy in the memory of a GPU.
type gpuCopy struct {
	card *card
	at   uint64

	mu    sync.Mutex
	holds uint64 // the Params.Writes of what it holds
	full  bool   // it holds something
	ahead bool   // the host's memory has something older
}

// address returns the address of p's parameters in the GPU's memory, up to date. Any number of
// goroutines may call it while nobody writes p.
func (c *card) address(p *nn.Params) (uint64, error) {
	own, _ := p.DeviceCopy().(*gpuCopy)
	if own == nil || own.card != c {
		var err error
		if own, err = c.adopt(p); err != nil {
			return 0, err
		}
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if !own.full || own.holds != p.Writes {
		if err := c.copying.Upload(own.at, graph.BytesOf(p.Raw())); err != nil {
			return 0, err
		}
		own.full, own.holds, own.ahead = true, p.Writes, false
	}
	return own.at, nil
}

// adopt gives p a copy on this card; what another card had of it is brought to the host first.
func (c *card) adopt(p *nn.Params) (*gpuCopy, error) {
	p.Host()
	at, err := c.memory(int64(4 * len(p.Raw())))
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if own, ok := p.DeviceCopy().(*gpuCopy); ok && own.card == c { // another goroutine came first
		return own, nil
	}
	own := &gpuCopy{card: c, at: at}
	p.SetDeviceCopy(own)
	return own, nil
}

// wrote counts a change of p's parameters that the GPU made.
func (c *gpuCopy) wrote(p *nn.Params) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Writes++
	c.full, c.holds, c.ahead = true, p.Writes, true
}

// Download brings the host's memory up to date. A lost GPU has nothing to download.
func (c *gpuCopy) Download(p *nn.Params) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead && c.card.copying.Download(graph.BytesOf(p.Raw()), c.at) == nil {
		c.ahead = false
	}
}

// CopyTo makes the copy of another set equal, if there is one and this one is newer than the host's
// memory.
func (c *gpuCopy) CopyTo(p *nn.Params) bool {
	to, _ := p.DeviceCopy().(*gpuCopy)
	if to == nil || to.card != c.card || to == c {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ahead || c.card.copying.Copy(to.at, c.at, int64(4*len(p.Raw()))) != nil || c.card.copying.Synchronize() != nil {
		return false
	}
	to.wrote(p)
	return true
}

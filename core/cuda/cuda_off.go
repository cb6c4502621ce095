//go:build !gpu || !cgo || !linux

package cuda

import "time"

// Built reports whether this build includes CUDA.
const Built = false

type (
	Device struct{}
	Memory struct {
		Ptr   uint64
		Bytes int64
	}
	Pinned   struct{ Data []byte }
	Function struct {
		Name                     string
		Regs, Shared, MaxThreads int
	}
	Stream struct{}
	Event  struct{}
	Graph  struct{ Nodes int }
)

func Devices() ([]Info, error)        { return nil, ErrNotBuilt }
func Open(index int) (*Device, error) { return nil, ErrNotBuilt }

func (d *Device) Info() Info                              { return Info{} }
func (d *Device) Lost() bool                              { return false }
func (d *Device) Eager() bool                             { return false }
func (d *Device) MemInfo() (free, total int64, err error) { return 0, 0, ErrNotBuilt }
func (d *Device) Alloc(bytes int64) (*Memory, error)      { return nil, ErrNotBuilt }
func (d *Device) Pinned(bytes int64) (*Pinned, error)     { return nil, ErrNotBuilt }
func (d *Device) Register(memory []byte) (*Pinned, error) { return nil, ErrNotBuilt }
func (d *Device) Function(name string) (*Function, error) { return nil, ErrNotBuilt }
func (d *Device) Stream(p Priority) (*Stream, error)      { return nil, ErrNotBuilt }
func (d *Device) Event(sleeping bool) (*Event, error)     { return nil, ErrNotBuilt }
func (d *Device) Close() error                            { return nil }

func (m *Memory) Free() {}
func (p *Pinned) Free() {}

func (s *Stream) Upload(to uint64, from []byte) error          { return ErrNotBuilt }
func (s *Stream) Download(to []byte, from uint64) error        { return ErrNotBuilt }
func (s *Stream) Copy(to, from uint64, bytes int64) error      { return ErrNotBuilt }
func (s *Stream) Zero(at uint64, bytes int64) error            { return ErrNotBuilt }
func (s *Stream) Launch(f *Function, l Launch) error           { return ErrNotBuilt }
func (s *Stream) Record(e *Event) error                        { return ErrNotBuilt }
func (s *Stream) Wait(e *Event) error                          { return ErrNotBuilt }
func (s *Stream) Synchronize() error                           { return ErrNotBuilt }
func (s *Stream) Capture(enqueue func() error) (*Graph, error) { return nil, ErrNotBuilt }
func (s *Stream) Replay(g *Graph, times int) error             { return ErrNotBuilt }
func (s *Stream) Close()                                       {}

func (e *Event) Done() (bool, error)                         { return false, ErrNotBuilt }
func (e *Event) Wait() error                                 { return ErrNotBuilt }
func (e *Event) Since(earlier *Event) (time.Duration, error) { return 0, ErrNotBuilt }
func (e *Event) Close()                                      {}

func (g *Graph) Close() {}

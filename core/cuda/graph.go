//go:build gpu && cgo && linux

package cuda

/*
#include "driver.h"
*/
import "C"

// Graph is captured work that one call enqueues. A graph contains the addresses of the memory that
// the work uses: do not free that memory before the graph is closed.
type Graph struct {
	Nodes int // kernels, copies and memsets

	gate
	device *Device
	handle C.CUgraphExec
}

// Capture returns the work that enqueue enqueues on the stream, as a graph. None of the work runs.
// Another stream joins the capture when it waits for an event of this stream; this stream must wait
// for an event of the other stream before enqueue returns.
func (s *Stream) Capture(enqueue func() error) (*Graph, error) {
	if err := s.use(); err != nil {
		return nil, err
	}
	err := s.device.check(C.paceline_cuda_capture_begin(s.device.ctx(), s.handle), "beginning a graph", "")
	s.release()
	if err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended { // enqueue panicked; without the end of the capture the stream is unusable
			s.end(nil, nil)
		}
	}()
	enqueued := enqueue()
	ended = true
	if enqueued != nil {
		s.end(nil, nil)
		return nil, enqueued
	}
	var handle C.CUgraphExec
	var nodes C.size_t
	if err := s.end(&handle, &nodes); err != nil {
		return nil, err
	}
	return &Graph{Nodes: int(nodes), gate: newGate(), device: s.device, handle: handle}, nil
}

// end ends a capture. It discards the graph if handle is nil.
func (s *Stream) end(handle *C.CUgraphExec, nodes *C.size_t) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	return s.device.check(C.paceline_cuda_capture_end(s.device.ctx(), s.handle, handle, nodes), "making a graph", "")
}

// Replay enqueues the graph `times` times, with one driver call each.
func (s *Stream) Replay(g *Graph, times int) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	if !g.enter() {
		return closed("CUDA graph")
	}
	defer g.leave()
	return s.device.check(C.paceline_cuda_replay(s.device.ctx(), s.handle, g.handle, C.int(times)), "replaying a graph", "")
}

// Close destroys the graph, after its replays that are in progress.
func (g *Graph) Close() {
	if g.shut() && g.device.use() == nil {
		g.device.check(C.paceline_cuda_graph_free(g.device.ctx(), g.handle), "closing a graph", "")
		g.device.leave()
	}
}

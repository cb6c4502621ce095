//go:build gpu && cgo && linux

package cuda

/*
#include "driver.h"
*/
import "C"

// Graph is work that was captured, and is enqueued by one call. It holds the addresses that
// were captured: the memory stays until it is closed.
type Graph struct {
	Nodes int // kernels, copies and the like

	gate
	device *Device
	at     C.CUgraphExec
}

// Capture returns as a graph what a function enqueues on the stream, and on other streams
// that wait for an event of it and whose events it waits for at the end. Nothing of it runs.
func (s *Stream) Capture(enqueue func() error) (*Graph, error) {
	if err := s.use(); err != nil {
		return nil, err
	}
	err := s.device.check(C.paceline_cuda_capture_begin(s.device.ctx(), s.at), "beginning a graph", "")
	s.done()
	if err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended { // enqueue panicked; a stream that captures is of no other use
			s.end(nil, nil)
		}
	}()
	enqueued := enqueue()
	ended = true
	if enqueued != nil {
		s.end(nil, nil)
		return nil, enqueued
	}
	var at C.CUgraphExec
	var nodes C.size_t
	if err := s.end(&at, &nodes); err != nil {
		return nil, err
	}
	return &Graph{Nodes: int(nodes), gate: newGate(), device: s.device, at: at}, nil
}

// end ends a capture; without a place for the graph, it is thrown away.
func (s *Stream) end(at *C.CUgraphExec, nodes *C.size_t) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	return s.device.check(C.paceline_cuda_capture_end(s.device.ctx(), s.at, at, nodes), "making a graph", "")
}

// Replay enqueues a graph so many times, one call of the driver each.
func (s *Stream) Replay(g *Graph, times int) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	if !g.enter() {
		return closed("CUDA graph")
	}
	defer g.leave()
	return s.device.check(C.paceline_cuda_replay(s.device.ctx(), s.at, g.at, C.int(times)), "replaying a graph", "")
}

// Close lets go of the graph; where it is running it is finished first.
func (g *Graph) Close() {
	if g.shut() && g.device.use() == nil {
		g.device.check(C.paceline_cuda_graph_free(g.device.ctx(), g.at), "closing a graph", "")
		g.device.leave()
	}
}

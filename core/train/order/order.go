package order

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/limits"
)

// Order is a recorded order. It never changes.
type Order struct {
	Fingerprint
	Shape
	data    []byte // the file
	visits  int64
	tracks  []track // of the learners
	stops   []stop
	writing recorder // continues the order
}

// track has the visits of a learner.
type track struct {
	legs    []legVisits
	numbers []int64 // of the visits
	rounds  int64   // after the last visit, up to the last stop
}

// legVisits has the visits of a leg. The last one of a track, and forgotten ones, may be
// incomplete.
type legVisits struct {
	rounds int64 // since the visit before
	before int64 // rounds of the legs before
	steps  int64 // T at the pull of shard 0; 0: not reached
	first  int   // index of its first visit in numbers
	visits int
	all    int // visits of a complete one
}

// stop is the end of a slice.
type stop struct {
	at           int64 // visits before it
	time         int64
	until, steps int64   // until is above steps if the slice was interrupted
	resets       int64   // how often T was set back before it
	rounds       []int64 // of each learner since its latest visit
}

// Limits of an order.
const (
	maxOrderBytes = 1 << 30
	// orderMemory is the memory of an Order for each byte of its file, at most: a stop of one byte a
	// learner has a word a learner, and the shortest leg is of three bytes. Lists that grow take twice
	// as much.
	orderMemory = 48
	maxVisits   = 1 << 40
	maxCount    = 1 << 52 // of steps and rounds
)

// The part of a checkpoint that holds the order of a race, as a file.
const orderPart = "order.bin"

// visitUnit is the time between two visits of a record.
const visitUnit = 1 << 20

// ReadOrder reads a file of an order, or the order in the checkpoint of a race.
func ReadOrder(path string) (*Order, error) {
	if in, err := checkpoint.Open(path); err == nil {
		defer in.Close()
		var o *Order
		part := checkpoint.Part{Name: orderPart, Version: 1, Read: func(r io.Reader, n int64) (adopt func(), err error) {
			o, err = readOrder(r, n)
			return nil, err
		}}
		if !in.Has(orderPart) {
			return nil, fmt.Errorf("order: %s: a checkpoint without a recorded order, must be one of schedule %q or %q that was saved with its experience", path, Race, Recorded)
		}
		if _, err := in.Load([]checkpoint.Part{part}); err != nil {
			return nil, fmt.Errorf("order: %w", err)
		}
		return o, nil
	}
	data, err := ReadFile(path, maxOrderBytes)
	if err == nil {
		var o *Order
		if o, err = ParseOrder(data); err == nil {
			return o, nil
		}
		err = fmt.Errorf("%s: %w", path, err)
	}
	return nil, fmt.Errorf("order: %w", err)
}

func readOrder(r io.Reader, n int64) (*Order, error) {
	if n > maxOrderBytes {
		return nil, fmt.Errorf("%d bytes, must be at most %d", n, maxOrderBytes)
	}
	if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("an order of %d bytes", n), Bytes: n}); err != nil {
		return nil, err
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	return ParseOrder(data)
}

// ParseOrder reads the bytes of a file of an order, which must not change afterwards.
func ParseOrder(data []byte) (*Order, error) {
	if !bytes.HasPrefix(data, []byte(orderMagic)) {
		_, _, err := CutHeader(data, orderMagic)
		return nil, err
	}
	end := len(data) - 4
	if end < len(orderMagic) || crc32.Checksum(data[:end], castagnoli) != binary.LittleEndian.Uint32(data[end:]) {
		return nil, fmt.Errorf("damaged: %d bytes do not have their checksum", len(data))
	}
	if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("an order of %d bytes", len(data)), Bytes: orderMemory * int64(len(data))}); err != nil {
		return nil, err
	}
	p := parser{Order: &Order{data: data}, data: data[:end]}
	if err := p.header(); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	for p.at < end {
		if err := p.entry(); err != nil {
			return nil, fmt.Errorf("damaged: byte %d: %w", p.at, err)
		}
	}
	for k := range p.tracks {
		p.tracks[k].rounds = p.since[k]
	}
	p.writing.data, p.writing.visits = slices.Clip(p.data), p.visits
	return p.Order, nil
}

// parser reads an order, and does with writing what a recorder did.
type parser struct {
	*Order
	data []byte // without the checksum
	at   int
	// since counts the rounds since a learner's latest visit.
	since []int64
	gates []int64 // how often a learner has pushed to all shards
}

// number reads a number of lo to hi.
func (p *parser) number(what string, lo, hi uint64) (uint64, error) {
	n, size := binary.Uvarint(p.data[p.at:])
	if size <= 0 {
		return 0, fmt.Errorf("%s is cut off", what)
	}
	if n < lo || n > hi {
		return 0, fmt.Errorf("%s is %d, must be %d to %d", what, n, lo, hi)
	}
	p.at += size
	return n, nil
}

func (p *parser) header() (err error) {
	var rest []byte
	if p.Fingerprint, rest, err = CutHeader(p.data, orderMagic); err != nil {
		return err
	}
	p.at = len(p.data) - len(rest)
	var v [4]uint64
	for i, f := range []struct {
		name   string
		lo, hi uint64
	}{{"learners", 1, MaxLearners}, {"shards", 1, MaxShards}, {"steps of a round", 1, maxSteps}, {"flags", 0, flagBarrier}} {
		n, err := p.number(f.name, f.lo, f.hi)
		if err != nil {
			return err
		}
		v[i] = n
	}
	p.Shape = Shape{int(v[0]), int(v[1]), int(v[2]), v[3]&flagBarrier != 0}
	p.tracks, p.since, p.gates = make([]track, p.Learners), make([]int64, p.Learners), make([]int64, p.Learners)
	p.writing = newRecorder(p.Fingerprint, p.Shape)
	return nil
}

func (p *parser) entry() error {
	learners := uint64(p.Learners)
	code, err := p.number("entry", 0, learners+1)
	switch {
	case err != nil:
		return err
	case code == 0:
		return p.stop()
	case code == learners+1:
		k, err := p.number("learner", 0, learners-1)
		if err == nil {
			err = p.forget(int(k))
		}
		return err
	}
	return p.visit(int(code) - 1)
}

func (p *parser) forget(k int) error {
	done := p.writing.places[k].done
	if done == 0 {
		return fmt.Errorf("learner %d has no visits to forget", k)
	}
	p.writing.places[k] = place{}
	if done < p.Shards {
		p.gates[k]++
	}
	most := slices.Max(p.gates) // pushes that were forgotten are not waited for
	for j := range p.gates {
		p.gates[j] = most
	}
	return nil
}

func (p *parser) visit(k int) error {
	t, at := &p.tracks[k], &p.writing.places[k]
	if p.visits == maxVisits {
		return fmt.Errorf("more than %d visits", int64(maxVisits))
	}
	if at.done == 0 {
		h, err := p.number("rounds before a visit", 0, 2*maxCount)
		if err != nil {
			return err
		}
		rounds := int64(h / 2)
		if at.all = p.Shape.visits(h); p.Barrier && at.all == p.Shards {
			return fmt.Errorf("learner %d pulls without a push, must push where pulls wait for all learners", k)
		}
		if rounds < p.since[k] {
			return fmt.Errorf("learner %d has %d rounds before a visit, must be at least the %d at the stop before", k, rounds, p.since[k])
		}
		s := legVisits{rounds: rounds, first: len(t.numbers), all: at.all}
		if n := len(t.legs); n > 0 {
			s.before = t.legs[n-1].before + t.legs[n-1].rounds
		}
		if s.before+rounds > maxCount {
			return fmt.Errorf("learner %d has more than %d rounds", k, int64(maxCount))
		}
		t.legs = append(t.legs, s)
	}
	s := &t.legs[len(t.legs)-1]
	if p.firstPull(*at) {
		steps, err := p.number("T at a pull", 0, maxCount)
		if err != nil {
			return err
		}
		if p.writing.steps += int64(steps); p.writing.steps > maxCount {
			return fmt.Errorf("T is %d, must be at most %d", p.writing.steps, int64(maxCount))
		}
		s.steps = p.writing.steps
	}
	if p.Barrier && at.done == p.Shards {
		for j, n := range p.gates {
			if n < p.gates[k] {
				return fmt.Errorf("learner %d pulls before learner %d has pushed", k, j)
			}
		}
	}
	t.numbers = append(t.numbers, p.visits)
	s.visits++
	p.visits++
	if at.next(); p.Barrier && s.visits == p.Shards {
		p.gates[k]++
	}
	p.since[k] = 0
	return nil
}

func (p *parser) stop() error {
	s := stop{at: p.visits, time: p.visits*visitUnit + visitUnit/2}
	last := stop{at: -1}
	if n := len(p.stops); n > 0 {
		last = p.stops[n-1]
	}
	if last.at == s.at {
		if s.time = last.time + 1; s.time == (p.visits+1)*visitUnit {
			return fmt.Errorf("more than %d stops between two visits", visitUnit/2)
		}
	}
	steps, err := p.number("T at a stop", 0, maxCount)
	if err != nil {
		return err
	}
	over, err := p.number("steps of a stop after until", 0, steps+1)
	if err != nil {
		return err
	}
	s.steps, s.until = int64(steps), int64(steps+1-over)
	if s.resets = last.resets; s.steps < last.steps {
		s.resets++
	}
	if len(p.data)-p.at < p.Learners {
		return fmt.Errorf("a stop is cut off")
	}
	s.rounds = make([]int64, p.Learners)
	for k := range s.rounds {
		n, err := p.number("rounds before a stop", uint64(p.since[k]), maxCount)
		if err != nil {
			return err
		}
		s.rounds[k] = int64(n)
	}
	copy(p.since, s.rounds)
	p.writing.steps = s.steps
	p.stops = append(p.stops, s)
	return nil
}

// fits refuses an order of another shape, or to repeat that of a run with other settings.
func (o *Order) fits(c *Config) error {
	if c.Schedule == Recorded {
		if err := c.Fingerprint.Fits(o.Fingerprint); err != nil {
			return fmt.Errorf("order: %w", err)
		}
	}
	for _, v := range []struct {
		name      string
		own, want int
	}{{"learners", o.Learners, c.Learners}, {"shards", o.Shards, c.Shards}, {"environments of a learner", o.Steps, c.Steps}} {
		if v.own != v.want {
			return fmt.Errorf("order: %s: the record has %d, this run has %d", v.name, v.own, v.want)
		}
	}
	if o.Barrier != c.Barrier {
		return fmt.Errorf("order: recorded with another rule, must be the mean of all learners in both or in neither")
	}
	return nil
}

package ga3c

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/order"
)

// The text of an order, the events of a run in their order:
//
//	magic, fingerprint, flag, entries, CRC-32C of all before it (4 bytes)
//
// The fingerprint is that of core/train/order. Numbers are unsigned varints of encoding/binary. An
// entry is one event: twice its number, plus 1 if it is the last event of its instant. Events are
// numbered by trainers (their updates), then agents (their steps), then predictors (the ends of
// their predictions), then the tuner, after whose number come the numbers of active predictors,
// trainers and agents from then on. Which agents a predictor takes, and which segments a trainer
// takes, follows from the events before. The flag is 1 if the race was interrupted after its last
// event, before anything else began, and 0 otherwise.
const orderMagic = "paceline ga3c order 3\n"

// Limits of an order.
const (
	maxOrderBytes = 1 << 30
	orderPart     = "order.bin"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// orderShape is what gives the events their numbers.
type orderShape struct{ trainers, agents, predictors int }

func (c *Config) orderShape() orderShape { return orderShape{c.Trainers, c.NumEnvs, c.Predictors} }

// orderOf is what the orders of a run begin with.
type orderOf struct {
	orderShape
	fingerprint order.Fingerprint
	repeats     bool // a record must be that of a run with the same settings
}

// shapeNames name the settings of orderShape.
var shapeNames = []string{"num_envs", "predictors", "trainers"}

// recordedBy are settings of the tuner that a record makes irrelevant, because it has the
// decisions. The form of the tuner says whether a run begins with tuner_start.
var recordedBy = []string{"tuner_period", "tuner_pairs", "tuner_test"}

func (m *GA3C) orderOf(s *train.Setup) orderOf {
	return orderOf{m.cfg.orderShape(), s.Fingerprint(recordedBy...), m.cfg.Schedule == string(order.Recorded)}
}

// number returns the number of an event.
func (s orderShape) number(e event) uint64 {
	switch e.kind {
	case updated:
		return uint64(e.k)
	case stepped:
		return uint64(s.trainers + e.k)
	case predicted:
		return uint64(s.trainers + s.agents + e.k)
	default:
		return uint64(s.trainers + s.agents + s.predictors)
	}
}

// event returns the event with a number.
func (s orderShape) event(number uint64) (e event, ok bool) {
	n := int(min(number, uint64(s.trainers+s.agents+s.predictors+1)))
	switch {
	case n < s.trainers:
		return event{updated, n}, true
	case n < s.trainers+s.agents:
		return event{stepped, n - s.trainers}, true
	case n < s.trainers+s.agents+s.predictors:
		return event{predicted, n - s.trainers - s.agents}, true
	case n == s.trainers+s.agents+s.predictors:
		return event{kind: tuned}, true
	}
	return event{}, false
}

// counts reads counts from the beginning of entries, and returns their bytes.
func (s orderShape) counts(entries []byte) (c counts, size int, ok bool) {
	for _, to := range []*int{&c.Predictors, &c.Trainers, &c.Agents} {
		n, bytes := binary.Uvarint(entries[size:])
		if bytes <= 0 || n > 1<<16 {
			return c, size, false
		}
		*to = int(n)
		size += bytes
	}
	return c, size, c.within(counts{s.predictors, s.trainers, s.agents})
}

// recorder writes an order.
type recorder struct {
	orderOf
	entries []byte
	halted  bool // the race was interrupted after its last event, before anything else began
}

// add adds an event. active is for those of the tuner.
func (r *recorder) add(e event, last bool, active counts) {
	code := 2 * r.number(e)
	if last {
		code++
	}
	r.entries = binary.AppendUvarint(r.entries, code)
	if e.kind == tuned {
		for _, n := range []int{active.Predictors, active.Trainers, active.Agents} {
			r.entries = binary.AppendUvarint(r.entries, uint64(n))
		}
	}
}

// file returns the order as a file.
func (r *recorder) file() []byte {
	flag := byte(0)
	if r.halted {
		flag = 1
	}
	text := append(append(r.fingerprint.Header(orderMagic), flag), r.entries...)
	return binary.LittleEndian.AppendUint32(text, crc32.Checksum(text, castagnoli))
}

// parse returns the recorder of a file of an order that fits the run.
func (s orderOf) parse(text []byte) (*recorder, error) {
	if !bytes.HasPrefix(text, []byte(orderMagic)) {
		_, _, err := order.CutHeader(text, orderMagic)
		return nil, err
	}
	end := len(text) - 4
	if end < len(orderMagic) || crc32.Checksum(text[:end], castagnoli) != binary.LittleEndian.Uint32(text[end:]) {
		return nil, fmt.Errorf("damaged: %d bytes do not have their checksum", len(text))
	}
	record, rest, err := order.CutHeader(text[:end], orderMagic)
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if s.repeats {
		err = s.fingerprint.Fits(record)
	} else {
		err = s.fingerprint.Only(shapeNames...).Fits(record.Only(shapeNames...))
	}
	if err != nil {
		return nil, err
	}
	s.fingerprint = s.fingerprint.Continued(record)
	if len(rest) == 0 || rest[0] > 1 {
		return nil, errors.New("damaged: the flag must be 0 or 1")
	}
	halted, rest := rest[0] == 1, rest[1:]
	for at := 0; at < len(rest); {
		code, size := binary.Uvarint(rest[at:])
		e, ok := s.event(code / 2)
		if size <= 0 || !ok {
			return nil, fmt.Errorf("damaged: byte %d is no event", at)
		}
		if at += size; e.kind == tuned {
			_, size, ok := s.counts(rest[at:])
			if !ok {
				return nil, fmt.Errorf("damaged: byte %d is not the numbers of predictors, trainers and agents", at)
			}
			at += size
		}
	}
	return &recorder{s, slices.Clip(rest), halted}, nil
}

// read reads a file of an order, or the order in a checkpoint.
func (s orderOf) read(path string) (o *recorder, err error) {
	if in, err := checkpoint.Open(path); err == nil {
		defer in.Close()
		if !in.Has(orderPart) {
			return nil, fmt.Errorf("order: %s: a checkpoint without a recorded order, must be one of schedule %q or %q that was saved with its experience", path, order.Race, order.Recorded)
		}
		part := checkpoint.Part{Name: orderPart, Version: 1, Read: func(r io.Reader, n int64) (func(), error) {
			o, err = s.readPart(r, n)
			return nil, err
		}}
		if _, err := in.Load([]checkpoint.Part{part}); err != nil {
			return nil, fmt.Errorf("order: %w", err)
		}
		return o, nil
	}
	text, err := order.ReadFile(path, maxOrderBytes)
	if err == nil {
		if o, err = s.parse(text); err == nil {
			return o, nil
		}
		err = fmt.Errorf("%s: %w", path, err)
	}
	return nil, fmt.Errorf("order: %w", err)
}

func (s orderOf) readPart(r io.Reader, n int64) (*recorder, error) {
	if n > maxOrderBytes {
		return nil, fmt.Errorf("%d bytes, must be at most %d", n, maxOrderBytes)
	}
	if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("an order of %d bytes", n), Bytes: n}); err != nil {
		return nil, err
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	return s.parse(text)
}

// orderParts is the part of an order: of a race so far, or the whole order that is repeated. A race
// that continues a run without an order has none. A race that continues a repeated order has what
// was repeated.
func (m *GA3C) orderParts(saving bool, staged *savedEvents) []checkpoint.Part {
	if m.cfg.Schedule == string(order.Virtual) {
		return nil
	}
	p := checkpoint.Part{Name: orderPart, Version: 1, Optional: true}
	repeats := m.cfg.Schedule == string(order.Recorded)
	if saving && (repeats || m.recorder != nil) {
		p.Write = func(w io.Writer) error { _, err := w.Write(m.Order()); return err }
	}
	if repeats { // the setting has named the order
		return []checkpoint.Part{p}
	}
	p.Read = func(r io.Reader, n int64) (func(), error) {
		if r == nil {
			return func() {
				m.recorder = nil
				if m.clock.Steps == 0 {
					m.recorder = &recorder{orderOf: m.orders}
				}
			}, nil
		}
		o, err := m.orders.readPart(r, n)
		if err == nil && staged.Position > int64(len(o.entries)) {
			err = fmt.Errorf("%d bytes of events, must be at least %d", len(o.entries), staged.Position)
		}
		if err != nil {
			return nil, checkpoint.Damaged(fmt.Errorf("order: %w", err))
		}
		o.halted = o.halted && staged.Position == int64(len(o.entries))
		o.entries = slices.Clip(o.entries[:staged.Position])
		return func() { m.recorder = o }, nil
	}
	return []checkpoint.Part{p}
}

// Order implements train.Ordered: of a race so far, or the order that is repeated.
func (m *GA3C) Order() []byte {
	if r, ok := m.pace.(*recorded); ok {
		return (&recorder{m.orders, r.entries, r.halted}).file()
	}
	if m.recorder == nil {
		return nil
	}
	return m.recorder.file()
}

// setPace makes the pace of the schedule.
func (m *GA3C) setPace() error {
	c := &m.cfg
	switch order.Schedule(c.Schedule) {
	case order.Race:
		m.pace, m.recorder = newRace(m.tasks), &recorder{orderOf: m.orders}
	case order.Recorded:
		o, err := m.orders.read(c.Order)
		if err != nil {
			return err
		}
		m.pace = &recorded{shape: o.orderShape, entries: o.entries, halted: o.halted, steps: func() int64 { return m.clock.Steps }}
	default:
		latency := c.Latency
		if err := latency.open(); err != nil {
			return err
		}
		m.pace = newVirtual(c, latency)
	}
	return nil
}

// follows returns an error if no event of a recorded order was repeated and steps of the run have
// ended: a checkpoint was loaded without its experience. An order begins at step 0.
func (m *GA3C) follows() error {
	if r, ok := m.pace.(*recorded); ok && r.at == 0 && m.clock.Steps > int64(m.moves) {
		return order.BeginsElsewhere(0, m.clock.Steps)
	}
	return nil
}

// position returns how many bytes of entries the run has written or repeated.
func (m *GA3C) position() int64 {
	if r, ok := m.pace.(*recorded); ok {
		return int64(r.at)
	}
	if m.recorder != nil {
		return int64(len(m.recorder.entries))
	}
	return 0
}

// seek continues a recorded order at a position.
func (m *GA3C) seek(position int64) {
	if r, ok := m.pace.(*recorded); ok {
		r.at = int(min(position, int64(len(r.entries))))
	}
}

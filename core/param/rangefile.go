package param

import (
	"bytes"
	"fmt"
	"io"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/nn"
)

// kindRange is the kind of a Range's file.
const kindRange = "store"

// rangeContent is the manifest of a Range's file.
type rangeContent struct {
	First        int64       `json:"first"`
	Size         int64       `json:"size"`
	MaxStaleness int64       `json:"max_staleness"`
	Optimizer    optimizerOf `json:"optimizer"`
}

// optimizerOf is an nn.OptimizerConfig in a file.
type optimizerOf struct {
	Name         string  `json:"name"`
	Eps          float64 `json:"eps"`
	Decay        float64 `json:"decay"`
	Beta1        float64 `json:"beta1"`
	Beta2        float64 `json:"beta2"`
	Centered     bool    `json:"centered"`
	EpsInside    bool    `json:"eps_inside"`
	FirstAverage float64 `json:"first_average"`
}

// Names of the parts of a Range's file, besides those of a Store.
const (
	partParameters = "parameters"
	partLedgers    = "ledgers.json"
)

// savedLedgers is part "ledgers".
type savedLedgers struct {
	Refused    uint64   `json:"refused"`
	Duplicates uint64   `json:"duplicates"`
	Learners   []Ledger `json:"learners"`
}

// maxLedgers is the largest size of part "ledgers".
const maxLedgers = MaxLearners * (200 + 80*Window)

// Save writes the Range to a file: the parameters, the state of the optimiser, the version and the
// ledgers. A failure does not change an older file at path. Pushes and pulls wait.
func (r *Range) Save(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return checkpoint.Save(path, kindRange, r.content(), r.parts())
}

// Bytes returns the bytes that Save would write.
func (r *Range) Bytes() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return checkpoint.SaveBytes(kindRange, r.content(), r.parts())
}

// LoadRange returns the Range of a file of Save. The file is untrusted: LoadRange checks all of it,
// and the size of the file bounds the memory.
func LoadRange(path string) (*Range, error) {
	in, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	return loadRange(path, in)
}

// RangeFromBytes is LoadRange of the bytes of a file.
func RangeFromBytes(b []byte) (*Range, error) {
	in, err := checkpoint.OpenBytes(b)
	if err != nil {
		return nil, err
	}
	return loadRange("bytes", in)
}

func loadRange(name string, in *checkpoint.Reader) (*Range, error) {
	defer in.Close()
	if in.Kind() != kindRange {
		return nil, fmt.Errorf("%s: kind: %q, must be %q", name, in.Kind(), kindRange)
	}
	var c rangeContent
	if err := in.Content(&c); err != nil {
		return nil, err
	}
	if have := in.Length(partParameters + ".safetensors"); c.Size < 1 || c.Size > have/4 {
		return nil, fmt.Errorf("%s: %w: %d parameters in a part of %d bytes", name, checkpoint.ErrFormat, c.Size, have)
	}
	r, err := newRange(c.Size, RangeOptions{c.First, nn.OptimizerConfig(c.Optimizer), c.MaxStaleness})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, checkpoint.Damaged(err))
	}
	adopt, err := in.Load(r.parts())
	if err != nil {
		return nil, err
	}
	adopt()
	return r, nil
}

func (r *Range) content() rangeContent {
	rule := &r.store.rule
	return rangeContent{int64(r.first), int64(r.Size()), rule.MaxStaleness, optimizerOf(rule.Optimizer)}
}

// parts lists the parts of a file. The Range is locked, or no other goroutine has it.
func (r *Range) parts() []checkpoint.Part {
	var version uint64 // that of part "store", which is read before the ledgers
	parts := r.store.Parts(partParameters)
	counts := &parts[len(parts)-1]
	*counts = checkpoint.JSON(counts.Name, partBytes(1), r.store.save, func(from saved) (func(), error) {
		if err := r.store.checkSaved(&from); err != nil {
			return nil, err
		}
		version = from.Versions[0]
		return func() { r.store.adopt(&from) }, nil
	})
	save := func() (savedLedgers, error) { return savedLedgers{r.refused, r.duplicates, r.list()}, nil }
	ledgers := checkpoint.JSON(partLedgers, maxLedgers, save, func(from savedLedgers) (func(), error) {
		if err := from.check(version); err != nil {
			return nil, err
		}
		return func() {
			r.refused, r.duplicates = from.Refused, from.Duplicates
			clear(r.ledgers)
			for i := range from.Learners {
				r.ledgers[from.Learners[i].Learner] = from.Learners[i].ledger()
			}
		}, nil
	})
	ledgers.Read = few(ledgers.Read)
	return append(parts, ledgers)
}

// few refuses a list of more ledgers than a Range has before the list is decoded, which needs much
// more memory than its text.
func few(read func(io.Reader, int64) (func(), error)) func(io.Reader, int64) (func(), error) {
	return func(in io.Reader, n int64) (func(), error) {
		if n > maxLedgers {
			return nil, fmt.Errorf("%w: %d bytes, must be at most %d", checkpoint.ErrFormat, n, maxLedgers)
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		if learners := bytes.Count(text, []byte{'{'}) - 1; learners > MaxLearners {
			return nil, fmt.Errorf("%w: %d learners, must be at most %d", checkpoint.ErrFormat, learners, MaxLearners)
		}
		return read(bytes.NewReader(text), n)
	}
}

// check refuses ledgers that no Range of a version has.
func (s *savedLedgers) check(version uint64) error {
	applied, last := uint64(0), int64(-1)
	for i := range s.Learners {
		l := &s.Learners[i]
		if err := l.check(version); err != nil {
			return err
		}
		if l.Learner <= last {
			return fmt.Errorf("learner %d comes after learner %d", l.Learner, last)
		}
		last = l.Learner
		if applied += l.Applied; applied > version || l.Refused > s.Refused || l.Duplicates > s.Duplicates {
			return fmt.Errorf("learner %d: %d pushes applied, %d refused and %d duplicates, of %d, %d and %d in all", l.Learner, l.Applied, l.Refused, l.Duplicates, version, s.Refused, s.Duplicates)
		}
	}
	if max(s.Refused, s.Duplicates) > most {
		return fmt.Errorf("%d pushes refused and %d duplicates, must be at most %d", s.Refused, s.Duplicates, int64(most))
	}
	return nil
}

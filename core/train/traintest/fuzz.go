package traintest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/classic"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
)

// What comes of loading a file that was changed.
const (
	refused  = "refused"
	same     = "the same"
	another  = "another, which the file describes"
	diverges = "another, whose numbers overflow"
)

const (
	fuzzSaved = 451 // steps at which the run is saved, which is in the middle of things
	fuzzGoOn  = 300 // steps after a load
)

// free are the fields of which other values describe another run, as far as anybody can
// know from the file: settings, what was learnt and seen, states of streams and
// environments, schedules, and counts that nothing else in the file depends on.
var free = regexp.MustCompile(`^(paceline\.json:content.*|.*\.safetensors|replay\.bin.*|rollout\.bin.*|exploration\.json:streams\[\]|` +
	`environments\.json:(obs|returns\[\]|lengths\[\]|states\[\])|run\.json:recent\[\]\.return|` +
	`clock\.json:(replay_stream|schedule.*|clock\.learning_rate.*|clock\.(t|warmup|warm|copies|steps|epochs|rollouts))|entries, .*)$`)

// forgedCounts sets every count of a checkpoint to what no run has.
func forgedCounts(t *testing.T, s Subject) {
	path := filepath.Join(t.TempDir(), "a")
	tr := s.start(t, s.config(t), nil)
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(fuzzSaved, 0))
	check(t, tr.Save(path, true))
	want := s.digests(t, tr)
	file, err := os.ReadFile(path)
	check(t, err)
	f := takeApart(t, file)
	forged := 0
	for _, name := range []string{"run.json", "clock.json"} {
		for k := 0; ; k++ {
			data := maps.Clone(f.data)
			root := decode(data[name])
			var list []place
			places("", root, func(any) {}, func(p place) { list = append(list, p) })
			if k == len(list) {
				break
			}
			p := list[k]
			values := []any{json.Number("-88"), json.Number("4611686018427387904")}
			switch now, number := p.now.(json.Number); {
			case p.path == "begun":
				values = []any{false}
			case !number || strings.Contains(p.path, "return"):
				continue
			case strings.HasSuffix(p.path, "seed"): // which may be any
				values = values[:1]
			case p.path == "optimizer_step": // the number of updates
				n, err := now.Int64()
				check(t, err)
				values = append(values, n+1)
			}
			for _, value := range values {
				p.set(value)
				data[name] = encode(root)
				check(t, os.WriteFile(path, build(f.names, data), 0o600))
				forged++
				if err := tr.Load(path); !errors.Is(err, checkpoint.ErrFormat) {
					t.Errorf("%s, %s %v: %v", name, p.path, value, err)
				}
			}
		}
	}
	if got := s.digests(t, tr); got != want || forged < 20 {
		t.Errorf("%d forgeries; %s, before them %s", forged, got, want)
	}
}

// fuzzer loads changed files into runs.
type fuzzer struct {
	Subject
	*testing.T
	path       string
	good       []byte // the checkpoint
	now        string // digests at the checkpoint
	want       string // and after fuzzGoOn further steps
	acts       string // what its policy does
	inProgress *train.Trainer
	resident   int                       // kB that the process had at its most when this began
	counts     map[string]map[string]int // by kind and outcome
	slow       time.Duration
	large      uint64
}

// FuzzLoad loads files that were changed in one place, PACELINE_FUZZ_LOAD of them or a
// few: checkpoints, and one in ten a policy. Each gives an error sentence within
// a gigabyte, or what was saved. Where the checksums are right and the field is free, it may be
// what the file describes instead. A refused Load leaves the run that it was to be
// loaded into as it was.
func FuzzLoad(t *testing.T, s Subject) {
	n := Times(150, 40)
	if text := os.Getenv("PACELINE_FUZZ_LOAD"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		check(t, err)
	}
	// Forgets what tests before this one took; where it may not, that counts as there from the start.
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	f := &fuzzer{Subject: s, T: t, resident: mostResident(), path: filepath.Join(t.TempDir(), "a"), counts: map[string]map[string]int{}}
	tr, err := train.New(s.config(t, "env", "CartPole-v1"), nil)
	check(t, err)
	defer tr.Close()
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(fuzzSaved, 0))
	p, err := tr.Policy()
	check(t, err)
	small, err := p.Bytes()
	check(t, err)
	f.acts = f.act(p)
	check(t, tr.Save(f.path, true))
	f.good, err = os.ReadFile(f.path)
	check(t, err)
	f.now = s.digests(t, tr)
	check(t, tr.Run(fuzzGoOn, 0))
	f.want = s.digests(t, tr)
	f.inProgress = tr
	check(t, tr.Load(f.path))

	run, alone, r := takeApart(t, f.good), takeApart(t, small), rand.New(rand.NewPCG(uint64(n), 1))
	for i := range n {
		if i%10 == 9 {
			m := alone.mutate(r)
			f.policy(m, "a policy: "+m.kind)
		} else if m := run.mutate(r); !bytes.Equal(m.file, f.good) {
			f.run(m)
			f.policy(m, "a checkpoint, loaded as a policy")
		}
		if i%40 == 0 || i == n-1 {
			f.reload(i)
		}
	}
	f.print()
}

// run loads a checkpoint as hosts do, into a new trainer with the file's own settings, and
// into one in progress.
func (f *fuzzer) run(m mutant) {
	var tr *train.Trainer
	err := f.measured(m, func() error {
		c, err := train.LoadConfig(f.path)
		if err != nil {
			return err
		}
		if tr, err = train.New(c, nil); err != nil {
			return err
		}
		return tr.Load(f.path)
	})
	if tr != nil {
		defer tr.Close()
	}
	outcome := refused
	if err == nil {
		outcome = f.goOn(m, tr)
	}
	f.count(m, m.kind, outcome)
	into := f.measured(m, func() error { return f.inProgress.Load(f.path) })
	switch {
	case into == nil && err != nil && !strings.Contains(m.where, "settings"): // that run has its own
		f.fail(m, "loads into a run in progress, and not into a new one: %v", err)
	case into != nil:
		if got := f.digests(f, f.inProgress); got != f.now {
			f.fail(m, "%v, and the run in progress is %s, before %s", into, got, f.now)
		}
	}
	if into == nil {
		check(f, os.WriteFile(f.path, f.good, 0o600))
		check(f, f.inProgress.Load(f.path))
	}
}

// goOn takes further steps.
func (f *fuzzer) goOn(m mutant, tr *train.Trainer) (outcome string) {
	err := tr.Run(fuzzGoOn, time.Minute)
	if err == nil {
		err = tr.Settle(time.Minute)
	}
	if e := (*env.Error)(nil); errors.As(err, &e) && strings.Contains(m.where, "states") {
		f.sentence(m, err) // only the environment knows its state; it is reset
		err = tr.Run(fuzzGoOn, time.Minute)
	}
	switch {
	case errors.Is(err, fault.ErrNotFinite):
		f.sentence(m, err)
		return diverges
	case err != nil:
		f.fail(m, "loads, and fails then: %v", err)
	case f.digests(f, tr) == f.want:
		return same
	}
	return another
}

// policy loads a file as a policy. kind is for the table.
func (f *fuzzer) policy(m mutant, kind string) {
	var p *policy.Policy
	check(f, os.WriteFile(f.path, m.file, 0o600))
	err := f.measured(m, func() (err error) {
		p, err = policy.Load(f.path)
		return err
	})
	outcome := refused
	switch {
	case err != nil:
	case f.act(p) == f.acts:
		outcome = same
	default:
		outcome = another
	}
	f.count(m, kind, outcome)
}

// act says what a policy does in some states.
func (f *fuzzer) act(p *policy.Policy) string {
	const rows = 16
	obs, actions := make([]byte, rows*p.Spec().Obs.Bytes()), make([]int32, rows)
	r := rand.New(rand.NewPCG(1, 1))
	for k := 0; k+4 <= len(obs) && p.Spec().Obs.DType == env.Float32; k += 4 {
		binary.NativeEndian.PutUint32(obs[k:], math.Float32bits(2*r.Float32()-1))
	}
	values := make([][]float32, len(p.Outputs()))
	for k, out := range p.Outputs() {
		values[k] = make([]float32, rows*out.Len)
	}
	check(f, p.Act(rows, obs, nil, actions, values))
	return fmt.Sprint(actions, values)
}

// measured writes the file and fails where a call takes more than a gigabyte, or its
// error is no sentence.
func (f *fuzzer) measured(m mutant, call func() error) error {
	check(f, os.WriteFile(f.path, m.file, 0o600))
	watch := time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("%v hangs", m)) })
	defer watch.Stop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	err := call()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	taken := after.TotalAlloc - before.TotalAlloc
	if taken > 1e9 {
		f.fail(m, "%d bytes: %v", taken, err)
	}
	f.slow, f.large = max(f.slow, took), max(f.large, taken)
	if err != nil {
		f.sentence(m, err)
	}
	return err
}

func (f *fuzzer) sentence(m mutant, err error) {
	var p *fault.Panic
	if errors.As(err, &p) {
		f.fail(m, "%v\n%s", err, p.Stack)
	}
	if text := err.Error(); text == "" || strings.Contains(text, "\n") || len(text) > 1000 {
		f.fail(m, "%q, must be a sentence", text)
	}
}

func (f *fuzzer) fail(m mutant, format string, args ...any) {
	f.Errorf("%v: %s", m, fmt.Sprintf(format, args...))
}

// count adds an outcome to the table, and fails where it must not be.
func (f *fuzzer) count(m mutant, kind, outcome string) {
	if (outcome == another || outcome == diverges) && !free.MatchString(m.where) {
		f.fail(m, "%s", outcome)
	}
	if f.counts[kind] == nil {
		f.counts[kind] = map[string]int{}
	}
	f.counts[kind][outcome]++
}

// reload looks whether the run in progress goes on as if nothing had been refused.
func (f *fuzzer) reload(i int) {
	check(f, f.inProgress.Run(fuzzGoOn, 0))
	if got := f.digests(f, f.inProgress); got != f.want {
		f.Errorf("after %d files that were refused: %s, undisturbed %s", i, got, f.want)
	}
	check(f, os.WriteFile(f.path, f.good, 0o600))
	check(f, f.inProgress.Load(f.path))
}

// print prints the table, and looks at the memory that the process took at its most.
func (f *fuzzer) print() {
	all := map[string]int{}
	row := func(kind string, n map[string]int) {
		f.Logf("%-48s %6d refused %6d the same %6d another %6d overflow", kind, n[refused], n[same], n[another], n[diverges])
	}
	for _, kind := range slices.Sorted(maps.Keys(f.counts)) {
		row(kind, f.counts[kind])
		for outcome, n := range f.counts[kind] {
			all[outcome] += n
		}
	}
	row("all", all)
	more := mostResident() - f.resident
	f.Logf("a load took at most %v and %d bytes; resident at most %d kB more", f.slow, f.large, more)
	if more > 1e6 {
		f.Errorf("%d kB resident more", more)
	}
}

// mostResident is how much memory the process had at its most, in kB; 0 where the
// system does not say.
func mostResident() (kB int) {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(after, &kB)
	return kB
}

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
	"github.com/paceline-rl/paceline/core/vec"
)

// The outcomes of loading a changed file.
const (
	refused   = "refused"
	sameRun   = "the same"
	otherRun  = "another run, which the file describes"
	overflows = "another run, with numbers that overflow"
)

const (
	fuzzSaved = 451 // number of steps before the save, in the middle of a rollout and of episodes
	fuzzMore  = 300 // number of steps after a load
)

// independent are the fields with values that no other field of the file determines: settings,
// parameters, experience, states of streams and environments, schedules and some counts. A file
// with another value in such a field is a valid file of another run.
var independent = regexp.MustCompile(`^(paceline\.json:content.*|.*\.safetensors|replay\.bin.*|priorities\.bin.*|rollout\.bin.*|segments\.bin.*|events\.json.*|exploration\.json:streams\[\]|` +
	`normalizer\.json:(obs|returns)\.(mean\[\]|var\[\]|count)|environments\.json:(obs|normal|discounted\[\]|returns\[\]|lengths\[\]|states\[\])|run\.json:(recent\[\]\.return|end)|` +
	`clock\.json:(replay_stream|schedule.*|clock\.learning_rate.*|clock\.(schedules\..*|written|seed|t|warmup|warm|copies|steps|epochs|rollouts))|entries, .*)$`)

// forgedCounts sets every count of a checkpoint to a value that is not possible. Every load must
// fail.
func forgedCounts(t *testing.T, s Subject) {
	path := filepath.Join(t.TempDir(), "a")
	tr := s.newTrainer(t, s.config(t), nil)
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(fuzzSaved, 0))
	check(t, tr.Save(path, true))
	want := s.digests(t, tr)
	file, err := os.ReadFile(path)
	check(t, err)
	f := parseArchive(t, file)
	forgeries := 0
	for _, name := range f.names {
		if name != "run.json" && !strings.HasSuffix(name, "clock.json") {
			continue
		}
		for k := 0; ; k++ {
			data := maps.Clone(f.data)
			root := decode(data[name])
			var list []jsonValue
			walkJSON("", root, func(any) {}, func(v jsonValue) { list = append(list, v) })
			if k == len(list) {
				break
			}
			v := list[k]
			forged := []any{json.Number("-88"), json.Number("4611686018427387904")}
			switch old, number := v.old.(json.Number); {
			case v.path == "begun":
				forged = []any{false}
			case !number || strings.Contains(v.path, "return"):
				continue
			case strings.HasSuffix(v.path, "seed"): // any positive number is possible
				forged = forged[:1]
			case v.path == "optimizer_step": // must be the number of updates
				n, err := old.Int64()
				check(t, err)
				forged = append(forged, n+1)
			}
			for _, value := range forged {
				v.set(value)
				data[name] = encode(root)
				check(t, os.WriteFile(path, build(f.names, data), 0o600))
				forgeries++
				if err := tr.Load(path); !errors.Is(err, checkpoint.ErrFormat) {
					t.Errorf("%s, %s %v: %v", name, v.path, value, err)
				}
			}
		}
	}
	if got := s.digests(t, tr); got != want || forgeries < 20 {
		t.Errorf("%d forgeries; %s, before them %s", forgeries, got, want)
	}
}

// fuzzer loads changed files.
type fuzzer struct {
	Subject
	*testing.T
	path         string
	good         []byte // the unchanged checkpoint
	savedDigests string // of the run at the checkpoint
	finalDigests string // of the run fuzzMore steps later
	savedActions string // of the policy at the checkpoint
	inProgress   *train.Trainer
	resident     int                       // peak memory of the process before the test, in kB
	counts       map[string]map[string]int // by kind and outcome
	slowest      time.Duration             // of a load
	largest      uint64                    // bytes that a load allocated
}

// FuzzLoad loads files with a single change: checkpoints, and one in ten a policy. The number of
// files is PACELINE_FUZZ_LOAD, or small. A load must allocate at most a gigabyte and return an
// error of one sentence or the saved run. If the checksums are correct and the field is
// independent, it may also return the other run that the file describes. A load that fails must
// leave the trainer unchanged.
func FuzzLoad(t *testing.T, s Subject) {
	n := Times(150, 40)
	if text := os.Getenv("PACELINE_FUZZ_LOAD"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		check(t, err)
	}
	// Resets the peak memory of the process. Without permission the peak of earlier tests counts as
	// resident before this test.
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	f := &fuzzer{Subject: s, T: t, resident: peakResident(), path: filepath.Join(t.TempDir(), "a"), counts: map[string]map[string]int{}}
	folder := t.TempDir() // mutated settings may be names of files
	t.Chdir(folder)
	defer func() {
		if list := Must(os.ReadDir(folder))(t); len(list) > 0 {
			t.Errorf("loaded checkpoints wrote files: %v", list)
		}
	}()
	tr, err := train.New(s.config(t, "env", "CartPole-v1"), nil)
	check(t, err)
	defer tr.Close()
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(fuzzSaved, 0))
	p, err := tr.Policy()
	check(t, err)
	small, err := p.Bytes()
	check(t, err)
	f.savedActions = f.act(p)
	check(t, tr.Save(f.path, true))
	f.good, err = os.ReadFile(f.path)
	check(t, err)
	f.savedDigests = s.digests(t, tr)
	check(t, tr.Run(fuzzMore, 0))
	f.finalDigests = s.digests(t, tr)
	f.inProgress = tr
	check(t, tr.Load(f.path))

	run, alone, r := parseArchive(t, f.good), parseArchive(t, small), rand.New(rand.NewPCG(uint64(n), 1))
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

// run loads a checkpoint into a new trainer with the file's settings, as hosts do, and into a run
// in progress.
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
		outcome = f.continueRun(m, tr)
	}
	f.count(m, m.kind, outcome)
	inProgressErr := f.measured(m, func() error { return f.inProgress.Load(f.path) })
	switch {
	case inProgressErr == nil && err != nil && !strings.Contains(m.where, "settings"): // the run in progress has its own settings
		f.fail(m, "loads into a run in progress, and not into a new one: %v", err)
	case inProgressErr != nil:
		if got := f.digests(f, f.inProgress); got != f.savedDigests {
			f.fail(m, "%v, and the run in progress is %s, before %s", inProgressErr, got, f.savedDigests)
		}
	}
	if inProgressErr == nil {
		check(f, os.WriteFile(f.path, f.good, 0o600))
		check(f, f.inProgress.Load(f.path))
	}
}

// continueRun takes fuzzMore steps after a load.
func (f *fuzzer) continueRun(m mutant, tr *train.Trainer) (outcome string) {
	err := tr.Run(fuzzMore, time.Minute)
	if err == nil {
		err = tr.Settle(time.Minute)
	}
	if e := (*env.Error)(nil); errors.As(err, &e) && strings.Contains(m.where, "states") {
		f.sentence(m, err) // only the environment can check its state; the next Run resets it
		err = tr.Run(fuzzMore, time.Minute)
	}
	switch {
	case errors.Is(err, fault.ErrNotFinite):
		f.sentence(m, err)
		return overflows
	case err != nil:
		f.fail(m, "loads, and then fails: %v", err)
	case f.digests(f, tr) == f.finalDigests:
		return sameRun
	}
	return otherRun
}

// policy loads a file as a policy. kind is the row of the table.
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
	case f.act(p) == f.savedActions:
		outcome = sameRun
	default:
		outcome = otherRun
	}
	f.count(m, kind, outcome)
}

// act returns the actions and outputs of a policy for some observations.
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
	check(f, p.Act(rows, obs, nil, vec.Actions{Discrete: actions}, values))
	return fmt.Sprint(actions, values)
}

// measured writes the file and calls call, which must allocate at most a gigabyte. Its error must
// be one sentence.
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
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 1e9 {
		f.fail(m, "%d bytes: %v", allocated, err)
	}
	f.slowest, f.largest = max(f.slowest, took), max(f.largest, allocated)
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

// count adds an outcome to the table. It fails if the outcome is not allowed.
func (f *fuzzer) count(m mutant, kind, outcome string) {
	if (outcome == otherRun || outcome == overflows) && !independent.MatchString(m.where) {
		f.fail(m, "%s", outcome)
	}
	if f.counts[kind] == nil {
		f.counts[kind] = map[string]int{}
	}
	f.counts[kind][outcome]++
}

// reload checks that the failed loads have not changed the run in progress.
func (f *fuzzer) reload(i int) {
	check(f, f.inProgress.Run(fuzzMore, 0))
	if got := f.digests(f, f.inProgress); got != f.finalDigests {
		f.Errorf("after %d failed loads: %s, without them %s", i, got, f.finalDigests)
	}
	check(f, os.WriteFile(f.path, f.good, 0o600))
	check(f, f.inProgress.Load(f.path))
}

// print prints the table and checks the peak memory of the process.
func (f *fuzzer) print() {
	all := map[string]int{}
	row := func(kind string, n map[string]int) {
		f.Logf("%-48s %6d refused %6d the same %6d another %6d overflow", kind, n[refused], n[sameRun], n[otherRun], n[overflows])
	}
	for _, kind := range slices.Sorted(maps.Keys(f.counts)) {
		row(kind, f.counts[kind])
		for outcome, n := range f.counts[kind] {
			all[outcome] += n
		}
	}
	row("all", all)
	more := peakResident() - f.resident
	f.Logf("a load took at most %v and %d bytes; the peak memory grew by %d kB", f.slowest, f.largest, more)
	if more > 1e6 {
		f.Errorf("the peak memory grew by %d kB, must be at most 1000000", more)
	}
}

// peakResident returns the peak resident memory of the process in kB, 0 if it is unknown.
func peakResident() (kB int) {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(after, &kB)
	return kB
}

package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/policy"
)

// kindRun is the kind of a Trainer's checkpoint; that of a policy is policy.Kind.
const kindRun = "run"

// content is the manifest of a checkpoint.
type content struct {
	Method   string            `json:"method"`
	Settings map[string]string `json:"settings"`
	Policy   policy.Saved      `json:"policy"`
	// Lost is the error of a GPU that was lost. The file then has no experience, and is of an
	// earlier step than the run had reached.
	Lost string `json:"lost,omitempty"`
}

// savedRun is part "run": the Trainer's own counts.
type savedRun struct {
	Begun    bool      `json:"begun"`
	End      int64     `json:"end"`
	Halted   bool      `json:"halted"`
	Episodes int64     `json:"episodes"`
	Recent   []Episode `json:"recent"` // n episodes; episode e of the run is in slot e mod n
	Window   int64     `json:"window"` // the most episodes that Recent lists
	// Others are the steps of other learners, with updates from outside.
	Others int64 `json:"others,omitempty"`
}

// Save writes a checkpoint: parameters, optimiser, counts, random streams and schedules. With
// experience it also has everything else, so that a Trainer that loads it continues with the same
// bits as this one. The updates that are due are done first, but not after Stop. A failure does not
// change an older file at path. After the loss of a GPU the file has the state of the latest copy,
// without experience.
func (t *Trainer) Save(path string, experience bool) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if err := t.settleToRead(); err != nil {
		return err
	}
	parts := append([]checkpoint.Part{t.runPart()}, t.method.Parts(true)...)
	if err := t.device.Lost(); err != nil && t.lost == "" { // the device was lost while Parts read from it
		if err := t.restoreBackup(err); err != nil {
			return err
		}
		parts = append([]checkpoint.Part{t.runPart()}, t.method.Parts(true)...)
	}
	experience = experience && t.lost == ""
	parts = slices.DeleteFunc(parts, func(p checkpoint.Part) bool { return p.Write == nil || p.Optional && !experience })
	settings := t.cfg.Map()
	for _, name := range append([]string{"device"}, t.def.Placement...) {
		settings[name] = deviceAuto // the trainer that loads the file may have another device
	}
	return checkpoint.Save(path, kindRun, content{t.def.Name, settings, t.policy().Saved(), t.lost}, parts)
}

// SaveOrder writes the file of the order in which the learners of an asynchronous method have
// visited the store, after the updates that are due. The setting order of schedule "recorded" reads
// it. A failure does not change an older file at path.
func (t *Trainer) SaveOrder(path string) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if t.ordered == nil {
		if learners, err := t.cfg.Get("learners"); err == nil {
			return fmt.Errorf("order: learners is %s, must be at least 1 with schedule race or recorded", learners)
		}
		return fmt.Errorf("order: %s has one learner and no order, must be a method with the setting schedule", t.def.Name)
	}
	if err := t.settleToRead(); err != nil {
		return err
	}
	text := t.ordered.Order()
	if text == nil {
		schedule, _ := t.cfg.Get("schedule")
		if schedule == "race" {
			return errors.New("order: not recorded in a race that continues a checkpoint without an order, must continue a race that was saved with its experience")
		}
		return fmt.Errorf("order: not recorded with schedule %s, must be schedule race or recorded", schedule)
	}
	return checkpoint.WriteFile(path, text)
}

// SaveTrace writes the proposals of a method's tuner as comma-separated values, a header and a line
// for each, after the updates that are due. A failure does not change an older file at path.
func (t *Trainer) SaveTrace(path string) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if t.traced == nil {
		return fmt.Errorf("trace: %s adjusts nothing, must be a method with the setting tuner", t.def.Name)
	}
	if err := t.settleToRead(); err != nil {
		return err
	}
	text := t.traced.Trace()
	if text == nil {
		tuner, _ := t.cfg.Get("tuner")
		schedule, _ := t.cfg.Get("schedule")
		return fmt.Errorf("trace: nothing is adjusted with tuner %s and schedule %s, must be another tuner than none, schedule virtual or race, and environments that the trainer steps", tuner, schedule)
	}
	return checkpoint.WriteFile(path, text)
}

// runPart is the part of the Trainer's own counts.
func (t *Trainer) runPart() checkpoint.Part {
	m := t.monitor
	save := func() (savedRun, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		s := savedRun{Begun: t.begun, End: t.end, Halted: t.halted, Episodes: m.episodes, Others: t.others(true)}
		n, window := len(m.recent), int64(m.window)
		if n > 0 {
			s.Recent = rotated(m.recent, n-int(m.episodes%int64(n)))
		}
		if int64(n) < min(m.episodes, window) { // loaded from a file with a smaller window
			window = int64(n)
		}
		s.Window = window
		return s, nil
	}
	return checkpoint.JSON("run.json", 1<<20, save, func(s savedRun) (func(), error) {
		n := len(s.Recent)
		if s.End < 0 || s.End > maxEnd || s.Episodes > maxSteps || int64(n) != min(s.Episodes, s.Window) || s.Window < 0 || s.Window > maxStatsWindow ||
			s.Begun != (s.End > 0) || s.Others < 0 || s.Others > maxEnd || s.Others > 0 && t.external == nil ||
			slices.ContainsFunc(s.Recent, func(e Episode) bool { return e.Length < 1 || e.Length > maxSteps }) {
			return nil, fmt.Errorf("counts that no run has: begun %v, end %d, %d episodes, %d of them listed", s.Begun, s.End, s.Episodes, n)
		}
		return func() {
			t.begun, t.implied, t.end, t.halted = s.Begun, true, s.End, s.Halted
			t.needsReset, t.acted = t.source == nil, false
			if t.external != nil {
				t.external.others = s.Others
			}
			m.mu.Lock()
			m.episodes = s.Episodes
			m.recent = m.recent[:0]
			if n > 0 {
				latest := rotated(s.Recent, int(s.Episodes%int64(n)))
				m.recent = append(m.recent, latest[max(0, n-m.window):]...)
			}
			m.mu.Unlock()
		}, nil
	})
}

// rotated returns the elements from index at on, followed by those before it.
func rotated(list []Episode, at int) []Episode {
	return append(slices.Clone(list[at:]), list[:at]...)
}

// Load replaces the state by that of a checkpoint with the same environment and network. If the
// file has no experience, the trainer's experience is discarded, new episodes begin, and a warm-up
// comes before the next updates. num_envs may differ then; the trainer's own exploration streams
// continue. An error changes nothing.
func (t *Trainer) Load(path string) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	r, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	parts := t.method.Parts(false)
	envs, err := t.fits(r, t.def.Shape)
	if err == nil && envs != t.common.NumEnvs {
		parts, err = t.otherNumber(r, parts, envs)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	t.haltUpdates()
	t.monitor.Loading = envs
	adopt, err := r.Load(append([]checkpoint.Part{t.runPart()}, parts...))
	if err != nil {
		return err
	}
	adopt()
	if c := (content{}); r.Content(&c) == nil && c.Lost != "" {
		t.monitor.Notify("the checkpoint was made after a loss (%s); it is of step %d, the latest copy", c.Lost, t.monitor.Steps.Load())
	}
	return nil
}

// LoadExperience replaces the stored experience by that of a checkpoint and leaves everything else
// as it is. The networks may differ. Priorities of other settings are not loaded, and a notice says
// so. The next Begin, which must come before any step, cuts the episodes in progress.
func (t *Trainer) LoadExperience(path string) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	if err := t.settleToRead(); err != nil {
		return err
	}
	parts := slices.DeleteFunc(t.method.Parts(false), func(p checkpoint.Part) bool { return !p.Alone })
	if len(parts) == 0 {
		return fmt.Errorf("experience: %s to load; load reads the rest of the file", t.noReplay())
	}
	r, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	names := t.def.Experience
	if names == nil {
		names = t.def.Shape
	}
	envs, err := t.fits(r, names)
	if err == nil && envs != t.common.NumEnvs {
		err = t.otherEnvs(envs)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	t.haltUpdates()
	adopt, err := r.Load(parts)
	if err != nil {
		return err
	}
	adopt()
	t.needsReset, t.acted = true, false
	return nil
}

// otherNumber returns the parts that can be loaded from a file with another number of environments.
// Such a file must have no experience.
func (t *Trainer) otherNumber(r *checkpoint.Reader, parts []checkpoint.Part, envs int) ([]checkpoint.Part, error) {
	if slices.ContainsFunc(parts, func(p checkpoint.Part) bool { return p.Optional && r.Has(p.Name) }) {
		return nil, t.otherEnvs(envs)
	}
	return slices.DeleteFunc(parts, func(p checkpoint.Part) bool { return strings.HasSuffix(p.Name, actor.ExplorationPart) }), nil
}

func (t *Trainer) otherEnvs(envs int) error {
	return fmt.Errorf("num_envs: the checkpoint has \"%d\", this trainer has \"%d\", must be equal where experience is loaded; weights alone (set_parameters) fit any number", envs, t.common.NumEnvs)
}

// fits compares the settings called names, except num_envs, and the environments' spaces, and
// returns the num_envs of the file.
func (t *Trainer) fits(r *checkpoint.Reader, names []string) (envs int, err error) {
	cfg, c, err := configOf(r)
	if err != nil {
		return 0, err
	}
	envs = cfg.Common().NumEnvs
	if cfg.def != t.def {
		return 0, fmt.Errorf("method: the checkpoint has %q, this trainer has %q", cfg.def.Name, t.def.Name)
	}
	for _, name := range names {
		if name == "num_envs" {
			continue
		}
		saved, err := cfg.Get(name)
		if err != nil {
			return 0, err
		}
		own, _ := t.cfg.Get(name)
		if (name == "env" || name == "env_options") && (t.source == nil || cfg.Common().Env == "") {
			continue // the host's environments have no name; their observations are compared below
		}
		if own != saved && !(name == "env_options" && sameOptions(own, saved)) {
			return 0, fmt.Errorf("%s: the checkpoint has %q, this trainer has %q", name, saved, own)
		}
	}
	own := t.method.Policy().Saved()
	if c.Policy.Shape() != own.Shape() {
		return 0, fmt.Errorf("environment: the checkpoint has observations %s, this trainer %s", c.Policy.Shape(), own.Shape())
	}
	if name, saved, own := c.Policy.OtherBound(own); name != "" {
		return 0, fmt.Errorf("environment: the checkpoint has actions whose %s is %v, this trainer %v", name, saved, own)
	}
	return envs, nil
}

// sameOptions reports whether two values of env_options are equal, except "waits", on which no
// state depends.
func sameOptions(a, b string) bool {
	x, xerr := env.ParseOptions(a)
	y, yerr := env.ParseOptions(b)
	delete(x, "waits")
	delete(y, "waits")
	return xerr == nil && yerr == nil && maps.EqualFunc(x, y, func(v, w json.RawMessage) bool { return bytes.Equal(v, w) })
}

// configOf reads the settings of a run's checkpoint.
func configOf(r *checkpoint.Reader) (*Config, *content, error) {
	if r.Kind() != kindRun {
		return nil, nil, fmt.Errorf("kind: %q, must be %q; a policy can act but not go on learning", r.Kind(), kindRun)
	}
	var c content
	if err := r.Content(&c); err != nil {
		return nil, nil, err
	}
	cfg, err := NewConfig(c.Method)
	if err != nil {
		return nil, nil, err
	}
	// The order of the table makes errors reproducible.
	for i := range cfg.Table().Len() {
		s, err := cfg.Table().At(i)
		if err != nil {
			return nil, nil, err
		}
		if value, ok := c.Settings[s.Name]; ok {
			if err := cfg.Set(s.Name, value); err != nil {
				return nil, nil, err
			}
		}
	}
	return cfg, &c, nil
}

// LoadConfig returns the settings in a checkpoint, of the method that it names.
func LoadConfig(path string) (*Config, error) {
	r, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cfg, _, err := configOf(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

package param

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

// parts are those of a store and of its learners' local steps.
func parts(g *learners) []checkpoint.Part {
	list := g.store.Parts("policy")
	for _, l := range g.all {
		if l.local != nil {
			list = append(list, l.local.Parts("local-"+string(rune('a'+l.number)))...)
		}
	}
	return list
}

func write(t testing.TB, p checkpoint.Part) []byte {
	t.Helper()
	var b bytes.Buffer
	nntest.Check(t, p.Write(&b))
	return b.Bytes()
}

func read(p checkpoint.Part, b []byte) (func(), error) {
	return p.Read(bytes.NewReader(b), int64(len(b)))
}

// A run that is saved and loaded between any two visits is bit-identical to a run that was not.
func TestSavedInTheMiddle(t *testing.T) {
	const size, count, shards, visits = 101, 3, 3, 120
	for _, rule := range rulesOf() {
		want := newLearners(t, newStore(t, size, rule, shards), count)
		for range visits {
			want.visit(nil)
		}
		for _, at := range []int{0, 1, 17, 44, 45, 46, 119} {
			g := newLearners(t, newStore(t, size, rule, shards), count)
			for range at {
				g.visit(nil)
			}
			s := newStore(t, size, rule, shards)
			s.theta[3]++ // which the load overwrites
			rest := newLearners(t, s, count)
			rest.turns = g.turns
			saved, to := parts(g), parts(rest)
			for i := range saved {
				nntest.Must(read(to[i], write(t, saved[i])))(t)()
			}
			for k, l := range g.all { // what their owner saves
				local := rest.all[k].local
				*rest.all[k] = *l
				if rest.all[k].local = local; l.push.Local != nil {
					rest.all[k].push.Local = local
				}
			}
			for range visits - at {
				rest.visit(nil)
			}
			sameBits(t, rule.String(), s.theta, want.store.theta)
			for i, state := range s.state {
				sameBits(t, rule.String()+" "+state.Name, state.Data, want.store.state[i].Data)
			}
			for k, l := range rest.all {
				sameBits(t, rule.String()+" copy", l.theta.Host(), want.all[k].theta.Host())
			}
			for i := range parts(rest) {
				if !bytes.Equal(write(t, parts(rest)[i]), write(t, parts(want)[i])) {
					t.Fatalf("%v: part %s differs", rule, parts(rest)[i].Name)
				}
			}
			if s.Counts() != want.store.Counts() || s.params.Updates != want.store.params.Updates || s.params.Writes == 0 {
				t.Fatalf("%v: %+v, must be %+v", rule, s.Counts(), want.store.Counts())
			}
		}
	}
}

// Parts that are damaged, or of another store, are refused in a sentence and change nothing.
func TestPartsRefused(t *testing.T) {
	adam := nn.OptimizerConfig{Name: "adam"}
	rule := Rule{Name: RuleMultiStepAdam, Optimizer: adam}
	make1 := func(size int, rule Rule, shards int) *learners {
		return newLearners(t, newStore(t, size, rule, shards), 1)
	}
	g := make1(50, rule, 2)
	for range 5 {
		g.visit(nil)
	}
	files, before := map[string][]byte{}, map[string][]byte{}
	for _, p := range parts(g) {
		files[p.Name] = write(t, p)
	}
	target := make1(50, rule, 2)
	for range 9 {
		target.visit(nil)
	}
	for _, p := range parts(target) {
		before[p.Name] = write(t, p)
	}
	refused := func(to *learners, name string, file []byte, want string) {
		t.Helper()
		list := parts(to)
		p := list[slices.IndexFunc(list, func(p checkpoint.Part) bool { return p.Name == name })]
		if _, err := read(p, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	// Cut short.
	for name, file := range files {
		for n := 0; n < len(file)-1; n += 7 { // JSON ends with a newline
			refused(target, name, file[:n], "")
		}
	}
	// Changed.
	for _, c := range []struct{ name, from, to, want string }{
		{"store.json", `"rule":"multi_step_adam"`, `"rule":"gradient"`, `store: rule "gradient", must be "multi_step_adam"`},
		{"store.json", `"versions":[`, `"versions":[7,`, "store: 3 shards, must be 2"},
		{"store.json", `"pulls":[`, `"pulls":[9007199254740992,`, "store: 2 shards, must be 2"},
		{"store.json", `"versions":[2`, `"versions":[9007199254740992`, "store: a count of 9007199254740992, must be at most 2251799813685248"},
		{"store.json", `"versions":[2`, `"versions":[2000`, "store: version 2000 of shard 0 has"},
		{"store.json", `"steps":[`, `"steps":[-`, "store: version 2 of shard 0 has -"},
		{"store.json", `"refused"`, `"Refused"`, "not a whole checkpoint"},
		{"local-a.json", `"steps":[`, `"steps":[1,`, "local steps: 3 shards, must be 2"},
		{"local-a.json", `"steps":[`, `"steps":[-`, "local steps: step -"},
		{"local-a.json", `"next":1`, `"next":2`, "of which the next shard is 2 of 2"},
		{"local-a.json", `"n":`, `"n":-`, "local steps: -"},
	} {
		file := files[c.name]
		changed := bytes.Replace(file, []byte(c.from), []byte(c.to), 1)
		if bytes.Equal(file, changed) {
			t.Fatalf("%s has no %s: %s", c.name, c.from, file)
		}
		if strings.HasSuffix(c.from, `"pulls":[`) { // keeps the number of shards of the other lists
			refused(target, c.name, changed, "store: ")
			continue
		}
		refused(target, c.name, changed, c.want)
	}
	// Numbers that no run has.
	spoil := func(name, tensor string, value float32, want string) {
		other := make1(50, rule, 2)
		l := other.all[0].local
		map[string][]float32{"v": other.store.state[1].Data, "sum_g2": l.sumG2}[tensor][4] = value
		for _, p := range parts(other) {
			if p.Name == name {
				refused(target, name, write(t, p), want)
			}
		}
	}
	spoil("optimizer.safetensors", "v", -1, "v: number 4 is -1")
	spoil("local-a.safetensors", "sum_g2", -1, "sum_g2: number 4 is -1")
	// Of another store.
	refused(make1(50, rule, 3), "store.json", files["store.json"], "store: 2 shards, must be 3")
	refused(make1(50, rule, 3), "local-a.json", files["local-a.json"], "local steps: 2 shards, must be 3")
	refused(make1(51, rule, 2), "policy.safetensors", files["policy.safetensors"], "shape [50], must be [51]")
	refused(make1(51, rule, 2), "local-a.safetensors", files["local-a.safetensors"], "shape [50], must be [51]")
	refused(make1(50, Rule{Name: RuleGradient, Optimizer: adam}, 2), "store.json", files["store.json"], `store: rule "multi_step_adam", must be "gradient"`)
	refused(make1(50, Rule{Name: RuleGradient, Optimizer: nn.OptimizerConfig{Name: "rmsprop"}}, 2), "optimizer.safetensors", files["optimizer.safetensors"], `tensor "square_avg": missing`)
	single := make1(50, Rule{Name: RuleGradient, Optimizer: adam}, 1)
	single.visit(nil)
	refused(single, "store.json", bytes.Replace(write(t, single.store.Parts("policy")[2]), []byte(`"steps":[1]`), []byte(`"steps":[2]`), 1), "store: version 1 of shard 0 has 2 steps")
	for _, p := range parts(target) {
		if !bytes.Equal(write(t, p), before[p.Name]) {
			t.Errorf("%s has changed", p.Name)
		}
	}
	// The unchanged files are accepted.
	for _, p := range parts(target) {
		nntest.Must(read(p, files[p.Name]))(t)()
	}
	sameBits(t, "parameters", target.store.theta, g.store.theta)
}

// The parts of a store are a file that loads as a whole.
func TestPartsAreAFile(t *testing.T) {
	s := newStore(t, 40, Rule{Name: RuleMean, Optimizer: nn.OptimizerConfig{Name: "adam"}}, 2)
	m, r := nntest.Must(NewMean(s, 0))(t), rng.New(1, "test", 0)
	for range 3 {
		nntest.Must(m.Combine([]Contribution{{Grad: floats(r, 40), Rows: 1, Rate: 1e-2}}))(t)
	}
	file := nntest.Must(checkpoint.SaveBytes("run", nil, s.Parts("policy")))(t)
	to := newStore(t, 40, s.rule, 2)
	in := nntest.Must(checkpoint.OpenBytes(file))(t)
	adopt := nntest.Must(in.Load(to.Parts("policy")))(t)
	adopt()
	nntest.Check(t, in.Close())
	sameBits(t, "parameters", to.theta, s.theta)
	if to.Counts() != s.Counts() || to.params.Updates != 3 {
		t.Errorf("%+v and %d updates, must be %+v", to.Counts(), to.params.Updates, s.Counts())
	}
}

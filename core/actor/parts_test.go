package actor_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/vec"
)

// parts writes the two parts of a Group; read reads them into another Group.
func parts(t *testing.T, x *trial) [][]byte {
	t.Helper()
	var out [][]byte
	for _, p := range []checkpoint.Part{x.Exploration(), x.Environments(true)} {
		var b bytes.Buffer
		check(t, p.Write(&b))
		out = append(out, b.Bytes())
	}
	return out
}

func read(x *trial, data [][]byte) error {
	var adopts []func()
	for k, p := range []checkpoint.Part{x.Exploration(), x.Environments(false)} {
		adopt, err := p.Read(bytes.NewReader(data[k]), int64(len(data[k])))
		if err != nil {
			return err
		}
		adopts = append(adopts, adopt)
	}
	for _, f := range adopts {
		f()
	}
	return nil
}

// A Group that reads the parts of another continues with the same bits. A Group that refuses them
// continues unchanged.
func TestPartsContinueOrAreRefused(t *testing.T) {
	goOn := func(x *trial) journal {
		for k := range 30 {
			must(x.Round(int64(2*k), half(), false))(t)
		}
		return x.journal
	}
	a := newTrial(t, 2, 1, false)
	check(t, a.Reset())
	goOn(a)
	saved, obs := parts(t, a), slices.Clone(a.Obs())
	for i := range a.journal {
		a.journal[i] = []string{"what was before"}
	}
	want := goOn(a)

	b := newTrial(t, 2, 1, false)
	check(t, b.Reset())
	for i := range b.journal {
		b.journal[i] = []string{"what was before"}
	}
	check(t, read(b, saved))
	if !bytes.Equal(b.Obs(), obs) {
		t.Error("the observations differ from the written ones")
	}
	differ(t, "read", goOn(b), want)

	at := bytes.Index(saved[1], []byte(`","states"`))
	// the last component is NaN
	notFinite := slices.Concat(saved[1][:at-8], []byte("AADAfw=="), saved[1][at:])
	for k, bad := range [][][]byte{
		{[]byte(`{"streams":[]}`), saved[1]}, {[]byte(`{"streams":["AA==","AA=="]}`), saved[1]}, {saved[0], []byte(`{}`)},
		{saved[0], notFinite}, {saved[0], bytes.Replace(saved[1], []byte(`"lengths":[`), []byte(`"lengths":[-`), 1)},
		{saved[0], bytes.Replace(saved[1], []byte(`"states":["`), []byte(`"states":["AAAA`), 1)}, {saved[0][:10], saved[1]},
	} {
		c, d := newTrial(t, 2, 1, false), newTrial(t, 2, 1, false)
		for _, x := range []*trial{c, d} {
			check(t, x.Reset())
			goOn(x)
		}
		if err := read(c, bad); err == nil {
			t.Errorf("damage %d was read", k)
		}
		differ(t, fmt.Sprintf("damage %d", k), goOn(c), goOn(d))
	}

	// If the file is refused after this part, because of its checksum, the environments do not
	// change either.
	file, err := checkpoint.SaveBytes("run", nil, []checkpoint.Part{a.Environments(true)})
	check(t, err)
	first := bytes.Index(file, []byte(`"obs":"`)) + len(`"obs":"`)
	file[first] = map[bool]byte{true: 'A', false: 'B'}[file[first] != 'A'] // still valid base64
	e, f := newTrial(t, 2, 1, false), newTrial(t, 2, 1, false)
	for _, x := range []*trial{e, f} {
		check(t, x.Reset())
		goOn(x)
	}
	r := must(checkpoint.OpenBytes(file))(t)
	if _, err := r.Load([]checkpoint.Part{e.Environments(false)}); !errors.Is(err, checkpoint.ErrFormat) {
		t.Errorf("a wrong checksum: %v", err)
	}
	differ(t, "a wrong checksum", goOn(e), goOn(f))

	// An environment without a segment in the sink begins a new episode.
	c := newTrial(t, 2, 1, false)
	check(t, c.Reset())
	c.Cut(1)
	check(t, read(c, saved))
	check(t, c.Repair())
	for i, more := range []int{0, 3} { // two cuts and a begin
		if lines := c.journal[i]; len(lines) != 2+more || !strings.HasPrefix(lines[len(lines)-1], "begin") {
			t.Errorf("environment %d: %q", i, lines)
		}
	}

	// Without the part, Repair begins new episodes.
	adopt, err := b.Environments(false).Read(nil, 0)
	check(t, err)
	adopt()
	check(t, b.Repair())
	for i, lines := range b.journal {
		if !slices.Equal([]string{lines[len(lines)-2], lines[len(lines)-1][:5]}, []string{"cut", "begin"}) {
			t.Errorf("environment %d goes on with %q", i, lines[len(lines)-2:])
		}
	}
}

// failingSaves are environments whose Save fails.
type failingSaves struct {
	actor.Source
	err error
}

func (f failingSaves) Save(int) ([]byte, error) { return nil, f.err }

// Environments that fail to save make the file fail. Those that have no save are left out.
func TestAFailedSaveFailsTheFile(t *testing.T) {
	for _, err := range []error{errors.New("no disk"), vec.ErrNoSaver} {
		x := newTrial(t, 2, 1, false)
		check(t, x.Reset())
		x.Source = failingSaves{x.Source, fmt.Errorf("environment 1: %w", err)}
		p := x.Environments(true)
		if err == vec.ErrNoSaver {
			if p.Write != nil {
				t.Error("environments without save are written")
			}
			continue
		}
		if p.Write == nil || !errors.Is(p.Write(new(bytes.Buffer)), err) {
			t.Error("the error of a save is not that of the file")
		}
	}
}

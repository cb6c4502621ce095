package traintest

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/train"
)

// Kills kills processes at random moments while they save, with and without experience. The number
// of kills is PACELINE_KILLS, or small. After each kill the file loads and the run continues, and
// the next Save of any file in the folder removes the temporary file. The processes run the test
// called name, which must be the calling one.
func Kills(t *testing.T, s Subject, name string) {
	if path := os.Getenv("PACELINE_TEST_SAVES"); path != "" {
		tr, err := train.New(s.config(t, "env", "CartPole-v1", "num_threads", "1"), nil)
		check(t, err)
		check(t, tr.Begin(1<<40, 0))
		check(t, tr.Run(fuzzSaved, 0))
		for k := 0; ; k++ {
			check(t, tr.Run(1, 0))
			check(t, tr.Save(path, k%2 == 0))
			if k == 0 {
				os.Stdout.WriteString("saved\n")
			}
		}
	}
	n := Times(10, 4)
	if text := os.Getenv("PACELINE_KILLS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		check(t, err)
	}
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	r := rand.New(rand.NewPCG(9, 9))
	withExperience, abandoned := 0, 0
	for range n {
		child := exec.Command(os.Args[0], "-test.run=^"+name+"$")
		child.Env = append(os.Environ(), "PACELINE_TEST_SAVES="+path)
		out, err := child.StdoutPipe()
		check(t, err)
		check(t, child.Start())
		if _, err := out.Read(make([]byte, 6)); err != nil {
			t.Fatalf("the process that saves: %v", err)
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
		check(t, child.Process.Kill())
		child.Wait() // returns an error, because the process was killed
		abandoned += temporary(t, dir)

		c, err := train.LoadConfig(path)
		check(t, err)
		tr, err := train.New(c, nil)
		check(t, err)
		check(t, tr.Load(path))
		check(t, tr.Run(100, 0))
		file, err := os.ReadFile(path)
		check(t, err)
		if parseArchive(t, file).data["environments.json"] != nil {
			withExperience++
		}
		check(t, tr.Save(other, true))
		check(t, tr.Close())
		if k := temporary(t, dir); k > 0 {
			t.Fatalf("%d temporary files after the next Save", k)
		}
	}
	t.Logf("%d kills: %d files with experience, %d temporary files until the next Save", n, withExperience, abandoned)
}

// temporary counts the temporary files in a folder.
func temporary(t *testing.T, dir string) (n int) {
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			n++
		}
	}
	return n
}

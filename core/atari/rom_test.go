package atari

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
)

func write(t *testing.T, folder, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// noFolders removes all folders from the search during a test.
func noFolders(t *testing.T) {
	requireMachine(t)
	t.Setenv(ownVariable, "")
	t.Setenv(aleVariable, "")
	folders.Lock()
	kept := folders.list
	folders.list = nil
	folders.Unlock()
	t.Cleanup(func() {
		folders.Lock()
		folders.list = kept
		folders.Unlock()
	})
}

func mustSay(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: accepted", what)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q, must say %q", what, err, s)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %q is not one sentence", what, err)
	}
}

func TestFindROMNamesTheProblem(t *testing.T) {
	noFolders(t)
	folder := t.TempDir()
	image := tetrisImage()
	path := write(t, folder, "tetris.bin", image)
	const md5 = "b0e1ee07fbc73493eac5651a52f90f00"

	_, err := FindROM("tetris", "", false)
	mustSay(t, "no folder", err, "rom: tetris.bin", md5, "no folder is known", ownVariable)
	_, err = FindROM("tetris", path, false)
	mustSay(t, "another MD5", err, "rom: "+path+": another MD5 "+digest(image), "must be tetris.bin's, "+md5, "other_md5")
	if rom, err := FindROM("tetris", path, true); err != nil || rom.Game().ID != "tetris" || rom.MD5() != digest(image) {
		t.Errorf("another MD5, allowed: %v", err)
	}
	_, err = FindROM("tetris", filepath.Join(folder, "none.bin"), true)
	mustSay(t, "no such file", err, "rom: ", "none.bin")
	_, err = FindROM("tetris", folder, true)
	mustSay(t, "a folder", err, "rom: "+folder, "must be a file")
	for _, size := range []int{0, 1, 2047, 2049, 4095, 8191, 8193, 10494, 16383, 16385, 32768, 1 << 20} {
		_, err = FindROM("tetris", write(t, folder, "cut.bin", make([]byte, size)), true)
		mustSay(t, "a wrong size", err, "rom: "+filepath.Join(folder, "cut.bin")+": ", "2048, 4096, 8192, 10495 or 16384")
	}
	_, err = FindROM("tetris", write(t, folder, "large.bin", make([]byte, 1<<20+1)), true)
	mustSay(t, "a large file", err, "rom: ", "large.bin", "1048577 bytes")
	for _, game := range []string{"tetrus", "Tetris", "ale/tetris"} {
		_, err = FindROM(game, path, true)
		mustSay(t, "an unknown game", err, game, "did you mean tetris")
	}
	_, err = FindROM("zzzzzzzzzzzzzzzzzz", path, true)
	mustSay(t, "an unknown game without near names", err, "known games: adventure, air_raid")
	for _, game := range []string{"combat", "joust", "maze_craze", "warlords"} {
		_, err = FindROM(game, path, true)
		mustSay(t, "a game for two", err, game, "cannot be played")
	}
	if os.Geteuid() != 0 && runtime.GOOS == "linux" {
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		_, err = FindROM("tetris", path, true)
		mustSay(t, "a file that cannot be read", err, "rom: ", "permission denied")
	}
}

// The order is PACELINE_ROMS_DIR, ALE_ROMS_DIR, the folders of AddFolder. The error for a wrong
// file names the folder.
func TestFoldersAreSearchedInOrder(t *testing.T) {
	noFolders(t)
	var folder [4]string
	for i := range folder {
		folder[i] = t.TempDir()
		write(t, folder[i], "tetris.bin", make([]byte, 2048+i))
	}
	looked := func(want int) {
		t.Helper()
		_, err := FindROM("tetris", "", false)
		mustSay(t, "a wrong file", err, filepath.Join(folder[want], "tetris.bin"), "b0e1ee07")
	}
	AddFolder(folder[2])
	AddFolder(folder[3])
	AddFolder(folder[2])
	if got := searched(); len(got) != 2 {
		t.Errorf("%v are searched, want two folders", got)
	}
	looked(2)
	t.Setenv(aleVariable, folder[1])
	looked(1)
	t.Setenv(ownVariable, folder[0])
	looked(0)
	// A folder without the file is skipped. The error names all folders if none has the file.
	empty := t.TempDir()
	t.Setenv(ownVariable, empty)
	looked(1)
	_, err := FindROM("pong", "", false)
	mustSay(t, "in no folder", err, "rom: pong.bin", empty, folder[1], folder[3], "pip install ale-py")
	t.Setenv(ownVariable, filepath.Join(empty, "gone"))
	looked(1)
}

// A wrong file in one folder does not hide the right file in the next folder.
func TestWrongFileIsSkipped(t *testing.T) {
	noFolders(t)
	wrong, right := t.TempDir(), t.TempDir()
	image := tetrisImage()
	write(t, wrong, "tetris.bin", make([]byte, 2048))
	write(t, right, "tetris.bin", image)
	g, err := games.ByID("tetris")
	if err != nil {
		t.Fatal(err)
	}
	mine := &games.Game{ID: g.ID, File: g.File, MD5: digest(image), Scheme: games.Cart4K}
	if _, err := NewROM(make([]byte, 2048), mine, false); err == nil {
		t.Error("a wrong file was accepted")
	}
	rom, err := NewROM(image, mine, false)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := NewROM(image, mine, true); err != nil || again != rom {
		t.Errorf("the same bytes are not shared: %v", err)
	}
	t.Setenv(ownVariable, wrong)
	t.Setenv(aleVariable, right)
	_, err = FindROM("tetris", "", false) // both files are wrong; the error names the first
	mustSay(t, "two wrong files", err, wrong)
}

func TestOpenROMAndIdentify(t *testing.T) {
	noFolders(t)
	folder := t.TempDir()
	path := write(t, folder, "Tetris.BIN", tetrisImage())
	rom, err := OpenROM(path, true)
	if err != nil || rom.Game().ID != "tetris" {
		t.Errorf("by its name: %v", err)
	}
	_, err = OpenROM(write(t, folder, "mine.bin", tetrisImage()), true)
	mustSay(t, "an unknown name", err, "rom: ", "mine.bin", digest(tetrisImage()), "neither its MD5")
	_, err = OpenROM(write(t, folder, "pong.bin", make([]byte, 100)), true)
	mustSay(t, "a cut file", err, "pong.bin: 100 bytes")
	_, err = OpenROM(filepath.Join(folder, "none.bin"), true)
	mustSay(t, "no file", err, "rom: ", "none.bin")
	_, err = OpenROM(write(t, folder, "combat.bin", tetrisImage()), true)
	mustSay(t, "a game for two", err, "rom: ", "combat.bin")

	if id, err := Identify(path); id != "" || err != nil {
		t.Errorf("unknown bytes are identified as %q, %v", id, err)
	}
	if _, err := Identify(folder); err == nil {
		t.Error("a folder was identified")
	}
}

// The scheme of unknown bytes follows from their size and contents.
func TestSchemeIsGuessed(t *testing.T) {
	with := func(size int, at int, bytes string) []byte {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i)
		}
		copy(data[at:], bytes)
		return data
	}
	ram := func(size int) []byte {
		data := with(size, 0, "")
		for bank := 0; bank < size; bank += 4096 {
			clear(data[bank : bank+256])
		}
		return data
	}
	for _, c := range []struct {
		data []byte
		want games.Scheme
	}{
		{with(2048, 0, ""), games.Cart2K}, {with(4096, 0, ""), games.Cart4K}, {with(8192, 0, ""), games.F8},
		{with(8192, 5000, "\x8D\xE0\x1F"), games.E0}, {with(8192, 8189, "\xAD\xED\xFF"), games.E0},
		{with(8192, 100, "\x20\x00\xD0\xC6\xC5"), games.FE}, {ram(8192), games.F8SC}, {with(16384, 0, ""), games.F6},
		{ram(16384), games.F6SC}, {with(10495, 0, ""), games.DPC},
		{with(4096, 5, "\x8D\xE0\x1F"), games.Cart4K},
	} {
		if got, err := schemeOf(c.data); err != nil || got != c.want {
			t.Errorf("%d bytes: %v, %v, want %v", len(c.data), got, err, c.want)
		}
	}
}

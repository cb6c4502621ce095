package atari

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// ROM is a cartridge: its bytes, its game, and the state of a console that was turned on with it.
// Any number of consoles share a ROM.
type ROM struct {
	game      *games.Game
	md5       string
	cartridge *cartridge
	powerOn   atomic.Pointer[powerOnState] // nil until the first console is turned on
}

// Game returns the facts about the game.
func (r *ROM) Game() *games.Game { return r.game }

// MD5 returns the MD5 of the bytes, as 32 lower-case digits.
func (r *ROM) MD5() string { return r.md5 }

// Environment variables with a folder of ROM files. FindROM describes the order of the search.
const (
	ownVariable = "PACELINE_ROMS_DIR"
	aleVariable = "ALE_ROMS_DIR" // ale-py's own
)

var folders struct {
	sync.Mutex
	list []string
}

// AddFolder adds a folder to the search, such as that of an installed ale-py.
func AddFolder(folder string) {
	folders.Lock()
	defer folders.Unlock()
	if !slices.Contains(folders.list, folder) {
		folders.list = append(folders.list, folder)
	}
}

func searched() (list []string) {
	for _, variable := range []string{ownVariable, aleVariable} {
		if folder := os.Getenv(variable); folder != "" {
			list = append(list, folder)
		}
	}
	folders.Lock()
	defer folders.Unlock()
	return append(list, folders.list...)
}

// FindROM returns a game's cartridge. path is its file. With path "" FindROM searches the folder in
// PACELINE_ROMS_DIR, then the folder in ALE_ROMS_DIR, then the folders of AddFolder. It refuses a
// file whose MD5 is not the game's, unless otherMD5 is true.
func FindROM(game, path string, otherMD5 bool) (*ROM, error) {
	g, err := games.ByID(game)
	if err != nil {
		return nil, err
	}
	if path != "" {
		data, err := readROM(path)
		if err != nil {
			return nil, err
		}
		rom, err := newROMOf(path, data, g, otherMD5)
		if errors.Is(err, errOtherMD5) {
			err = fmt.Errorf("%w (other_md5 allows another one)", err)
		}
		return rom, err
	}
	var wrong error
	for _, folder := range searched() {
		data, err := readROM(filepath.Join(folder, g.File))
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && wrong == nil {
				wrong = err
			}
			continue
		}
		rom, err := newROMOf(filepath.Join(folder, g.File), data, g, otherMD5)
		if err == nil {
			return rom, nil
		}
		if wrong == nil {
			wrong = err
		}
	}
	if wrong != nil {
		return nil, wrong
	}
	where := "no folder is known"
	if list := searched(); len(list) > 0 {
		where = "not in " + strings.Join(list, ", ")
	}
	return nil, fmt.Errorf("rom: %s (MD5 %s) is missing, %s; install ale-py, which contains it (pip install ale-py), or set %s to a folder with the file",
		g.File, g.MD5, where, ownVariable)
}

// OpenROM returns the cartridge in a file and finds its game by MD5. If the MD5 is unknown and
// otherMD5 is true, it finds the game by the file's name ("tetris.bin"), as ale-py does.
func OpenROM(path string, otherMD5 bool) (*ROM, error) {
	data, err := readROM(path)
	if err != nil {
		return nil, err
	}
	if g := games.ByMD5(digest(data)); g != nil {
		if g, err = games.ByID(g.ID); err != nil {
			return nil, err
		}
		return newROMOf(path, data, g, true)
	}
	if !otherMD5 {
		return nil, fmt.Errorf("rom: %s, no supported game has its MD5 %s (other_md5 finds the game by the name of the file)", path, digest(data))
	}
	name := strings.ToLower(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	g, err := games.ByID(name)
	if err != nil {
		return nil, fmt.Errorf("rom: %s, neither its MD5 %s nor its name belongs to a supported game", path, digest(data))
	}
	return newROMOf(path, data, g, true)
}

// Identify returns the id of the game with the file's MD5, or "" if no playable game has it.
func Identify(path string) (string, error) {
	data, err := readROM(path)
	if err != nil {
		return "", err
	}
	if g := games.ByMD5(digest(data)); g != nil && !g.Unplayable {
		return g.ID, nil
	}
	return "", nil
}

func readROM(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("rom: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("rom: %s, must be a file", path)
	}
	if info.Size() > 1<<20 {
		return nil, fmt.Errorf("rom: %s of %d bytes, no cartridge is larger than 16384", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("rom: %w", err)
	}
	return data, nil
}

func digest(data []byte) string {
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}

var roms struct {
	sync.Mutex
	known map[string]*ROM // by game and MD5
}

// errOtherMD5 is the error for a file with an MD5 that is not the game's.
var errOtherMD5 = errors.New("another MD5")

// newROMOf is NewROM for the bytes of a file. Its errors name the file.
func newROMOf(path string, data []byte, g *games.Game, otherMD5 bool) (*ROM, error) {
	rom, err := NewROM(data, g, otherMD5)
	if err != nil {
		return nil, fmt.Errorf("rom: %s: %w", path, err)
	}
	return rom, nil
}

// NewROM returns a cartridge with these bytes for a game that can be played. Equal bytes share a
// ROM.
func NewROM(data []byte, g *games.Game, otherMD5 bool) (*ROM, error) {
	if err := available(); err != nil {
		return nil, err
	}
	sum := digest(data)
	scheme := g.Scheme
	if sum != g.MD5 {
		if !otherMD5 {
			return nil, fmt.Errorf("%w %s, must be %s's, %s", errOtherMD5, sum, g.File, g.MD5)
		}
		var err error
		if scheme, err = schemeOf(data); err != nil {
			return nil, err
		}
		g = g.Unlisted(scheme)
	}
	roms.Lock()
	defer roms.Unlock()
	key := g.ID + " " + sum
	if r := roms.known[key]; r != nil {
		return r, nil
	}
	r := &ROM{game: g, md5: sum, cartridge: newCartridge(data, machineSchemes[scheme])}
	if roms.known == nil {
		roms.known = map[string]*ROM{}
	}
	roms.known[key] = r
	return r, nil
}

// machineSchemes maps schemes to the values of enum atari_scheme.
var machineSchemes = map[games.Scheme]int{games.Cart2K: 0, games.Cart4K: 0, games.F8: 1, games.F6: 2, games.E0: 3,
	games.F8SC: 4, games.F6SC: 5, games.FE: 6, games.DPC: 7}

// schemeOf guesses the scheme of unknown bytes from their size and contents.
func schemeOf(data []byte) (games.Scheme, error) {
	switch len(data) {
	case 2048:
		return games.Cart2K, nil
	case 4096:
		return games.Cart4K, nil
	case 8192:
		switch {
		case hidesRAM(data):
			return games.F8SC, nil
		case holds(data, "\x8D\xE0\x1F", "\x8D\xE0\x5F", "\x8D\xE9\xFF", "\xAD\xE9\xFF", "\xAD\xED\xFF", "\xAD\xF3\xBF"):
			return games.E0, nil
		case holds(data, "\x20\x00\xD0\xC6\xC5"):
			return games.FE, nil
		}
		return games.F8, nil
	case 16384:
		if hidesRAM(data) {
			return games.F6SC, nil
		}
		return games.F6, nil
	case 10495:
		return games.DPC, nil
	}
	return 0, fmt.Errorf("%d bytes, must be 2048, 4096, 8192, 10495 or 16384", len(data))
}

// hidesRAM reports whether all banks start with 256 equal bytes, as in cartridges where RAM covers
// the ROM.
func hidesRAM(data []byte) bool {
	for ; len(data) > 0; data = data[4096:] {
		for _, b := range data[:256] {
			if b != data[0] {
				return false
			}
		}
	}
	return true
}

func holds(data []byte, signatures ...string) bool {
	return slices.ContainsFunc(signatures, func(s string) bool { return strings.Contains(string(data), s) })
}

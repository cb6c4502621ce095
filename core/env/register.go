package env

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/paceline-rl/paceline/core/nearest"
)

// Maker returns a new environment, not yet reset, at every call. It returns an error if something
// that the environment needs is missing or an option is not allowed.
type Maker func(Options) (Env, error)

var registry struct {
	sync.RWMutex
	makers  map[string]Maker
	aliases map[string]string
}

// Register registers an environment under id. It is meant for init functions: it panics if id is
// empty or taken, because two environments with one name are a mistake in the program.
func Register(id string, mk Maker) {
	if id == "" || mk == nil {
		panic("env: Register needs an id and a function")
	}
	if !Add(id, mk) {
		panic(fmt.Sprintf("env: Register called twice for %q", id))
	}
}

// RegisterPlain is Register for an environment without options.
func RegisterPlain(id string, mk func() Env) {
	Register(id, func(o Options) (Env, error) {
		if err := o.Read(id, nil); err != nil {
			return nil, err
		}
		return mk(), nil
	})
}

// Add registers an environment under id while the program runs. It reports false if the name is
// taken.
func Add(id string, mk Maker) bool {
	registry.Lock()
	defer registry.Unlock()
	_, taken := registry.makers[id]
	if _, alias := registry.aliases[id]; taken || alias {
		return false
	}
	if registry.makers == nil {
		registry.makers = make(map[string]Maker)
	}
	registry.makers[id] = mk
	return true
}

// Alias gives the environment registered under id another name, which IDs does not list.
func Alias(name, id string) {
	registry.Lock()
	defer registry.Unlock()
	if registry.aliases == nil {
		registry.aliases = make(map[string]string)
	}
	registry.aliases[name] = id
}

// Canonical returns the registered name for an alias, and any other name as it is.
func Canonical(name string) string {
	registry.RLock()
	defer registry.RUnlock()
	if id, ok := registry.aliases[name]; ok {
		return id
	}
	return name
}

// IDs returns the names of all registered environments, sorted.
func IDs() []string {
	registry.RLock()
	defer registry.RUnlock()
	ids := make([]string, 0, len(registry.makers))
	for id := range registry.makers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Make returns a new environment with the name id and the given options. The error for an unknown
// name suggests the nearest known names.
func Make(id string, options Options) (Env, error) {
	id = Canonical(id)
	registry.RLock()
	mk := registry.makers[id]
	registry.RUnlock()
	if mk == nil {
		return nil, fmt.Errorf("environment %q is not known; %s", id, suggest(id, IDs()))
	}
	return mk(options)
}

// Known lists the environments for a message. A family, such as "atari/pong", has one entry.
func Known() string { return known(IDs()) }

func known(ids []string) string {
	var list []string
	seen := map[string]bool{}
	for _, id := range ids {
		family, _, ok := strings.Cut(id, "/")
		if ok && seen[family] {
			continue
		}
		if ok {
			seen[family] = true
			id = family + "/<game>"
		}
		list = append(list, id)
	}
	return strings.Join(list, ", ")
}

// suggest names the ids nearest to id, or all ids if none is near. An id with a family, such as
// "ALE/Combat-v5", is near only to ids with a family.
func suggest(id string, ids []string) string {
	if len(ids) == 0 {
		return "none is registered"
	}
	candidates := ids
	if strings.Contains(strings.TrimPrefix(id, "paceline/"), "/") {
		candidates = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.Contains(id, "/") })
	}
	maxEdits := max(2, len(fold(id))/3) // more edits are not a typing mistake
	near := nearest.Names(id, candidates, maxEdits, fold)
	if near == nil {
		return "known environments: " + known(ids)
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// fold removes differences that do not name another environment: case, separators, the family and
// the version suffix.
func fold(id string) string {
	id = strings.ToLower(id)
	if base, version, ok := cutLast(id, "-v"); ok && strings.Trim(version, "0123456789") == "" {
		id = base
	}
	if _, name, ok := strings.Cut(id, "/"); ok {
		id = name
	}
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(id)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

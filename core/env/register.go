package env

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/paceline-rl/paceline/core/nearest"
)

// Maker returns a new environment, not yet reset, at every call, or an error where
// something is missing that it needs or an option is not allowed.
type Maker func(Options) (Env, error)

var register struct {
	sync.RWMutex
	makers  map[string]Maker
	aliases map[string]string
}

// Register makes an environment known under id. It is meant for init functions and
// panics if id is empty or taken, as two environments of one name are a mistake in the
// program.
func Register(id string, mk Maker) {
	if id == "" || mk == nil {
		panic("env: Register needs an id and a function")
	}
	if !Add(id, mk) {
		panic(fmt.Sprintf("env: Register called twice for %q", id))
	}
}

// RegisterPlain is Register for an environment that has no options.
func RegisterPlain(id string, mk func() Env) {
	Register(id, func(o Options) (Env, error) {
		if err := o.Read(id, nil); err != nil {
			return nil, err
		}
		return mk(), nil
	})
}

// Add makes an environment known under id while the program runs, and reports false if
// that name is taken.
func Add(id string, mk Maker) bool {
	register.Lock()
	defer register.Unlock()
	_, taken := register.makers[id]
	if _, alias := register.aliases[id]; taken || alias {
		return false
	}
	if register.makers == nil {
		register.makers = make(map[string]Maker)
	}
	register.makers[id] = mk
	return true
}

// Alias makes the environment registered under id known by another name, which IDs
// does not list.
func Alias(name, id string) {
	register.Lock()
	defer register.Unlock()
	if register.aliases == nil {
		register.aliases = make(map[string]string)
	}
	register.aliases[name] = id
}

// Canonical returns the name that an environment is registered under, whatever it is
// called, also where there is none of that name.
func Canonical(name string) string {
	register.RLock()
	defer register.RUnlock()
	if of, ok := register.aliases[name]; ok {
		return of
	}
	return name
}

// IDs returns the names of all registered environments, sorted.
func IDs() []string {
	register.RLock()
	defer register.RUnlock()
	ids := make([]string, 0, len(register.makers))
	for id := range register.makers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Make returns a new environment called id, made with options. Its error for an unknown
// name suggests the nearest known ones.
func Make(id string, options Options) (Env, error) {
	id = Canonical(id)
	register.RLock()
	mk := register.makers[id]
	register.RUnlock()
	if mk == nil {
		return nil, fmt.Errorf("environment %q is not known; %s", id, suggest(id, IDs()))
	}
	return mk(options)
}

// Known names the environments for people: all that stand alone, and of each family
// ("atari/pong") one.
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

// suggest names the ids that somebody who wrote id may have meant, or all of
// them when none comes near. Who names a family ("ALE/Combat-v5") means one of a family.
func suggest(id string, ids []string) string {
	if len(ids) == 0 {
		return "none is registered"
	}
	kind := ids
	if strings.Contains(strings.TrimPrefix(id, "paceline/"), "/") {
		kind = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.Contains(id, "/") })
	}
	most := max(2, len(fold(id))/3) // edits beyond this are no slip of the finger
	near := nearest.Names(id, kind, most, fold)
	if near == nil {
		return "known are " + known(ids)
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// fold drops what people get wrong without meaning another name: case,
// separators, a family's name and the version suffix.
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

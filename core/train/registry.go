package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nearest"
	"github.com/paceline-rl/paceline/core/settings"
)

// Definition is a method as the registry knows it.
type Definition struct {
	Name string
	Doc  string // one sentence
	// Settings is the table of a struct whose pointer is a Settings.
	Settings *settings.Table
	// Shape names the settings in which a checkpoint and the trainer that loads it must agree.
	Shape []string
	// Experience names those of Shape on which stored experience depends; nil: all of them.
	Experience []string
	// Placement names the settings besides device that say where something is computed. Checkpoints
	// hold "auto" for them.
	Placement []string
	// Masks says that the method uses action masks.
	Masks bool
	// AnyAction says that the method learns with actions of every kind. Otherwise an action is one
	// integer (env.ActionSpec.N is above 0).
	AnyAction bool
	// OnlyCPU says that the method computes on the CPU alone.
	OnlyCPU bool
	// Memory lists what New will allocate.
	Memory func(*Setup) ([]limits.Part, error)
	New    func(*Setup) (Method, error)
}

// Settings are the settings of a method. The struct embeds Common.
type Settings interface {
	common() *Common
	// Resolve checks every setting and how they go together, and replaces "auto" and 0 by what they
	// stand for as far as that does not depend on the environment. It returns sentences that the
	// user is told once.
	Resolve() (notices []string, err error)
}

// LateResets are Settings that may ask for a source that does not reset environments whose episode
// has ended. The method resets them (actor.Config.Disabled).
type LateResets interface {
	ResetsLate() bool
}

// CPUSettings are Settings of which the CPU computes values that a GPU does not. Device auto then
// is the CPU, and other devices are refused.
type CPUSettings interface {
	// OnlyCPU returns the first such setting with its value, "dueling: true", and what it must be on a
	// GPU, "false"; "": a GPU computes all settings. policy is PolicyMLP or PolicyCNN.
	OnlyCPU(policy string) (given, must string)
}

var registry = map[string]*Definition{}

// waiting are the registrations that RegisterFrom has put off, by the method that they wait for.
var waiting = map[string][]func(Definition) *Definition{}

// RegisterFrom registers a method that is another one with settings of its own, when that one is
// registered. of makes its Definition from a copy of the other's.
func RegisterFrom(other string, of func(Definition) *Definition) {
	if d := registry[other]; d != nil {
		Register(of(*d))
		return
	}
	waiting[other] = append(waiting[other], of)
}

// Register makes a method known. It panics if the name is taken, which is a bug of the program.
func Register(d *Definition) {
	if registry[d.Name] != nil {
		panic("train: method " + d.Name + " registered twice")
	}
	registry[d.Name] = d
	for _, of := range waiting[d.Name] {
		Register(of(*d))
	}
	delete(waiting, d.Name)
}

// checkAction returns an error if the method cannot learn with actions of a spec.
func (d *Definition) checkAction(a env.ActionSpec) error {
	if a.N > 0 || d.AnyAction {
		return nil
	}
	var others []string
	for _, name := range Methods() {
		if registry[name].AnyAction {
			others = append(others, name)
		}
	}
	n := len(others)
	switch n {
	case 0:
		return fmt.Errorf("actions: %v, must be discrete for %s", a, d.Name)
	case 1:
		return fmt.Errorf("actions: %v, must be discrete for %s; %s takes them", a, d.Name, others[0])
	}
	return fmt.Errorf("actions: %v, must be discrete for %s; %s and %s take them", a, d.Name, strings.Join(others[:n-1], ", "), others[n-1])
}

// Methods returns the names of the methods that are known, sorted.
func Methods() []string {
	var names []string
	for name := range registry {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func lookup(name string) (*Definition, error) {
	if d := registry[name]; d != nil {
		return d, nil
	}
	if near := nearest.Names(name, Methods(), 3, nil); near != nil {
		return nil, fmt.Errorf("method %q is not known; did you mean %s?", name, strings.Join(near, " or "))
	}
	return nil, fmt.Errorf("method: %q, must be %s", name, strings.Join(Methods(), ", "))
}

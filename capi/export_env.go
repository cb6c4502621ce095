package capi

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
)

// plugins are the loaded files, with the names of their environments.
var plugins struct {
	sync.Mutex
	names map[string]string // by path
}

// families are the plugins' families, by the environment's name. They are not in plugins,
// whose lock is held while a file is loaded.
var families sync.Map // of *family

// familyOf returns the family of the plugin whose environment has the name, or nil.
func familyOf(name string) *family {
	f, _ := families.Load(name)
	of, _ := f.(*family)
	return of
}

//export pacelineGoEnvLoad
func pacelineGoEnvLoad(out **C.char, file *C.char, why *C.pl_error) C.int {
	return report(guarded(func() error {
		if C.pl_is_opening() != 0 {
			return errors.New("paceline_env_load: called inside paceline_env_open, must wait until that has returned")
		}
		// dlopen would search the system's folders for a name without a slash. Symbolic
		// links are resolved because a file is loaded once under all its names.
		whole, err := filepath.Abs(C.GoString(file))
		if err == nil {
			whole, err = filepath.EvalSymlinks(whole)
		}
		if err != nil {
			return err
		}
		// dlopen would wait for the other end of a FIFO.
		info, err := os.Stat(whole)
		if err == nil && !info.Mode().IsRegular() {
			err = &fs.PathError{Op: "load", Path: whole, Err: errors.New("must be a regular file")}
		}
		if err != nil {
			return err
		}
		name, err := loadPlugin(whole)
		return putText(out, name, err)
	}), why)
}

func loadPlugin(path string) (string, error) {
	plugins.Lock()
	defer plugins.Unlock()
	if name, ok := plugins.names[path]; ok {
		return name, nil
	}
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	var plugin C.paceline_env_plugin
	var text *C.char
	open := C.pl_plugin_load(c, &text)
	if open == nil {
		defer C.free(unsafe.Pointer(text))
		why := strings.TrimPrefix(C.GoString(text), path+": ")
		return "", &fs.PathError{Op: "load", Path: path, Err: errors.New(why)}
	}
	if code := C.pl_plugin_open(open, &plugin, &text); code != 0 {
		return "", fmt.Errorf("%s: %w", path, callbackFailure("paceline_env_open", code, &text))
	}
	f, name, err := newPlugin(&plugin)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if !env.Add(name, f.newPluginEnv) {
		f.unref()
		return "", fmt.Errorf("%s: name: %q, is already the name of another environment", path, name)
	}
	if plugins.names == nil {
		plugins.names = map[string]string{}
	}
	plugins.names[path] = name
	families.Store(name, f)
	return name, nil
}

// newPlugin checks the plugin of a file and returns its family and its environment's name.
func newPlugin(p *C.paceline_env_plugin) (f *family, name string, err error) {
	if p.name == nil {
		return nil, "", fmt.Errorf("name: NULL, must be the environment's name")
	}
	if err := checkTable(&p.table); err != nil {
		return nil, "", err
	}
	switch name = C.GoString(p.name); {
	case name == "":
		return nil, "", fmt.Errorf("name: empty, must be the environment's name")
	case !utf8.ValidString(name):
		return nil, "", fmt.Errorf("name: %q, must be UTF-8", name)
	}
	c := (*C.pl_family)(C.calloc(1, C.sizeof_pl_family))
	c.table, c.user = p.table, p.user
	f = &family{c: c}
	f.refs.Store(1) // never dropped: environments of the family can be made at any time
	if err := f.readSpec(); err != nil {
		f.unref()
		return nil, "", err
	}
	f.spec.ID = name
	return f, name, nil
}

// newPluginEnv makes an environment of the family by its name.
func (f *family) newPluginEnv(options env.Options) (env.Env, error) {
	if err := options.Read(f.spec.ID, nil); err != nil {
		return nil, err
	}
	e := &pluginEnv{family: f}
	if f.c.table.save != nil {
		return &savingPluginEnv{e}, nil
	}
	return e, nil
}

// pluginEnv is an environment of a plugin. A table's create takes the seed, so a new seed
// means a new environment, which the next reset makes.
type pluginEnv struct {
	family *family
	index  int
	seed   uint64
	env    env.Env // nil before it is made
}

func (e *pluginEnv) Spec() env.Spec { return e.family.spec }

// SetIndex sets the environment's index in its vector.
func (e *pluginEnv) SetIndex(i int) { e.index = i }

func (e *pluginEnv) Seed(seed uint64) {
	e.seed = seed
	e.Close()
}

func (e *pluginEnv) make() (err error) {
	if e.env == nil {
		e.env, err = e.family.make(e.index, e.seed)
	}
	return err
}

func (e *pluginEnv) Reset(obs []byte) error {
	if err := e.make(); err != nil {
		return err
	}
	return e.env.Reset(obs)
}

func (e *pluginEnv) Step(action int32, obs []byte) (float32, env.End, error) {
	return e.env.Step(action, obs)
}

func (e *pluginEnv) StepAction(branches []int32, box []float32, obs []byte) (float32, env.End, error) {
	return e.env.(env.ActionEnv).StepAction(branches, box, obs)
}

// Mask is called only if the table has a mask function.
func (e *pluginEnv) Mask(mask []byte) error { return e.env.(env.Masker).Mask(mask) }

func (e *pluginEnv) Batched() bool { return e.family.c.table.step_many != nil }

func (e *pluginEnv) StepBatch(steps []env.BatchStep, obs []byte) error {
	return e.table().StepBatch(steps, obs)
}

func (e *pluginEnv) table() *tableEnv { return e.env.(hasTable).table() }

func (e *pluginEnv) Close() error {
	if e.env == nil {
		return nil
	}
	was := e.env
	e.env = nil
	return was.Close()
}

// savingPluginEnv is a pluginEnv whose table has save and restore.
type savingPluginEnv struct{ *pluginEnv }

func (e *savingPluginEnv) Save() ([]byte, error) {
	if err := e.make(); err != nil {
		return nil, err
	}
	return e.env.(env.Saver).Save()
}

func (e *savingPluginEnv) Restore(state []byte) error {
	if err := e.make(); err != nil {
		return err
	}
	return e.env.(env.Saver).Restore(state)
}

//export pacelineGoEnvNames
func pacelineGoEnvNames(out **C.char, why *C.pl_error) C.int {
	return report(guarded(func() error {
		return putJSON(out, env.IDs())
	}), why)
}

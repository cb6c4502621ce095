package capi

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -I${SRCDIR}/../include
#cgo LDFLAGS: -ldl
#include "bridge.h"
*/
import "C"

import (
	"sync"

	_ "github.com/paceline-rl/paceline/core/cpu" // rebuild when float_mode.h changes
	"github.com/paceline-rl/paceline/core/train"
)

// config is one table of settings. Concurrent calls wait for each other, as they are short.
type config struct {
	mu  sync.Mutex
	cfg *train.Config
}

var configs = newTable[*config](kindConfig)

func newConfig(cfg *train.Config, err error) (*config, error) { return &config{cfg: cfg}, err }

// withConfig calls f with the settings of id. Set and Preset change nothing where they fail.
func withConfig(id C.uint64_t, f func(*train.Config) error) error {
	return configs.use(uint64(id), func(c *config) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		return f(c.cfg)
	})
}

// configOf returns a copy of the settings of id.
func configOf(id C.uint64_t) (cfg *train.Config, err error) {
	err = withConfig(id, func(c *train.Config) error {
		cfg = c.Clone()
		return nil
	})
	return cfg, err
}

//export pacelineGoMethods
func pacelineGoMethods(out **C.char, why *C.pl_error) C.int {
	return report(guarded(func() error { return putJSON(out, train.Methods()) }), why)
}

//export pacelineGoConfigNew
func pacelineGoConfigNew(out *C.uint64_t, method *C.char, why *C.pl_error) C.int {
	return create(out, configs, why, func() (*config, error) { return newConfig(train.NewConfig(C.GoString(method))) })
}

//export pacelineGoConfigLoad
func pacelineGoConfigLoad(out *C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return create(out, configs, why, func() (*config, error) { return newConfig(train.LoadConfig(C.GoString(file))) })
}

//export pacelineGoConfigMethod
func pacelineGoConfigMethod(out **C.char, id C.uint64_t, why *C.pl_error) C.int {
	return report(withConfig(id, func(cfg *train.Config) error {
		*out = intern(cfg.Method())
		return nil
	}), why)
}

//export pacelineGoConfigSet
func pacelineGoConfigSet(id C.uint64_t, key, value *C.char, why *C.pl_error) C.int {
	return report(withConfig(id, func(cfg *train.Config) error {
		return cfg.Set(C.GoString(key), C.GoString(value))
	}), why)
}

//export pacelineGoConfigGet
func pacelineGoConfigGet(out **C.char, id C.uint64_t, key *C.char, why *C.pl_error) C.int {
	return report(withConfig(id, func(cfg *train.Config) error {
		value, err := cfg.Get(C.GoString(key))
		return putText(out, value, err)
	}), why)
}

//export pacelineGoConfigPreset
func pacelineGoConfigPreset(id C.uint64_t, preset, env *C.char, why *C.pl_error) C.int {
	return report(withConfig(id, func(cfg *train.Config) error {
		return cfg.Preset(C.GoString(preset), C.GoString(env))
	}), why)
}

//export pacelineGoConfigPresets
func pacelineGoConfigPresets(out **C.char, id C.uint64_t, why *C.pl_error) C.int {
	return report(withConfig(id, func(cfg *train.Config) error {
		type preset struct {
			Name  string   `json:"name"`
			Doc   string   `json:"doc"`
			Envs  []string `json:"envs"`  // null: any
			Steps int64    `json:"steps"` // 0: any
		}
		list := []preset{}
		for _, p := range cfg.Table().Presets() {
			list = append(list, preset{p.Name, p.Doc, p.Envs, p.Steps})
		}
		return putJSON(out, list)
	}), why)
}

//export pacelineGoConfigDescribe
func pacelineGoConfigDescribe(out *C.paceline_option, id C.uint64_t, i C.size_t, why *C.pl_error) C.int {
	return report(withConfig(id, func(cfg *train.Config) error {
		s, err := cfg.Table().At(int(min(i, 1<<31)))
		if err == nil {
			out.name, out._type = intern(s.Name), intern(s.Type)
			out.default_value, out.doc = intern(s.Default), intern(s.Doc)
		}
		return err
	}), why)
}

//export pacelineGoConfigFree
func pacelineGoConfigFree(id C.uint64_t) { configs.remove(uint64(id)) }

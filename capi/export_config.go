package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -I${SRCDIR}/../include
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"sync"

	"github.com/paceline-rl/paceline/core/dqn"
	_ "github.com/paceline-rl/paceline/include" // rebuild when paceline.h changes
)

// config is one table of settings. Calls on it are short, so they wait for
// each other.
type config struct {
	mu  sync.Mutex
	cfg dqn.Config
}

var configs = newTable[*config](kindConfig)

// change applies f to the settings, wholly or not at all.
func (c *config) change(f func(*dqn.Config) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.cfg
	if err := f(&next); err != nil {
		return err
	}
	c.cfg = next
	return nil
}

// configOf returns a copy of the settings that a handle stands for.
func configOf(id C.uint64_t) (cfg dqn.Config, err error) {
	err = configs.use(uint64(id), func(c *config) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		cfg = c.cfg
		return nil
	})
	return cfg, err
}

//export pacelineGoConfigNew
func pacelineGoConfigNew(out *C.uint64_t, why *C.char) C.int {
	return report(guarded(func() error {
		*out = C.uint64_t(configs.put(&config{cfg: dqn.DefaultConfig()}))
		return nil
	}), why)
}

//export pacelineGoConfigSet
func pacelineGoConfigSet(id C.uint64_t, key, value *C.char, why *C.char) C.int {
	return report(configs.use(uint64(id), func(c *config) error {
		k, err := text("key", key)
		if err != nil {
			return err
		}
		v, err := text("value of "+k, value)
		if err != nil {
			return err
		}
		return c.change(func(cfg *dqn.Config) error { return cfg.Set(k, v) })
	}), why)
}

//export pacelineGoConfigGet
func pacelineGoConfigGet(out **C.char, id C.uint64_t, key *C.char, why *C.char) C.int {
	return report(guarded(func() error {
		cfg, err := configOf(id)
		if err != nil {
			return err
		}
		k, err := text("key", key)
		if err != nil {
			return err
		}
		v, err := cfg.Get(k)
		if err == nil {
			*out = C.CString(v)
		}
		return err
	}), why)
}

//export pacelineGoConfigPreset
func pacelineGoConfigPreset(id C.uint64_t, preset, env *C.char, why *C.char) C.int {
	return report(configs.use(uint64(id), func(c *config) error {
		p, err := text("preset", preset)
		if err != nil {
			return err
		}
		e, err := text("env", env)
		if err != nil {
			return err
		}
		return c.change(func(cfg *dqn.Config) error { return cfg.ApplyPreset(p, e) })
	}), why)
}

//export pacelineGoConfigLoad
func pacelineGoConfigLoad(id C.uint64_t, file *C.char, why *C.char) C.int {
	return report(configs.use(uint64(id), func(c *config) error {
		p, err := path(file)
		if err != nil {
			return err
		}
		loaded, err := dqn.LoadConfig(p)
		if err != nil {
			return err
		}
		return c.change(func(cfg *dqn.Config) error { *cfg = loaded; return nil })
	}), why)
}

//export pacelineGoConfigDescribe
func pacelineGoConfigDescribe(out *C.paceline_option, i C.size_t, why *C.char) C.int {
	return report(guarded(func() error {
		if uint64(i) >= uint64(len(dqn.Options)) {
			return fmt.Errorf("setting: %d, must be 0 to %d", i, len(dqn.Options)-1)
		}
		o := &dqn.Options[i]
		out.name, out._type = intern(o.Name), intern(o.Type)
		out.default_value, out.doc = intern(o.Default), intern(o.Doc)
		return nil
	}), why)
}

//export pacelineGoConfigFree
func pacelineGoConfigFree(id C.uint64_t) { configs.take(uint64(id)) }

package async

import (
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// PresetOf returns the Rows of a preset of an asynchronous method: those of its worker's preset for
// the same environment, except settings that the method does not have, and then its own.
func PresetOf(method, worker, preset string, own ...settings.Row) func(env string) ([]settings.Row, error) {
	return func(env string) ([]settings.Row, error) {
		cfg, err := train.NewConfig(method)
		if err != nil {
			return nil, err
		}
		of, err := train.NewConfig(worker)
		if err != nil {
			return nil, err
		}
		list := of.Table().Presets()
		i := slices.IndexFunc(list, func(p settings.Preset) bool { return p.Name == preset })
		if i < 0 {
			return nil, fmt.Errorf("preset: %q, %s has none of this name", preset, worker)
		}
		rows, err := list[i].Rows(env)
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(slices.Clone(rows), func(r settings.Row) bool {
			_, err := cfg.Get(r[0])
			return err != nil
		})
		return append(rows, own...), nil
	}
}

package train

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train/order"
)

// anyValue names settings that change no result of a recorded order: where and how fast something
// is computed, what is shown, and by which schedule the order came about.
var anyValue = []string{"num_threads", "groups", "host_data", "stats_window_size", "schedule", "order"}

// Fingerprint lists what the bits of the run depend on besides the order of its events: the method,
// its settings without those named, and the environments. The device counts by its kind, because a
// seed has one result for each.
func (s *Setup) Fingerprint(without ...string) order.Fingerprint {
	without = slices.Concat(without, anyValue, s.cfg.def.Placement)
	stepper := "the caller"
	if s.Source != nil {
		stepper = "the library"
		without = append(without, "autoreset") // of pushed rows
	}
	all := order.Fingerprint{{Name: "method", Value: s.cfg.Method()}, {Name: "environments_stepped_by", Value: stepper}}
	for i := range s.cfg.Table().Len() {
		setting, err := s.cfg.Table().At(i)
		if err != nil || slices.Contains(without, setting.Name) || strings.HasPrefix(setting.Name, "latency_") {
			continue
		}
		value, _ := s.cfg.Get(setting.Name)
		switch setting.Name {
		case "env":
			value = s.Spec.ID
		case "env_options":
			value = normalOptions(value)
		case "device":
			value, _, _ = strings.Cut(value, ":")
		}
		all = append(all, order.Field{Name: setting.Name, Value: value})
	}
	add := func(name, value string) { all = append(all, order.Field{Name: name, Value: value}) }
	if e, ok := s.Source.(env.RecipeEnv); ok {
		if _, hash := e.Recipe(); hash != "" {
			add("recipe", hash)
		}
	}
	obs, action := s.Spec.Obs, s.Spec.Action
	add("observations", fmt.Sprintf("%s %v", obs.DType, obs.Shape))
	add("observation_frame_stack", strconv.Itoa(obs.FrameStack))
	add("actions", fmt.Sprint(action))
	if action.Floats() > 0 {
		add("action_low", fmt.Sprint(action.Low))
		add("action_high", fmt.Sprint(action.High))
	}
	return all
}

// normalOptions returns env_options in one form, without "waits", on which no result depends.
func normalOptions(text string) string {
	options, err := env.ParseOptions(text)
	if delete(options, "waits"); err == nil && len(options) == 0 {
		return ""
	}
	normal, merr := json.Marshal(options)
	if err != nil || merr != nil {
		return text
	}
	return string(normal)
}

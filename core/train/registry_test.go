package train

import "testing"

// A method that is another one with other settings is registered with it, in either order.
func TestRegisterFrom(t *testing.T) {
	names := []string{"original", "variant", "late variant"}
	defer func() {
		for _, name := range names {
			delete(registry, name)
		}
	}()
	variant := func(name string) func(Definition) *Definition {
		return func(d Definition) *Definition {
			d.Name = name
			return &d
		}
	}
	RegisterFrom("original", variant("variant"))
	if registry["variant"] != nil {
		t.Error("registered before the original")
	}
	Register(&Definition{Name: "original", Doc: "a method", OnlyCPU: true})
	RegisterFrom("original", variant("late variant"))
	for _, name := range names {
		if d := registry[name]; d == nil || d.Name != name || d.Doc != "a method" || !d.OnlyCPU {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if len(waiting["original"]) > 0 {
		t.Error("a registration still waits")
	}
}

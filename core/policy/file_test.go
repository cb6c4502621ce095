package policy

import (
	"reflect"
	"strings"
	"testing"
)

// Every field of a file has its name in a tag, so that renaming the field does not change the
// format.
func TestFileFieldsHaveTags(t *testing.T) {
	seen := 0
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for f := range of.NumField() {
			field := of.Field(f)
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == "" {
				t.Errorf("%v.%s: no name in a json tag", of, field.Name)
			}
			seen++
			walk(field.Type)
		}
	}
	walk(reflect.TypeFor[content]())
	if seen < 20 {
		t.Errorf("%d fields were seen", seen)
	}
}

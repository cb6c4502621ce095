package settings

import (
	"fmt"
	"strings"
)

// Switched are settings that are used with some values of another setting only.
type Switched struct {
	Names string // separated by spaces
	By    string // the other setting
	Used  bool   // with the current value of By
}

// Names returns the names of a list of settings, as Switched has them.
func Names(list []Setting) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return strings.Join(names, " ")
}

// Unused returns a notice for each setting of list that has another value than its default and is
// not used.
func (v *Values) Unused(list ...Switched) (notices []string, err error) {
	defaults := v.table.Defaults()
	for _, s := range list {
		if s.Used {
			continue
		}
		by, err := v.Get(s.By)
		if err != nil {
			return nil, err
		}
		if by == "" {
			by = "empty"
		}
		for name := range strings.FieldsSeq(s.Names) {
			text, err := v.Get(name)
			if err != nil {
				return nil, err
			}
			if usual, _ := defaults.Get(name); text != usual {
				notices = append(notices, fmt.Sprintf("%s: %s is not used where %s is %s", name, text, s.By, by))
			}
		}
	}
	return notices, nil
}

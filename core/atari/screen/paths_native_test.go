//go:build cgo && amd64

package screen

type path struct {
	name string
	use  func() (undo func())
}

func paths() []path {
	use := func(native bool) func() func() {
		return func() func() {
			old := useNative
			useNative = native
			return func() { useNative = old }
		}
	}
	if !useNative {
		return []path{{"go", use(false)}}
	}
	return []path{{"c", use(true)}, {"go", use(false)}}
}

// onGo runs f on the Go path.
func onGo(f func()) {
	old := useNative
	useNative = false
	defer func() { useNative = old }()
	f()
}

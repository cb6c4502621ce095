package threads

import (
	"runtime"
	"sync"
)

// Cores is how many threads compute where nobody says how many: what the runtime found
// when the program started.
var Cores = min(runtime.GOMAXPROCS(0), Max)

var reserving sync.Mutex

// Reserve sees to it that so many goroutines can be inside long C calls at a time while
// others, such as the host's calls, still get their turn. The runtime would have them wait:
// a goroutine in C keeps one of the GOMAXPROCS processors, unless it stays there for long without
// coming back even once.
func Reserve(goroutines int) {
	reserving.Lock()
	defer reserving.Unlock()
	if want := goroutines + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

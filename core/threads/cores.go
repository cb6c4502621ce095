package threads

import (
	"runtime"
	"sync"
)

// Cores is the default number of threads: GOMAXPROCS when the program started.
var Cores = min(runtime.GOMAXPROCS(0), Max)

var reserving sync.Mutex

// Reserve raises GOMAXPROCS so that the given number of goroutines may be inside long C calls while
// other goroutines, such as the host's calls, still run. A goroutine in C occupies one of the
// GOMAXPROCS processors. The runtime takes the processor back only if a single call lasts long.
func Reserve(goroutines int) {
	reserving.Lock()
	defer reserving.Unlock()
	if want := goroutines + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

/*
 * A host may compute with flush-to-zero or another rounding (audio code, some numeric
 * libraries, gcc -ffast-math). The mode is a register of each thread, and new threads inherit
 * it: the host's mode would change the results. Three places prevent that. Every exported
 * function sets the library's mode and restores the host's (shim.h). Every callback does the
 * same (trampoline.c). The constructors of loading.c start Go's first thread, from which all
 * of Go's threads descend, in the library's mode. Go itself never changes the register.
 */
#include "bridge.h"

#include "../core/cpu/float_mode.h"

unsigned pl_float_enter(void) { return (unsigned)paceline_float_enter(PACELINE_FLOAT_DEFAULT); }
void pl_float_leave(unsigned mode) { paceline_float_set(mode); }

/*
 * A host may compute with flush-to-zero or another rounding (audio code, some
 * numeric libraries, gcc -ffast-math). The mode is a register of each thread and
 * inherited by the threads it starts, so it would change what is learnt. Three
 * places keep it out: every entry (shim.h) sets ours and restores the host's;
 * around a callback the same (trampoline.c); and the constructors of loading.c make
 * the Go runtime start its first thread, from which all its others descend, in
 * our mode. Go itself never touches the register.
 */
#include "bridge.h"

#include "../core/cpu/float_mode.h"

unsigned pl_float_enter(void) { return (unsigned)paceline_float_enter(PACELINE_FLOAT_DEFAULT); }
void pl_float_leave(unsigned mode) { paceline_float_set(mode); }

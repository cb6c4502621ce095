//go:build gpu && cgo && linux

/*
 * Each function of CUDA's driver as a jump through its slot of paceline_cuda_slots, which
 * driver.c fills. They are hidden: nobody else in the process is bound to them, and the
 * driver is not, either.
 */
#if defined(__x86_64__)
#define JUMP(number) jmp *paceline_cuda_slots + 8 * number(%rip)
#elif defined(__aarch64__)
/* x16 is the register that a linker's own stubs may change, too. */
#define JUMP(number)                                  \
  adrp x16, paceline_cuda_slots + 8 * number;         \
  ldr x16, [x16, :lo12:paceline_cuda_slots + 8 * number]; \
  br x16
#else
#error "the tag gpu is for amd64 and arm64"
#endif

#define INIT SYMBOL
#define NEEDED SYMBOL
#define SYMBOL(number, name)  \
  .globl name;                \
  .hidden name;               \
  .type name, %function;      \
  .balign 8;                  \
  name: JUMP(number);         \
  .size name, . - name;

        .text
#include "symbols.h"

/* Or the library would ask for a stack that can be executed. */
        .section .note.GNU-stack, "", %progbits

//go:build gpu && cgo && linux

/*
 * Each function of CUDA's driver is a jump through its slot in paceline_cuda_slots, which driver.c
 * fills. The functions are hidden: neither other libraries in the process nor the driver itself bind
 * to them.
 */
#if defined(__x86_64__)
#define JUMP(number) jmp *paceline_cuda_slots + 8 * number(%rip)
#elif defined(__aarch64__)
/* Linker stubs may change x16, so no caller expects the register to keep its value. */
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

/* Without this section the library would ask for an executable stack. */
        .section .note.GNU-stack, "", %progbits

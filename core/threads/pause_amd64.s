#include "textflag.h"

// func pause(times int32)
TEXT ·pause(SB), NOSPLIT, $0-4
	MOVL times+0(FP), AX

again:
	PAUSE
	SUBL $1, AX
	JNZ  again
	RET

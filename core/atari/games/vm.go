package games

import "math/bits"

// op is an operation of an instruction. Most operations are also nodes of expressions.
type op uint8

// These push a value.
const (
	opConst  op = iota // arg
	opRAM              // the byte of RAM at index arg
	opRAMBCD           // the byte of RAM at index arg as two decimal digits
	opVar              // slot arg
	opMode             // the mode
	// For the cells of table arg:
	opCount    // the number of cells with a value in the set
	opPositive // the sum of the positive cells, as signed bytes
	opNegative // the sum of the negative cells, as signed bytes
	opDigits   // a number with one digit a cell, the lowest first; 10 is a blank
	opUniform  // the number of groups with equal cells
	firstPop
)

// These pop the top. Most replace the value below it by a result.
const (
	opStore op = iota + firstPop // store into slot arg
	opIf                         // jump to instruction arg if 0
	opAdd
	opSub
	opMul
	opMin
	opMax
	opBitAnd
	opBitOr
	opBitXor
	opEq
	opNe
	opLt
	opLe
	opGt
	opGe
	opNext // append the byte's two decimal digits to the number below
	firstTop
)

// These replace the top.
const (
	opAnd     op = iota + firstTop // jump to instruction arg if 0, otherwise pop
	opOr                           // jump to instruction arg if not 0, otherwise pop
	opJump                         // jump to instruction arg
	opRAMNext                      // append the two decimal digits of the byte at index arg
	opCart                         // the cartridge's byte at this address
	opIn                           // whether the value is in the set of table arg
	opNot                          // negation of a truth value
	opTruth                        // whether the value is not 0
	opNeg
	opDiv     // division by arg > 0, rounded down
	opMod     // remainder by arg > 0, never negative
	opShl     // shift by arg bits
	opShr     // shift by arg bits, with the sign
	opBCD     // a byte as two decimal digits
	opSigned  // a byte as -128..127
	opDigit   // a byte's low digit; 10 is a blank
	opTens    // a byte's high digit; 10 is a blank
	opGlyph   // v/8 if v is 0, 8, .. 72, otherwise 0: a digit by the position of its glyph
	opGlyph80 // v>>3; 0x80 is a blank
	opBits    // the number of set bits of a byte
)

// instruction is an instruction of the stack machine.
type instruction struct {
	op        op
	immediate bool // the right one of two operands is arg, not the top
	arg       int32
}

// table holds the operands of an instruction on many bytes.
type table struct {
	set   [4]uint64 // a set of byte values, one bit each
	cells []uint8   // indices of RAM
	group int       // number of cells in a group
}

func (t *table) has(v int32) bool { return uint32(v) < 256 && t.set[v>>6&3]>>(v&63)&1 != 0 }

// program is compiled code. The compiler ensures that jumps go forward and stay inside the program,
// that the stack is deep enough, and that divisors are positive.
type program struct {
	code   []instruction
	tables []table
}

const stackSize = 8 // a power of two

// decimal[v] is v as two decimal digits. A digit of 10 or more keeps its value.
var decimal = func() (d [256]int32) {
	for v := range d {
		d[v] = int32((v>>4)*10 + v&15)
	}
	return
}()

// run returns the last value on the stack, 0 after statements.
func (p *program) run(s *State, ram *[128]byte, cart Cart, mode int32) int32 {
	var stack [stackSize]int32 // the values below the top
	var top int32
	sp := 0
	code := p.code
	for pc := 0; pc < len(code); pc++ {
		in := code[pc]
		below := top
		switch {
		case in.op < firstPop:
			stack[sp&(stackSize-1)] = top
			sp++
		case in.op >= firstTop:
		case in.immediate:
			top = in.arg
		default:
			sp--
			below = stack[sp&(stackSize-1)]
		}
		switch in.op {
		case opConst:
			top = in.arg
		case opRAM:
			top = int32(ram[in.arg&127])
		case opRAMBCD:
			top = decimal[ram[in.arg&127]]
		case opVar:
			top = s[in.arg&(slots-1)]
		case opMode:
			top = mode
		case opCount, opPositive, opNegative, opDigits, opUniform:
			top = p.tables[in.arg].fold(in.op, ram)

		case opStore:
			s[in.arg&(slots-1)] = top
			top = below
		case opIf:
			if top == 0 {
				pc = int(in.arg) - 1
			}
			top = below
		case opAdd:
			top = below + top
		case opSub:
			top = below - top
		case opMul:
			top = below * top
		case opMin:
			top = min(below, top)
		case opMax:
			top = max(below, top)
		case opBitAnd:
			top = below & top
		case opBitOr:
			top = below | top
		case opBitXor:
			top = below ^ top
		case opEq:
			top = truth(below == top)
		case opNe:
			top = truth(below != top)
		case opLt:
			top = truth(below < top)
		case opLe:
			top = truth(below <= top)
		case opGt:
			top = truth(below > top)
		case opGe:
			top = truth(below >= top)
		case opNext:
			top = below*100 + decimal[uint8(top)]

		case opAnd, opOr:
			if (top != 0) == (in.op == opOr) {
				pc = int(in.arg) - 1
				continue
			}
			sp--
			top = stack[sp&(stackSize-1)]
		case opJump:
			pc = int(in.arg) - 1
		case opRAMNext:
			top = top*100 + decimal[ram[in.arg&127]]
		case opCart:
			top = int32(cart(uint16(top)))
		case opIn:
			top = truth(p.tables[in.arg].has(top))
		case opNot:
			top ^= 1
		case opTruth:
			top = truth(top != 0)
		case opNeg:
			top = -top
		case opDiv:
			top = (top - modulo(top, in.arg)) / in.arg
		case opMod:
			top = modulo(top, in.arg)
		case opShl:
			top <<= in.arg & 31
		case opShr:
			top >>= in.arg & 31
		case opBCD:
			top = decimal[uint8(top)]
		case opSigned:
			top = int32(int8(top))
		case opDigit:
			top = digit(top & 15)
		case opTens:
			top = digit(top >> 4 & 15)
		case opGlyph:
			if top&7 != 0 || uint32(top) > 72 {
				top = 0
			}
			top >>= 3
		case opGlyph80:
			if top == 0x80 {
				top = 0
			}
			top >>= 3
		case opBits:
			top = int32(bits.OnesCount8(uint8(top)))
		}
	}
	return top
}

func truth(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func modulo(v, by int32) int32 {
	m := v % by
	if m < 0 {
		m += by
	}
	return m
}

func digit(v int32) int32 {
	if v == 10 {
		return 0
	}
	return v
}

func (t *table) fold(o op, ram *[128]byte) (n int32) {
	switch o {
	case opCount:
		for _, c := range t.cells {
			n += int32(t.set[ram[c&127]>>6] >> (ram[c&127] & 63) & 1)
		}
	case opPositive:
		for _, c := range t.cells {
			n += max(0, int32(int8(ram[c&127])))
		}
	case opNegative:
		for _, c := range t.cells {
			n += min(0, int32(int8(ram[c&127])))
		}
	case opDigits:
		for i := len(t.cells) - 1; i >= 0; i-- {
			n = n*10 + digit(int32(ram[t.cells[i]&127]&15))
		}
	case opUniform:
		for i := 0; i < len(t.cells); i += t.group {
			first, alike := ram[t.cells[i]&127], true
			for _, c := range t.cells[i : i+t.group] {
				alike = alike && ram[c&127] == first
			}
			n += truth(alike)
		}
	}
	return n
}

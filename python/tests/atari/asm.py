"""A small random number generator and a small 6502 assembler for test cartridges.

Both are simple, so that a C or Go program can generate the same images: SplitMix64,
and a draw below n is the high 32 bits times n, shifted.
"""

MASK64 = (1 << 64) - 1

VSYNC, VBLANK, WSYNC = 0x00, 0x01, 0x02
NUSIZ0, NUSIZ1, COLUP0, COLUP1, COLUPF, COLUBK, CTRLPF = 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A
REFP0, REFP1, PF0, PF1, PF2 = 0x0B, 0x0C, 0x0D, 0x0E, 0x0F
RESP0, RESP1, RESM0, RESM1, RESBL = 0x10, 0x11, 0x12, 0x13, 0x14
GRP0, GRP1, ENAM0, ENAM1, ENABL = 0x1B, 0x1C, 0x1D, 0x1E, 0x1F
HMP0, HMP1, HMM0, HMM1, HMBL = 0x20, 0x21, 0x22, 0x23, 0x24
VDELP0, VDELP1, VDELBL, RESMP0, RESMP1 = 0x25, 0x26, 0x27, 0x28, 0x29
HMOVE, HMCLR, CXCLR = 0x2A, 0x2B, 0x2C

JAMS = (0x02, 0x12, 0x22, 0x32, 0x42, 0x52, 0x62, 0x72, 0x92, 0xB2, 0xD2, 0xF2)


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed & MASK64

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        return z ^ (z >> 31)

    def below(self, n):
        return ((self.next() >> 32) * n) >> 32

    def between(self, low, high):
        """An integer in low..high, both ends included."""
        return low + self.below(high - low + 1)

    def byte(self):
        return self.below(256)

    def chance(self, percent):
        return self.below(100) < percent

    def choice(self, items):
        return items[self.below(len(items))]


def addressing(opcode):
    """The addressing mode of an opcode, undocumented ones included."""
    low, odd = opcode & 15, opcode >> 4 & 1
    if opcode in JAMS or low in (8, 10):
        return "implied"
    if low == 0:
        special = {0x00: "brk", 0x20: "jsr", 0x40: "rti", 0x60: "rts"}
        return "branch" if odd else special.get(opcode, "imm")
    if low == 2:
        return "imm"
    if low in (1, 3):
        return "ind,y" if odd else "ind,x"
    if low in (4, 5, 6, 7):
        if odd:
            return "zp,y" if opcode in (0x96, 0x97, 0xB6, 0xB7) else "zp,x"
        return "zp"
    if low in (9, 11):
        return "abs,y" if odd else "imm"
    if opcode in (0x4C, 0x6C):
        return "jmp"
    if odd:
        return "abs,y" if opcode in (0x9E, 0x9F, 0xBE, 0xBF) else "abs,x"
    return "abs"


class Program:
    """Code from $F000 on, with labels. `image` adds the vectors and fills the rest."""

    ORIGIN = 0xF000
    SIZE = 4096
    VECTORS = 6

    def __init__(self):
        self.code = bytearray()
        self.labels = {}
        self.fixups = []
        self.starts = []  # offsets of instructions, at which a program can be cut

    def free(self):
        return self.SIZE - self.VECTORS - len(self.code)

    def here(self):
        return self.ORIGIN + len(self.code)

    def emit(self, *values):
        """Adds one or more complete instructions."""
        self.starts.append(len(self.code))
        self.code += bytes(values)
        return self

    def label(self, name):
        assert name not in self.labels, name
        self.labels[name] = self.here()
        return self

    def word(self, name):
        """Adds the address of a label as two bytes. The label may be defined later."""
        self.fixups.append((len(self.code), name))
        self.code += bytes(2)
        return self

    def lda(self, value):
        return self.emit(0xA9, value)

    def ldx(self, value):
        return self.emit(0xA2, value)

    def ldy(self, value):
        return self.emit(0xA0, value)

    def read(self, address):
        return self.emit(0xA5, address) if address < 256 else self.emit(0xAD, address & 255, address >> 8)

    def sta(self, address):
        return self.emit(0x85, address) if address < 256 else self.emit(0x8D, address & 255, address >> 8)

    def set(self, address, value):
        return self.lda(value).sta(address)

    def copy(self, source, target):
        return self.read(source).sta(target)

    def wsync(self, count=1):
        for _ in range(count):
            self.sta(WSYNC)
        return self

    def jmp(self, name):
        return self.emit(0x4C).word(name)

    def jsr(self, name):
        return self.emit(0x20).word(name)

    def branch(self, opcode, name):
        """Adds a branch to a label that is already defined."""
        offset = self.labels[name] - self.here() - 2
        assert offset >= -128, name
        return self.emit(opcode, offset & 255)

    def delay(self, cycles):
        """Spends 0 cycles, or 2 or more. Long delays change Y and the flags."""
        assert cycles != 1
        if cycles >= 12:
            # LDY, then DEY and BNE with 5 cycles a turn and 4 in the last turn: 5 n + 1 cycles
            # in total, if the loop does not cross a page. NOPs move the loop into one page.
            if (self.here() + 2) & 255 > 250:
                pad = min((cycles - 12) // 2, 256 - ((self.here() + 2) & 255))
                self.emit(*[0xEA] * pad)
                cycles -= 2 * pad
            if (self.here() + 2) & 255 <= 250:
                turns, rest = divmod(cycles - 1, 5)
                if rest == 1:
                    turns, rest = turns - 1, 6
                self.ldy(turns).emit(0x88, 0xD0, 0xFD)
                cycles = rest
        if cycles % 2:
            self.emit(0x04, 0x80)  # the undocumented NOP of 3 cycles
            cycles -= 3
        return self.emit(*[0xEA] * (cycles // 2))

    def image(self, fill, start="start", interrupt=None):
        """Returns the 4 KB. fill is a Random for the bytes between the code and the vectors."""
        out = bytearray(self.code)
        for position, name in self.fixups:
            out[position : position + 2] = self.labels[name].to_bytes(2, "little")
        assert len(out) <= self.SIZE - self.VECTORS, f"{len(out)} bytes of code"
        out += bytes(fill.byte() for _ in range(self.SIZE - self.VECTORS - len(out)))
        begin, irq = self.labels[start], self.labels[interrupt or start]
        for vector in (begin, begin, irq):
            out += vector.to_bytes(2, "little")
        return bytes(out)

"""Generated test cartridges: `cartridge(seed)` returns a 4 KB image, which depends only on the seed.

Seeds alternate between three families: programs that write to the TIA at random, programs
of random CPU instructions on RAM, and programs for one feature (features.py).

A cartridge is loaded under the name of a supported game, its host. ale-py finds the rule of
a game with an unknown MD5 by the file's name. The first line, height, controllers and comb
are the defaults for every name. A cartridge with more than 285 lines a frame is PAL, with
250 rows. The host's rule reads a few bytes of RAM. The cartridge sets these bytes at the
start and never changes them, so that the rule does not end the game.
"""

from collections import namedtuple

import features
from asm import CTRLPF, JAMS, VBLANK, VSYNC, Program, Random, addressing

# cuts: addresses at which reduce.py can cut the program. frame: the jump's target at a cut.
Cartridge = namedtuple("Cartridge", "seed kind host image cuts frame", defaults=((), 0))

# The RAM bytes that each host's rule reads, with values that end no game and score nothing.
# The hosts except tetris are games with a different window, controller or comb.
HOSTS = {
    "tetris": {0xF1: 0, 0xF2: 0, 0xF3: 0},
    "battle_zone": {0x9D: 0, 0x9E: 0, 0xA1: 1, 0xBA: 5},
    "carnival": {0x83: 1},
    "journey_escape": {0x95: 1},
    "kaboom": {0xA1: 1, 0xA3: 0, 0xA4: 0, 0xA5: 0},
    "keystone_kapers": {0x88: 1},
    "pong": {0x8D: 0, 0x8E: 0, 0x96: 0},
    "qbert": {0x88: 5},
}
OTHER_HOSTS = [name for name in HOSTS if name != "tetris"]

FRAME, LOOPS, POINTER = 0xC0, 0xC1, 0xC2  # RAM bytes of the fixed part of the program


class Cart(Program):
    """A program with its random numbers, its host and the RAM that it may use."""

    def __init__(self, rng, host):
        super().__init__()
        self.rng = rng
        self.host = host
        self.ram = [a for a in range(0x80, 0xF0) if a not in HOSTS[host] and not FRAME <= a <= POINTER + 1]
        self.label("start").emit(0xD8).ldx(0xFF).emit(0x9A)
        self.quiet()
        self.set(FRAME, 0).set(LOOPS, 0)

    def quiet(self):
        for address, value in HOSTS[self.host].items():
            self.set(address, value)
        return self

    def sync(self, lines, blank=True):
        """Adds VSYNC for three lines, then a number of blank lines."""
        self.set(VSYNC, 2).wsync(3).set(VSYNC, 0)
        if blank:
            self.set(VBLANK, 2)
        if lines:
            self.ldx(lines)
            name = f"blank{self.here():x}"
            self.label(name).wsync().emit(0xCA).branch(0xD0, name)
        if blank:
            self.set(VBLANK, 0)
        return self

    def frame(self, lines, blank=True):
        self.label("frame").emit(0xE6, FRAME).wsync()
        return self.sync(lines, blank)

    def work(self):
        """Returns a RAM byte that neither the fixed part nor the host's rule uses."""
        return self.rng.choice(self.ram)

    def pause(self):
        """Adds a delay of 0 to about 20 cycles."""
        kind = self.rng.below(4)
        if kind == 1:
            self.emit(*[0xEA] * self.rng.between(1, 4))
        elif kind == 2:
            self.emit(*[0x04, self.work()] * self.rng.between(1, 2))
        elif kind == 3:
            self.delay(self.rng.between(2, 20))
        return self

    def at(self, cycle):
        """Adds a delay, so that the next 3-cycle store happens in this cycle of a line."""
        wait = (cycle - 3) % 76
        return self.wsync().delay(77 if wait == 1 else wait)

    def objects(self):
        """Makes all objects visible, with random shapes, widths, colours and positions."""
        rng = self.rng
        for register in (*range(0x04, 0x0A), *range(0x0B, 0x10), 0x1B, 0x1C, 0x20, 0x21, 0x22, 0x23, 0x24):
            self.set(register, rng.byte())
        self.set(CTRLPF, rng.byte() & 0x37)
        for register in (0x1D, 0x1E, 0x1F):
            self.set(register, 2)
        self.at(rng.between(24, 70)).sta(0x10).pause().sta(0x12)
        self.at(rng.between(24, 70)).sta(0x11).pause().sta(0x13).pause().sta(0x14)
        return self


def cartridge(seed):
    rng = Random(seed)
    family = seed % 3
    if family == 0:
        return build(seed, rng, "tia", rng.choice(OTHER_HOSTS) if rng.chance(25) else "tetris", tia)
    if family == 1:
        return build(seed, rng, "cpu", "tetris", cpu)
    kind = features.KINDS[seed // 3 % len(features.KINDS)]
    return build(seed, rng, kind.__name__, rng.choice(features.HOSTS.get(kind.__name__, ["tetris"])), kind)


# ale-py treats a 4 KB image with one of these signatures as a cartridge with RAM.
COMMAVID = bytes((0x9D, 0xFF, 0xF3)), bytes((0x99, 0x00, 0xF4))


def build(seed, rng, name, host, body):
    cart = image = None
    while image is None or any(signature in image for signature in COMMAVID):
        cart = Cart(rng, host)
        body(cart)
        image = cart.image(rng, interrupt="irq" if "irq" in cart.labels else None)
    cuts = [Cart.ORIGIN + start for start in cart.starts if start < Cart.SIZE - Cart.VECTORS - len(END)]
    return Cartridge(seed, name, host, image, cuts, cart.labels["frame"])


END = (0xD8, 0xA2, 0xFF, 0x9A, 0x4C)  # CLD, LDX #$FF, TXS, JMP


def cut(whole, address):
    """Returns the cartridge with a jump to its next frame at an address."""
    start = address - Cart.ORIGIN
    end = bytes(END) + whole.frame.to_bytes(2, "little")
    image = whole.image[:start] + end + whole.image[start + len(end) :]
    return whole._replace(kind=f"{whole.kind}-{address:04x}", image=image)


def tia(cart):
    """About 1,000 random writes, reads and waits, repeated 2 to 6 times a frame."""
    rng = cart.rng
    blank = rng.chance(70)
    cart.frame(rng.between(0, 90 if rng.chance(20) else 40), blank)
    # The number of repetitions changes with the frame, so the frames differ in length.
    low = rng.between(2, 5)
    cart.read(FRAME).emit(0x29, rng.choice([0, 1, 1, 3])).emit(0x18, 0x69, low).sta(LOOPS)
    cart.label("body")
    waits = rng.choice([3, 10, 10, 15])
    limit = rng.between(300, 1000)
    for _ in range(limit):
        if cart.free() < 40:
            break
        tia_step(cart, waits)
    cart.emit(0xC6, LOOPS, 0xF0, 3).jmp("body").jmp("frame")


def tia_step(cart, waits):
    rng = cart.rng
    kind = rng.below(100)
    if kind < waits:
        cart.wsync()
    elif kind < waits + 5:
        cart.copy(rng.below(14), cart.work())
    elif kind < waits + 8:
        cart.set(0x0294 + rng.below(4), rng.byte())
    elif kind < waits + 11:
        cart.copy(rng.choice([0x0280, 0x0282, 0x0284, 0x0285, 0x0286, 0x0287]), cart.work())
    elif kind < waits + 12 and rng.chance(40):
        cart.set(VBLANK, rng.byte() & 0xC2 if rng.chance(30) else 0)
    else:
        register = rng.between(0x04, 0x2C)
        if not rng.chance(15):
            cart.lda(rng.byte())
        cart.sta(register)
    if rng.chance(35):
        cart.pause()


def cpu(cart):
    """Random instructions on RAM, decimal and undocumented ones included, with a few TIA writes."""
    rng = cart.rng
    cart.frame(rng.between(0, 40))
    cart.objects()
    while cart.free() > 60:
        kind = rng.below(100)
        if kind < 3:
            cart.wsync()
        elif kind < 6:
            cart.set(rng.between(0x04, 0x2C), rng.byte())
        elif kind < 8:
            # Reset the stack pointer, so that every call can return. The stack is above the
            # RAM that instruction() writes.
            cart.ldx(0xFF - rng.below(4)).emit(0x9A)
            subroutine(cart)
        elif kind < 10:
            cart.emit(rng.choice([0xD8, 0xF8, 0xF8, 0x18, 0x38, 0xB8]))
        else:
            instruction(cart)
    cart.emit(0xD8).quiet().jmp("frame").label("irq").emit(0x40)


def subroutine(cart):
    """Adds a call and its return, or a jump, by one of five kinds of code."""
    rng, here = cart.rng, cart.here()
    kind, name = rng.below(5), f"at{here:x}"
    if kind == 0:
        cart.jsr(name).label(name).emit(0x68, 0x68)
    elif kind == 1:
        cart.jsr(name + "sub").jmp(name).label(name + "sub")
        instruction(cart, stack=False)
        cart.emit(0x60).label(name)
    elif kind == 2:
        # RTI, after pushes of the high byte, the low byte and the flags.
        target = here + 10
        cart.lda(target >> 8).emit(0x48).lda(target & 255).emit(0x48).lda(rng.byte()).emit(0x48, 0x40)
    elif kind == 3:
        target = here + 11
        cart.set(POINTER, target & 255).set(POINTER + 1, target >> 8).emit(0x6C, POINTER, 0)
    else:
        cart.emit(0x00, rng.byte())


STACK = (0x08, 0x28, 0x48, 0x68, 0x9A, 0x9B, 0xBB)  # opcodes that move or set the stack pointer


def instruction(cart, stack=True):
    """Adds an instruction that continues at the next one, or a branch over a NOP."""
    rng = cart.rng
    while True:
        opcode = rng.byte()
        mode = addressing(opcode)
        leaves = opcode in JAMS or mode in ("jmp", "jsr", "brk", "rti", "rts")
        if not leaves and (stack or opcode not in STACK):
            break
    zp = cart.work()
    if mode == "implied":
        cart.emit(opcode)
    elif mode == "imm":
        cart.emit(opcode, rng.byte())
    elif mode == "branch":
        cart.emit(opcode, 1, 0xEA)
    elif mode.startswith("zp"):
        cart.emit(opcode, zp)
    elif mode == "ind,x":
        # The pointer may have any address, those of the TIA and the cartridge included.
        cart.emit(opcode, zp)
    elif mode == "ind,y":
        if rng.chance(80):
            cart.set(POINTER, cart.work()).set(POINTER + 1, rng.choice([0x00, 0x00, 0x01, 0xF1, 0xF7]))
            zp = POINTER
        cart.emit(opcode, zp)
    else:
        cart.emit(opcode, zp, rng.choice([0x00, 0x00, 0x01, 0x0C, 0xF2, 0xF8]))


def wild(seed):
    """Random bytes, with jam opcodes only in every fifth image.

    These images must not crash or hang, but they are not compared with ale-py. Such a
    program soon executes the TIA's addresses, where an opcode depends on the last byte on
    the bus. Between two frames that byte is the one that ale-py's rule for the host has read.
    """
    rng = Random(seed)
    image = bytearray(rng.byte() for _ in range(4090)) + bytes((0, 0xF0)) * 3
    if seed % 5:
        image = bytes(0xEA if value in JAMS else value for value in image)
    return Cartridge(seed, "wild", "tetris", bytes(image))


def palette(lines):
    """All 128 colours, 16 colours in 20 rows, with `lines` lines a frame.

    More than 285 lines are PAL. PAL loses its colours with an odd number of lines.
    """
    cart = Cart(Random(1), "tetris")
    cart.frame(38).set(CTRLPF, 0)
    for first in range(0, 256, 32):
        name = f"band{first}"
        # Eight colours a line, five cycles each, from the first pixel of the line on.
        for half in (first, first + 16):
            cart.ldx(10).label(f"{name}{half}").wsync().delay(14)
            for colour in range(half, half + 16, 2):
                cart.set(0x09, colour)
            cart.emit(0xCA).branch(0xD0, f"{name}{half}")
    used = 3 + 1 + 38 + 160
    cart.ldx(lines - used).label("rest").wsync().emit(0xCA).branch(0xD0, "rest").jmp("frame")
    return Cartridge(lines, "palette", "tetris", cart.image(Random(1)))

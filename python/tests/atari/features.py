"""Cartridges that test one feature each: `KINDS` are functions that write the program.

Each function gets a Cart (cartridges.py) with only its start, and adds the frame. Most
use every cycle of a line, in one or two lines for each cycle.
"""

from asm import CTRLPF, CXCLR, GRP0, GRP1, HMCLR, HMM0, HMOVE, HMP0, JAMS, NUSIZ0, RESBL, RESM0, RESMP0, RESP0, VBLANK, VSYNC

# The hosts of some features; the default is tetris.
HOSTS = {
    "comb": ["tetris", "tetris", "battle_zone"],
    "paddles": ["kaboom", "pong"],
    "short_frames": ["tetris", "journey_escape", "carnival"],
    "long_frames": ["tetris", "keystone_kapers", "qbert"],
}


def scene(cart, low=20, high=40):
    """Adds the start of a frame with all objects on the screen."""
    cart.frame(cart.rng.between(low, high))
    cart.objects()
    if cart.rng.chance(50):
        cart.set(CTRLPF, cart.rng.byte() & 0x31)


def cycles(cart, count=76):
    """Returns the cycles of a line, each once, from a random cycle on in steps of random size."""
    step = cart.rng.choice([1, 1, 3, 5, 7, 9, 11, 13, 15])
    first = cart.rng.below(76)
    return [(first + step * i) % 76 for i in range(count)]


def hmove(cart):
    rng = cart.rng
    scene(cart)
    for cycle in cycles(cart):
        if rng.chance(40):
            cart.set(HMP0 + rng.below(5), rng.byte())
        cart.at(cycle).sta(HMOVE)
        if rng.chance(20):
            cart.delay(rng.between(2, 30)).sta(HMOVE)
        if rng.chance(15):
            cart.delay(rng.between(2, 30)).sta(HMP0 + rng.below(5))
        if rng.chance(5):
            cart.sta(HMCLR)
    cart.jmp("frame")


def resp(cart):
    rng = cart.rng
    scene(cart)
    for cycle in cycles(cart):
        if rng.chance(30):
            cart.set(NUSIZ0 + rng.below(2), rng.byte())
        if rng.chance(20):
            cart.set(GRP0 + rng.below(2), rng.byte())
        cart.at(cycle).sta(RESP0 + rng.below(2))
        if rng.chance(70):
            cart.delay(rng.between(2, 25)).sta(RESP0 + rng.below(2))
        if rng.chance(20):
            cart.sta(RESP0 + rng.below(2))
        if rng.chance(10):
            cart.wsync()
    cart.jmp("frame")


def resm(cart):
    """RESMx and RESBL at every cycle, and a few cycles after HMOVE, where positions differ."""
    rng = cart.rng
    scene(cart)
    for cycle in cycles(cart, 40):
        cart.at(cycle).sta(RESM0 + rng.below(3))
    for first in rng.choice([(3,), (3, 4), (3, 5), (2, 3), (20, 74)]):
        for gap in range(24):
            if cart.free() < 40:
                break
            register = RESM0 + rng.below(3)
            cart.at(first).sta(HMOVE)
            if gap == 1:
                cart.emit(0x8D, register, 0)
            else:
                cart.delay(gap).sta(register)
    cart.jmp("frame")


def nusiz(cart):
    rng = cart.rng
    scene(cart)
    for cycle in cycles(cart):
        cart.lda(rng.byte()).at(cycle).sta(NUSIZ0 + rng.below(2))
        if rng.chance(40):
            cart.pause().lda(rng.byte()).sta(NUSIZ0 + rng.below(2))
        if rng.chance(10):
            cart.set(0x25 + rng.below(3), rng.byte())
    cart.jmp("frame")


def score(cart):
    """Score and priority modes with overlapping objects, switched in the middle of lines."""
    rng = cart.rng
    scene(cart)
    for colour in (6, 7, 8, 9):
        cart.set(colour, rng.byte())
    for cycle in cycles(cart):
        cart.lda(rng.choice([0, 2, 4, 6, 3, 7]) | rng.byte() & 0x30).at(cycle).sta(CTRLPF)
        if rng.chance(40):
            cart.pause().set(CTRLPF, rng.byte() & 0x37)
        elif rng.chance(30):
            # Score and priority together differ if only the playfield is enabled.
            cart.lda(0).sta(rng.choice([GRP0, GRP1, 0x1D, 0x1E, 0x1F]))
        elif rng.chance(30):
            cart.set(rng.choice([GRP0, GRP1, 0x1D, 0x1E, 0x1F, 0x0D, 0x0E, 0x0F]), rng.byte())
    cart.jmp("frame")


def bare_score(cart):
    """Score and priority without any player, missile or ball, then with one of them."""
    rng = cart.rng
    cart.frame(rng.between(20, 40))
    cart.objects()
    for register in (GRP0, GRP1, GRP0, 0x1D, 0x1E, 0x1F):
        cart.set(register, 0)
    for cycle in cycles(cart, 60):
        cart.lda(rng.choice([0, 2, 4, 6, 6])).at(cycle).sta(CTRLPF)
        if rng.chance(20):
            register = rng.choice([GRP0, GRP1, 0x1D, 0x1E, 0x1F, 0x25, 0x26, 0x27, RESMP0])
            cart.set(register, rng.byte()).pause().set(register, 0)
    cart.jmp("frame")


def resmp(cart):
    rng = cart.rng
    scene(cart)
    for cycle in cycles(cart):
        cart.lda(rng.choice([0, 2, 2, 0xFF])).at(cycle).sta(RESMP0 + rng.below(2))
        kind = rng.below(4)
        if kind == 0:
            cart.pause().set(RESMP0 + rng.below(2), rng.choice([0, 2]))
        elif kind == 1:
            cart.set(NUSIZ0 + rng.below(2), rng.byte())
        elif kind == 2:
            cart.pause().sta(rng.choice([HMOVE, RESP0, RESP0 + 1, RESM0, RESM0 + 1]))
    cart.jmp("frame")


def vblank(cart):
    rng = cart.rng
    scene(cart)
    for cycle in cycles(cart):
        cart.lda(rng.choice([2, 2, 0x42, 0x82, 0xC2, 0xFF])).at(cycle).sta(VBLANK)
        if rng.chance(20):
            cart.wsync(rng.between(1, 3))
        cart.pause().set(VBLANK, 0)
        if rng.chance(25):
            cart.copy(rng.below(14), cart.work())
    cart.jmp("frame")


def comb(cart):
    """HMOVE on lines that are drawn early, late or at once, and on the last line of a frame."""
    rng = cart.rng
    scene(cart)
    frames = rng.between(4, 8)
    for i in range(frames):
        for _ in range(rng.between(4, 9)):
            cart.at(rng.choice([0, 1, 2, 3, 3, 5, 10, 15, 19, 20, 21, 22, 54, 74, 75])).sta(HMOVE)
            if rng.chance(60):
                cart.delay(rng.between(2, 40)).sta(rng.choice([0x09, 0x0D, 0x1B, 0x1C, CXCLR]))
        cart.set(VSYNC, 2).wsync(rng.between(1, 4))
        if rng.chance(70):
            cart.at(rng.choice([3, 3, 4, 8, 75])).sta(HMOVE)
        if rng.chance(60):
            cart.delay(rng.between(2, 24)).copy(rng.below(8), cart.work())
        cart.delay(rng.between(2, 40)).set(VSYNC, 0)
        if i < frames - 1:
            cart.wsync(rng.between(1, 3)).sta(0x09).ldx(rng.between(20, 60))
            name = f"more{i}"
            cart.label(name).wsync().emit(0xCA).branch(0xD0, name)
    cart.jmp("frame")


def collisions(cart):
    rng = cart.rng
    scene(cart)
    while cart.free() > 60:
        kind = rng.below(10)
        if kind < 5:
            cart.copy(rng.below(8) + rng.choice([0, 0, 0, 0x30]), cart.work())
        elif kind < 6:
            cart.sta(CXCLR)
        elif kind < 8:
            cart.set(rng.choice([GRP0, GRP1, 0x1D, 0x1E, 0x1F, 0x0D, 0x0E, 0x0F, NUSIZ0, RESMP0]), rng.byte())
        else:
            cart.sta(rng.choice([RESP0, RESP0 + 1, RESM0, RESM0 + 1, RESBL, HMOVE]))
        if rng.chance(25):
            cart.wsync()
        cart.pause()
    cart.jmp("frame")


def paddles(cart):
    """Capacitors dumped and read on every line; the program stores the reads in RAM."""
    rng = cart.rng
    cart.frame(rng.between(0, 30))
    cart.set(VBLANK, rng.choice([0x80, 0x82, 0xC0])).wsync(rng.between(0, 5)).pause()
    if rng.chance(80):
        cart.set(VBLANK, rng.choice([0, 2, 0x40]))
    for _ in range(rng.between(100, 230)):
        if cart.free() < 60:
            break
        if rng.chance(60):
            cart.wsync()
        cart.copy(rng.choice([8, 9, 10, 11, 12, 13, 0x38, 0x0280, 0x0281, 0x0282, 0x0283]), cart.work())
        if rng.chance(3):
            cart.set(VBLANK, rng.choice([0x80, 0x00, 0x42]))
        if rng.chance(3):
            cart.set(rng.choice([0x0280, 0x0281, 0x0282, 0x0283]), rng.byte())
        cart.pause()
    cart.jmp("frame")


def stack(cart):
    """The stack in the TIA: two or three writes of one instruction at one clock."""
    rng = cart.rng
    scene(cart)
    while cart.free() > 80:
        cart.ldx(rng.between(0x04, 0x30)).emit(0x9A)
        for _ in range(rng.between(1, 4)):
            kind = rng.below(6)
            name = f"at{cart.here():x}"
            if kind < 2:
                cart.lda(rng.byte()).emit(0x48)
            elif kind == 2:
                cart.emit(0x08)
            elif kind == 3:
                cart.jsr(name).label(name)
            elif kind == 4:
                cart.emit(0x68).sta(cart.work())
            else:
                cart.emit(0x28, 0xD8)
        if rng.chance(20):
            # JSR's second push writes WSYNC, which then does not wait.
            name = f"push{cart.here():x}"
            cart.ldx(rng.choice([2, 3])).emit(0x9A).jsr(name).label(name)
        if rng.chance(30):
            cart.wsync()
        cart.pause()
    cart.ldx(0xFF).emit(0x9A).jmp("frame")


def indirect(cart):
    """Pointers and indexes into the TIA, read-modify-writes of it, and the pointer at $FF."""
    rng = cart.rng
    pointer = 0xC2
    scene(cart)
    while cart.free() > 80:
        register = rng.between(0x04, 0x2C)
        kind = rng.below(8)
        if kind == 0:
            index = rng.byte()
            cart.set(pointer, (register - index) & 255).set(pointer + 1, 1 if index > register else 0).ldy(index)
            cart.lda(rng.byte()).emit(rng.choice([0x91, 0x91, 0xB1, 0x71, 0x93, 0xB3]), pointer)
        elif kind == 1:
            index = rng.byte()
            cart.set(pointer, register).set(pointer + 1, 0).ldx(index).lda(rng.byte())
            cart.emit(rng.choice([0x81, 0x81, 0x83, 0xA1, 0xC3, 0xE3]), (pointer - index) & 255)
        elif kind == 2:
            cart.ldy(register).lda(rng.byte()).emit(rng.choice([0x91, 0xB1]), 0xFF)
        elif kind == 3:
            # INC, DEC, ASL, LSR, ROL, ROR and their undocumented combinations.
            cart.emit(rng.choice([0xE6, 0xC6, 0x06, 0x46, 0x26, 0x66, 0x07, 0x47, 0xC7, 0xE7]), register)
        elif kind == 4:
            index = rng.byte()
            base = register - index & 0xFFFF
            opcode = rng.choice([0x9D, 0xBD, 0xFE, 0xDE, 0x1C, 0x1F])
            cart.ldx(index).lda(rng.byte()).emit(opcode, base & 255, base >> 8 & 0x0D)
        elif kind == 5:
            index = rng.byte()
            cart.ldx(index).lda(rng.byte()).emit(rng.choice([0x95, 0xB5, 0xF6, 0x94]), (register - index) & 255)
        elif kind == 6:
            cart.read(rng.below(16) | rng.choice([0, 0x10, 0x20, 0x30, 0x40, 0x0100, 0x0140])).sta(cart.work())
        else:
            cart.lda(rng.byte()).emit(rng.choice([0x8D, 0x8F, 0x0C]), register | rng.choice([0, 0x40]), 0)
        if rng.chance(20):
            cart.wsync()
        cart.pause()
    cart.jmp("frame")


def timer(cart):
    rng = cart.rng
    cart.frame(rng.between(0, 40))
    cart.set(0x0294 + rng.below(4), rng.byte())
    while cart.free() > 80:
        kind = rng.below(10)
        if kind < 6:
            cart.copy(rng.choice([0x0284, 0x0284, 0x0285, 0x0286, 0x0287, 0x028C, 0x02FD]), cart.work())
        elif kind < 7:
            cart.set(rng.choice([0x0294, 0x0295, 0x0296, 0x0297, 0x029C, 0x029F]), rng.byte() >> rng.below(8))
        elif kind < 8:
            cart.delay(rng.between(12, 900) if rng.chance(50) else rng.between(2, 70))
        else:
            cart.wsync(rng.between(1, 4))
        cart.pause()
    # Some timers run over several frames.
    cart.jmp("frame")


def short_frames(cart):
    """Frames that end before the image does, so old rows remain."""
    rng = cart.rng
    scene(cart, 0, 40)
    for i in range(rng.between(2, 6)):
        cart.set(0x09, rng.byte()).set(0x0E, rng.byte()).ldx(rng.between(1, 220))
        name = f"part{i}"
        cart.label(name).wsync().emit(0x86, 0x1B, 0xCA).branch(0xD0, name)
        cart.set(VSYNC, 2).delay(rng.between(77, 400)).set(VSYNC, rng.choice([0, 0, 1, 0xFD])).pause()
        if rng.chance(30):
            # VSYNC is too short to end the frame.
            cart.set(VSYNC, 2).delay(rng.between(2, 74)).set(VSYNC, 0).pause()
    cart.jmp("frame")


def long_frames(cart):
    """Frames that end after line 290, or after line 342 for PAL."""
    rng = cart.rng
    scene(cart, 0, 60)
    for i in range(rng.between(2, 4)):
        cart.set(0x09, rng.byte()).ldx(rng.between(100, 255))
        name = f"part{i}"
        # Writes to the TIA end such a frame, reads do not.
        body = rng.choice([(0x86, 0x1B), (0x86, 0x1B, 0xA5, 0x02), (0x86, 0x0F, 0x86, 0x16)])
        cart.label(name).wsync().emit(*body, 0xCA).branch(0xD0, name)
        cart.copy(rng.below(8), cart.work()).pause()
    cart.jmp("frame")


def ark(cart):
    """HMM0 changed from 7 to 6 at 21 cycles after HMOVE, and near that cycle."""
    rng = cart.rng
    scene(cart)
    for _ in range(rng.between(20, 50)):
        if cart.free() < 80:
            break
        cart.set(HMM0, rng.choice([0x70, 0x70, 0x7F, 0x60, 0x80])).lda(rng.choice([0x60, 0x60, 0x6F, 0x50, 0x70]))
        cart.at(rng.choice([3, 3, 4, 10, 60])).sta(HMOVE)
        cart.delay(rng.choice([18, 18, 18, 17, 19])).sta(HMM0)
        for _ in range(rng.between(1, 7)):
            cart.wsync()
            if rng.chance(30):
                cart.delay(rng.between(2, 60))
                if rng.chance(50):
                    cart.lda(rng.byte()).sta(NUSIZ0)
                else:
                    cart.sta(rng.choice([RESM0, RESMP0, RESP0, HMM0]))
    cart.jmp("frame")


def endless(cart):
    """Frames without VSYNC: the call returns after 25,000 instructions in an unfinished frame."""
    rng = cart.rng
    scene(cart)
    if rng.chance(30):
        # With WSYNC in the loop line 290 comes before 25,000 instructions, without WSYNC after.
        cart.label("loop").set(0x09, rng.byte()).wsync().jmp("loop")
        return
    cart.ldy(0).ldx(0).label("loop")
    for _ in range(rng.between(1, 4)):
        opcode = rng.choice([0xC8, 0xEA, 0x18, 0xE6])
        cart.emit(opcode, *([cart.work()] if opcode == 0xE6 else []))
    if rng.chance(50):
        cart.copy(rng.below(14), cart.work())
    cart.emit(0xE8).branch(0xD0, "loop")
    # After a multiple of 256 turns, a store that may end the frame or change its colour.
    cart.emit(0xE6, cart.work())
    if rng.chance(70):
        cart.emit(0xE6, 0x81, 0xA5, 0x81, 0x29, rng.choice([0x1F, 0x3F, 0x7F]), 0xD0, 2).emit(0x84, 0x09)
    if rng.chance(50):
        cart.emit(0xE6, 0x82, 0xA5, 0x82, 0xC9, rng.between(90, 250), 0xD0, 8)
        cart.set(VSYNC, 2).set(VSYNC, 0)
    cart.jmp("loop")


def jam(cart):
    """A jam opcode in the middle of a frame, in the first frame or later."""
    rng = cart.rng
    scene(cart)
    for cycle in cycles(cart, rng.between(3, 30)):
        cart.at(cycle).sta(rng.between(0x04, 0x2C))
    if rng.chance(70):
        when = rng.between(66, 76) if rng.chance(80) else rng.between(1, 65)
        cart.emit(0xA5, 0xC0, 0xC9, when, 0xD0, 1)
    cart.emit(rng.choice(JAMS)).wsync(4).jmp("frame")


KINDS = [
    hmove, resp, resm, nusiz, score, bare_score, resmp, vblank, comb, collisions,
    paddles, stack, indirect, timer, short_frames, long_frames, ark, endless, jam,
]  # fmt: skip

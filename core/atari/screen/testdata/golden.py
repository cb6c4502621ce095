"""Writes golden.txt to its own folder: SHA-256 sums of OpenCV's and ALE's results for images
that the tests generate, too. Needs numpy, opencv-python-headless and ale-py 0.12.1. The script
makes its own cartridges, which draw each line in one colour."""

import hashlib
import pathlib
import tempfile

import ale_py
import cv2
import numpy as np

WIDTH = 160
SIZES = ((84, 84), (80, 104), (80, 105), (160, 210), (64, 64), (96, 96), (83, 83), (42, 42), (16, 21), (32, 70), (53, 70), (1, 1))


def splitmix(seed, n):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))).astype(np.uint8)


def noise(rows, seed):
    return splitmix(seed, rows * WIDTH).reshape(rows, WIDTH)


def blocks(rows, seed):
    high = (rows + 2) // 3
    few = splitmix(seed, high * WIDTH // 4).reshape(high, WIDTH // 4)
    return np.kron(few, np.ones((3, 4), np.uint8))[:rows]


def brighter(rows, colours=lambda image: image):
    for make in noise, blocks:
        yield np.maximum(colours(make(rows, rows)), colours(make(rows, 1000 + rows)))


def summed(images):
    return hashlib.sha256(b"".join(p.tobytes() for p in images)).hexdigest()


def resized(rows, w, h):
    return summed(cv2.resize(p, (w, h), interpolation=cv2.INTER_AREA) for p in brighter(rows))


def rgb(image):
    """The channels of the tests' palette."""
    return np.stack([image, 255 - image, image * np.uint8(7)], axis=2)


def resized_rgb(rows, w, h):
    return summed(cv2.resize(p, (w, h), interpolation=cv2.INTER_AREA) for p in brighter(rows, rgb))


def torch_scale(lines, to):
    """Torch's image.scale, 'bilinear', of the first axis to a smaller size. Every number is a
    float32, as in Torch's C code."""
    one, given = np.float32(1), len(lines)
    scale = np.float32(given) / np.float32(to)
    edges = np.arange(to + 1).astype(np.float32) * scale
    whole = np.floor(edges)
    parts = edges - whole
    out = []
    for i in range(to):
        first, last = int(whole[i]), int(whole[i + 1])
        share = one - parts[i]
        total, weights = share * lines[first], share
        for line in lines[first + 1 : last]:
            total, weights = total + line, weights + one
        if last < given:
            total, weights = total + parts[i + 1] * lines[last], weights + parts[i + 1]
        out.append(total / weights)
    out = np.stack(out)
    assert out.dtype == np.float32
    return out


def torch_luma(rgb):
    """Torch's image.rgb2y: sums in float64, stored as float32."""
    red, green, blue = np.moveaxis(rgb.astype(np.float32) / np.float32(255), 2, 0).astype(np.float64)
    return (0.299 * red + 0.587 * green + 0.114 * blue).astype(np.float32)


def lumas(rows, w, h):
    def scaled(luma):
        return torch_scale(np.ascontiguousarray(torch_scale(luma.T, w).T), h)

    return summed((scaled(torch_luma(p)) * np.float32(255)).astype(np.uint8) for p in brighter(rows, rgb))


def halves(rows):
    """With cv2.resize's default interpolation, as in accel_rl."""
    return summed(cv2.resize(p[:-2], (WIDTH // 2, rows // 2 - 1)) for p in brighter(rows))


VSYNC, VBLANK, WSYNC, COLUBK = 0x00, 0x01, 0x02, 0x09
COUNT, NOISE = 0x80, 0x82  # the number of the frame, and a shift register


class Program:
    """A small assembler."""

    def __init__(self):
        self.code, self.labels, self.branches, self.jumps = bytearray(), {}, [], []

    def emit(self, *code):
        self.code += bytes(code)

    def label(self, name):
        self.labels[name] = len(self.code)

    def branch(self, opcode, name):
        self.emit(opcode, 0)
        self.branches.append((len(self.code) - 1, name))

    def jump(self, name):
        self.emit(0x4C, 0, 0)
        self.jumps.append((len(self.code) - 2, name))

    def wait(self, lines):
        while lines > 0:
            some = min(lines, 255)
            name = f"wait {len(self.code)}"
            self.emit(0xA2, some)  # LDX #some
            self.label(name)
            self.emit(0x85, WSYNC, 0xCA)  # STA WSYNC; DEX
            self.branch(0xD0, name)  # BNE
            lines -= some

    def image(self):
        for at, name in self.branches:
            distance = self.labels[name] - at - 1
            assert -128 <= distance < 128
            self.code[at] = distance & 0xFF
        for at, name in self.jumps:
            self.code[at : at + 2] = (0xF000 + self.labels[name]).to_bytes(2, "little")
        return bytes(self.code).ljust(4092, b"\xff") + b"\x00\xf0\x00\xf0"


def cartridge(lines, wobble=False, jam=False):
    """Odd frames show colour 2*i in line i of 128. Even frames show one colour, the number of
    the frame. wobble makes random frames a line longer. jam stops the processor in the middle
    of frame 181."""
    p = Program()
    p.emit(0x78, 0xD8, 0xA2, 0xFF, 0x9A)  # SEI; CLD; LDX #$FF; TXS
    p.emit(0xA9, 0, 0x85, COUNT, 0xA9, 0xE1, 0x85, NOISE + 1)
    p.label("frame")
    p.emit(0xA9, 2, 0x85, VSYNC, 0x85, WSYNC, 0x85, WSYNC, 0x85, WSYNC)
    p.emit(0xA9, 0, 0x85, VSYNC, 0x85, VBLANK)
    if jam:
        p.emit(0xA5, COUNT, 0xC9, 181)  # LDA COUNT; CMP #181
        p.branch(0xD0, "goes on")
        p.wait(80)
        p.emit(0x02)
        p.label("goes on")
    p.emit(0xA5, COUNT, 0x4A)  # LDA COUNT; LSR
    p.branch(0xB0, "card")
    p.emit(0xA5, COUNT, 0x85, COLUBK)
    p.wait(lines - 3)
    p.jump("end")
    p.label("card")
    p.wait(40)
    p.emit(0xA0, 0)  # LDY #0
    p.label("line")
    p.emit(0x85, WSYNC, 0x98, 0x0A, 0x85, COLUBK, 0xC8)  # TYA; ASL; STA COLUBK; INY
    p.emit(0xC0, 128)  # CPY #128
    p.branch(0xD0, "line")
    p.wait(lines - 3 - 40 - 128)
    p.label("end")
    p.emit(0xE6, COUNT)
    if wobble:
        p.emit(0x46, NOISE + 1, 0x66, NOISE)  # a shift register of 16 bits
        p.branch(0x90, "no tap")
        p.emit(0xA5, NOISE + 1, 0x49, 0xB4, 0x85, NOISE + 1)
        p.label("no tap")
        p.emit(0xA5, NOISE, 0x4A)
        p.branch(0x90, "short")
        p.emit(0x85, WSYNC)
        p.label("short")
    p.jump("frame")
    return p.image()


def play(image, averaging):
    """ALE accepts any image with the file name of a known game."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tetris.bin"
        path.write_bytes(image)
        ale = ale_py.ALEInterface()
        ale.setBool("color_averaging", averaging)
        ale.setFloat("repeat_action_probability", 0.0)
        ale.loadROM(path)
    return ale


def colours(images, wanted):
    """grey, red, green, blue of each wanted colour byte."""
    seen = {}
    for image in images:
        ale = play(image, False)
        for _ in range(600):
            ale.act(0)
            lines = ale.getScreen()[:, 5], ale.getScreenGrayscale()[:, 5], ale.getScreenRGB()[:, 5]
            for byte, grey, rgb in zip(*lines):
                looks = bytes([grey, *rgb])
                assert seen.setdefault(int(byte), looks) == looks
            if set(wanted) <= seen.keys():
                break
    return hashlib.sha256(b"".join(seen[byte] for byte in wanted)).hexdigest()


def averages(image, wanted):
    """The result of colour averaging for each pair of wanted colour bytes."""
    plain, average = play(image, False), play(image, True)
    table = np.full((256, 256), -1)
    before = plain.getScreen()[:, 5].copy()
    pairs = np.ix_(wanted, wanted)
    for _ in range(40000):
        plain.act(0)
        average.act(0)
        now, shown = plain.getScreen()[:, 5].copy(), average.getScreen()[:, 5].astype(int)
        old = table[now, before]
        assert ((old == -1) | (old == shown)).all()
        table[now, before] = shown
        before = now
        if (table[pairs] >= 0).all():
            return hashlib.sha256(table[pairs].astype(np.uint8).tobytes()).hexdigest()
    raise RuntimeError("not all pairs of colours were seen")


def main():
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    even = list(range(0, 256, 2))
    ntsc, pal = cartridge(262), cartridge(312, wobble=True)
    out = {
        "colours ntsc": colours([ntsc, cartridge(262, jam=True)], [*even, 1, 3, 5, 7]),
        "colours pal": colours([pal], range(256)),
        "averages ntsc": averages(ntsc, even),
        "averages pal": averages(pal, list(range(256))),
    }
    for rows in 84, 208, 209, 210, 214, 220, 230, 250, 256:
        for w, h in SIZES:
            if h <= rows:
                out[f"resize {rows} {w} {h}"] = resized(rows, w, h)
    for rows in 84, 208, 210, 250, 256:
        for w, h in (84, 84), (80, 104), (80, 105), (160, 210), (96, 96), (83, 83), (42, 42), (32, 70), (1, 1):
            if h <= rows:
                out[f"rgb {rows} {w} {h}"] = resized_rgb(rows, w, h)
                out[f"luma {rows} {w} {h}"] = lumas(rows, w, h)
    for rows in 4, 210, 220, 250, 256:
        out[f"half {rows}"] = halves(rows)
    path = pathlib.Path(__file__).with_name("golden.txt")
    path.write_text("".join(f"{name}: {digest}\n" for name, digest in out.items()))


main()

"""Writes golden.txt: the results of the rules by Python's eval.

    python3 golden.py > golden.txt

The script checks the compiler. Python evaluates the texts of the rules, with a few
spellings changed, on RAM that both sides draw from the same random numbers. Each game
has a line: its id, the places and values that RAM is drawn from, the numbers of frames
with an end of the game, with a reward and with the mode selected, and a hash of all
results.
"""

import pathlib
import re
import struct

FRAMES = 1500
EPISODE = 50
MASK = (1 << 64) - 1


def dec(v):
    return 10 * (v >> 4) + (v & 15)


def bcd(*bytes_):
    return sum(dec(b) * 100**i for i, b in enumerate(bytes_))


def signed(v):
    return v - 256 if v > 127 else v


def digit(v):
    return 0 if v & 15 == 10 else v & 15


def among(values):
    return values if isinstance(values, tuple) else (values,)


FUNCTIONS = {
    "bcd": bcd,
    "signed": signed,
    "digit": digit,
    "tens": lambda v: 0 if v >> 4 == 10 else v >> 4,
    "glyph": lambda v: v // 8 if v in range(0, 80, 8) else 0,
    "glyph80": lambda v: 0 if v == 0x80 else v >> 3,
    "bits": lambda v: bin(v).count("1"),
    "count": lambda values, *cells: sum(c in among(values) for c in cells),
    "positive": lambda *cells: sum(signed(c) for c in cells if signed(c) > 0),
    "negative": lambda *cells: sum(signed(c) for c in cells if signed(c) < 0),
    "digits": lambda *cells: sum(digit(c) * 10**i for i, c in enumerate(cells)),
    "uniform": lambda n, *cells: sum(len(set(cells[i : i + n])) == 1 for i in range(0, len(cells), n)),
}


def python(text):
    """Returns the rule's text as Python code."""
    text = re.sub(r"\$(\w\w)\.\.\$(\w\w)", r"*r[0x\1-0x80:0x\2-0x7F]", text)
    return re.sub(r"\$(\w\w)", r"r[0x\1-0x80]", text)


class Game:
    def __init__(self, name):
        self.name, self.init, self.step, self.chosen, self.select = name, "", "", "", "True"
        self.lives, self.keep, self.modes = "0 if T else L", [], [0]

    def compile(self):
        self.chosen, self.init, step = (compile(python(t), self.name, "exec") for t in (self.chosen, self.init, self.step))
        self.reward = not re.search(r"(^|; )R=", self.step)
        self.step = step
        self.select, self.lives = (compile(python(t), self.name, "eval") for t in (self.select, self.lives))

    def load(self):
        self.vars = dict(FUNCTIONS, S=0, s=0, R=0, T=False, L=0, r=[0] * 128)
        exec(self.init, self.vars)

    def start(self):
        kept = {k: self.vars[k] for k in self.keep}
        self.load()
        self.vars.update(kept)

    def frame(self, ram, cart):
        v = self.vars
        v.update(r=ram, M=lambda a: cart[a & 255])
        v["S"] = v["s"]
        exec(self.step, v)
        if self.reward:
            v["R"] = v["S"] - v["s"]
        v["s"] = v["S"]
        return int(v["R"]), int(v["T"]), int(eval(self.lives, v))

    def choose(self, mode):
        self.vars["m"] = mode
        exec(self.chosen, self.vars)

    def selected(self, mode):
        self.vars["m"] = mode
        return int(bool(eval(self.select, self.vars)))


def ranges(text):
    out = []
    for part in text.split(","):
        span, _, again = part.partition("+")
        lo, _, hi = span.partition("-")
        by, _, times = again.partition("*")
        for k in range(int(times or 0) + 1):
            out += [v + k * int(by or 0) for v in range(int(lo), int(hi or lo) + 1)]
    return out


def parse(text):
    games = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        key, _, value = line.strip().partition(" ")
        if not line[0].isspace():
            games.append(Game(key))
            continue
        g = games[-1]
        if key == "modes":
            g.modes = ranges(value)
        elif key == "select":
            g.select = value.partition(" until ")[2]
        elif key == "keep":
            g.keep = value.split()
        elif key == "step" and g.step:
            g.step += "; " + value
        elif key in ("init", "step", "chosen", "lives"):
            setattr(g, key, value)
    return [g for g in games if g.step]


def hints(g):
    """Returns the places of RAM that the rules read (index, or 128 + index for the
    cartridge's RAM), the values in the rules, and the pairs of place and value that the
    rules compare."""
    text = "; ".join((g.step, g.select))
    number = r"(0x[0-9A-Fa-f]+|\d+)"
    places = sorted(
        {int(a, 16) - 128 for a in re.findall(r"\$(\w\w)", text)} | {128 + (int(a, 16) & 255) for a in re.findall(r"M\((0x\w+)\)", text)}
    )
    values = {int(n, 0) & 255 for n in re.findall(r"(?<![$\w])" + number, text)}
    values |= {-v & 255 for v in values} | {0, 1, 255} | {m for m in g.modes[:32] if m < 256}
    pairs = sorted({(int(a, 16) - 128, int(v, 0) & 255) for a, v in re.findall(r"\$(\w\w)==" + number, text)})
    return places, sorted(values), pairs


def run(g, places, values, pairs, seed):
    state = seed

    def rnd(n):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        return (state >> 33) % n

    memory = [rnd(256) for _ in range(384)]
    digest, counts = 0xCBF29CE484222325, [0, 0, 0]
    g.load()
    for frame in range(FRAMES):
        if frame % EPISODE == 0:
            g.start()
            mode = g.modes[rnd(len(g.modes))]
            g.vars["r"] = memory[:128]
            g.choose(mode)
        for _ in range(1 + rnd(4)):
            kind = rnd(32)
            if kind == 0:  # many equal bytes, as on boards
                lo, v = rnd(128), values[rnd(len(values))]
                for i in range(lo, min(128, lo + 1 + rnd(128))):
                    memory[i] = v
            elif kind < 16 and pairs:
                a, v = pairs[rnd(len(pairs))]
                memory[a] = v
            elif kind < 30:
                a = places[rnd(len(places))]
                memory[a] = (values[rnd(len(values))] + rnd(3) - 1) & 255
            else:
                a = rnd(384)
                memory[a] = rnd(256)
        reward, terminal, lives = g.frame(memory[:128], memory[128:])
        found = g.selected(mode)
        counts[0] += terminal
        counts[1] += reward != 0
        counts[2] += found
        for b in struct.pack("<qqqq", reward, terminal, lives, found):
            digest = ((digest ^ b) * 0x100000001B3) & MASK
    return counts, digest


def listed(items):
    return ",".join(items) or "-"


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent
    games = [g for f in ("games_a_j.txt", "games_k_z.txt") for g in parse((folder / f).read_text())]
    print("# id, places, values, place=value, frames over, rewarded, selected, hash: golden.py")
    for seed, g in enumerate(games):
        places, values, pairs = hints(g)
        g.compile()
        counts, digest = run(g, places, values, pairs, seed)
        print(g.name, listed(map(str, places)), listed(map(str, values)), listed(f"{a}={v}" for a, v in pairs), *counts, f"{digest:016x}")


if __name__ == "__main__":
    main()

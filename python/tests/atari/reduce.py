"""Finds an instruction at which a generated cartridge starts to differ from ale-py:

    python python/tests/atari/reduce.py 137 [--frames 8]

The script cuts the program short with a jump to the next frame. By bisection it finds a
place where the cut program is equal on both sides, and the next place, where it differs. It
prints the code between the two places and the difference. Earlier instructions may differ, too.
"""

import argparse
import sys
import tempfile

import consoles
from cartridges import cartridge, cut
from duel import compare
from long import silence_stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("--frames", type=int, default=8)
    options = parser.parse_args()
    sides = consoles.ours(), consoles.theirs()
    silence_stderr()
    whole = cartridge(options.number)
    with tempfile.TemporaryDirectory() as folder:

        def difference(program):
            return compare(*sides, consoles.put(folder, program), options.frames, options.number).difference

        found = difference(whole)
        print(f"cartridge {whole.seed} ({whole.kind}, {whole.host}): {found or 'no difference'}")
        places = [address for address in whole.cuts if address > whole.frame]
        if not found or not places:
            return 1 if found else 0
        low, high = 0, len(places)  # a cut at low is equal, a cut at high differs
        while high - low > 1:
            middle = (low + high) // 2
            result = difference(cut(whole, places[middle]))
            low, high, found = (low, middle, result) if result else (middle, high, found)
        end = places[high] if high < len(places) else places[-1] + 16
        for text, first, last in (("before", places[max(low - 12, 0)], places[low]), ("with", places[low], end)):
            code = whole.image[first & 0xFFF : last & 0xFFF].hex(" ")
            print(f"{text:>6} ${first:04X}: {code}")
        print(f"  then {found}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

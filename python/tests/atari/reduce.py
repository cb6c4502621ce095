"""Finds the instruction at which a generated cartridge begins to differ:

    python python/tests/atari/reduce.py 137 [--frames 8]

The program is cut short with a jump to the next frame, at places found by bisection:
cut at one place both sides still agree, cut at the next they do not. What lies between
is printed with the difference. An earlier place may differ too; this is one of them.
"""

import argparse
import sys
import tempfile

import consoles
from cartridges import cartridge, cut
from duel import compare
from long import hush


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("--frames", type=int, default=8)
    options = parser.parse_args()
    sides = consoles.ours(), consoles.theirs()
    hush()
    whole = cartridge(options.number)
    with tempfile.TemporaryDirectory() as folder:

        def difference(program):
            return compare(*sides, consoles.put(folder, program), options.frames, options.number).difference

        found = difference(whole)
        print(f"cartridge {whole.seed} ({whole.kind}, {whole.host}): {found or 'no difference'}")
        places = [address for address in whole.cuts if address > whole.frame]
        if not found or not places:
            return 1 if found else 0
        low, high = 0, len(places)  # agree when cut at low, differ when cut at high
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

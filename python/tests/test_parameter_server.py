"""The server of examples/cpp/parameter_server.cpp outlives its learners, wherever in a message they end."""

import re
import shutil
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from paceline import _lib

CHECKOUT = Path(__file__).resolve().parents[2]
SOURCE = CHECKOUT / "examples" / "cpp" / "parameter_server.cpp"
REQUEST, REPLY = struct.Struct("Qdqqqq"), struct.Struct("QqqII")

pytestmark = pytest.mark.skipif(not shutil.which("c++") or not SOURCE.exists(), reason="no C++ compiler, or no checkout")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    library, built = _lib.find(), tmp_path_factory.mktemp("cpp") / "parameter_server"
    flags = ["-std=c++17", "-O1", f"-I{CHECKOUT / 'include'}", SOURCE, library, f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["c++", *flags, "-o", built], check=True)
    return built


def request(numbers, step):
    """A message with a gradient of that many numbers, or, with 0, a pull."""
    return REQUEST.pack(numbers, 1e-3, 0, 0, 0, step) + struct.pack(f"{numbers}f", *[1.0] * numbers)


def replied(sock):
    """The number of parameters in a reply, whose bytes are read to the end."""
    numbers = REPLY.unpack(read(sock, REPLY.size))[0]
    read(sock, 4 * numbers)
    return numbers


def read(sock, size):
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        assert part, "the server has ended"
        found += part
    return found


@pytest.mark.parametrize("ends", ["in its gradient", "in its request", "before the reply", "with the reply unread"])
def test_a_learner_that_ends_ends_nothing_else(program, tmp_path, ends):
    dying, theirs = socket.socketpair()
    living, other = socket.socketpair()
    for end in (dying, living):
        end.settimeout(60)
    fds = [end.fileno() for end in (theirs, other)]
    file = tmp_path / "parameters.store"
    server = subprocess.Popen([program, "server", file, *map(str, fds)], pass_fds=fds, stdout=subprocess.PIPE, text=True)
    theirs.close(), other.close()
    with server:
        living.sendall(request(0, 0))
        numbers = replied(living)
        dying.sendall(request(numbers, 1)[: {"in its gradient": 2000, "in its request": 20}.get(ends)])
        if ends == "with the reply unread":
            living.sendall(request(0, 0))  # the second reply comes after the first one, of which bytes are unread then
            replied(living)
            dying.sendall(request(0, 0))
        dying.close()
        living.sendall(request(numbers, 1))
        assert replied(living) == numbers
        living.close()
        assert server.wait(60) == 0
        says = server.stdout.read()
    # A half gradient is not pushed; a whole one of this key is pushed once.
    assert file.exists() and re.search(r'"version":1,', says), says


@pytest.mark.parametrize("given", ["0", "-1", "abc", "2x", "", "3000000000"])
@pytest.mark.parametrize("name, before", [("learners", []), ("steps", ["2"])])
def test_wrong_numbers_are_one_sentence(program, tmp_path, name, before, given):
    done = subprocess.run([program, *before, given], capture_output=True, text=True, timeout=60, env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 1 and done.stderr == f"{name}: {given}, must be a whole number of at least 1\n"


def test_no_file_is_left(program, tmp_path):
    done = subprocess.run([program, "1", "2000"], capture_output=True, text=True, timeout=300, env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0 and "greedy policy" in done.stdout
    assert not list(tmp_path.iterdir())

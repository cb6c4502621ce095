"""The pool of result blocks: which thread holds a block."""

import sys
import threading
import time

import numpy as np
import pytest

from paceline.envs._rows import COUNTED, Pool
from paceline.spaces import ObsLayout


@pytest.fixture
def pool():
    return Pool(COUNTED, 2, ObsLayout((3,), np.dtype(np.float32)), [], False)


@pytest.mark.skipif(not COUNTED, reason="references are not counted in a free-threaded Python: vectors return copies")
def test_a_block_is_reused_after_its_last_reference(pool):
    first = pool.take()
    held = first.obs[1]
    pool.give(first)
    second = pool.take()
    assert second is not first
    pool.give(second)
    assert pool.take() is second
    del held
    assert pool.take() is first


def test_threads_never_hold_the_same_block(pool):
    taken, failures = set(), []
    over = time.monotonic() + 1

    def use():
        try:
            while time.monotonic() < over:
                block = pool.take()
                assert id(block) not in taken
                taken.add(id(block))
                taken.remove(id(block))
                pool.give(block)
        except Exception as err:
            failures.append(err)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures[0]

"""Trains in bf16. With "small", another thread has a signal stack too small for AMX tiles.

Prints a hash of the weights, and whether a thread can still have such a stack.
"""

import ctypes
import hashlib
import sys
import threading

import paceline


class Stack(ctypes.Structure):
    _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


memory = ctypes.create_string_buffer(8192)


def take_small_stack():
    return ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, len(memory))), None) == 0


def wait():
    assert take_small_stack()
    ready.set()
    over.wait()


ready, over = threading.Event(), threading.Event()
if "small" in sys.argv:
    threading.Thread(target=wait, daemon=True).start()
    assert ready.wait(10)
model = paceline.DQN("MlpPolicy", "CartPole-v1", precision="bf16", learning_starts=100, train_freq=1, seed=3)
model.learn(1000)
weights = b"".join(array.tobytes() for array in model.get_parameters()["policy"].values())
result = []
other = threading.Thread(target=lambda: result.append(take_small_stack()))
other.start()
other.join()
print(hashlib.sha256(weights).hexdigest(), result[0])
over.set()

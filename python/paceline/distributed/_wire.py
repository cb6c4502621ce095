"""Gradients as they travel: float32, or bfloat16 with error feedback."""

from __future__ import annotations

import numpy as np

from ..spaces import Array


def to_bf16(values: Array) -> Array:
    """float32 to bfloat16 (uint16), rounded to the nearest, ties to even. Values are finite."""
    bits = values.view(np.uint32)
    return ((bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)).astype(np.uint16)


def from_bf16(values: Array) -> Array:
    """bfloat16 (uint16) to float32, without rounding."""
    return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)


class Encoder:
    """Encodes the gradients of one learner.

    With bf16 the error of each rounding is added to the next gradient, so that the sum of what was
    sent differs from the sum of the gradients by one rounding, whatever the number of steps.
    """

    def __init__(self, size: int, bf16: bool) -> None:
        self._error = np.zeros(size, np.float32) if bf16 else None

    def encode(self, gradient: Array) -> Array:
        """Returns gradient itself, or a new array of uint16. gradient: float32 [size]."""
        if self._error is None:
            return gradient
        self._error += gradient
        sent = to_bf16(self._error)
        self._error -= from_bf16(sent)
        return sent


def decode(gradient: Array) -> Array:
    """What encode returned, as float32."""
    return from_bf16(gradient) if gradient.dtype == np.uint16 else gradient

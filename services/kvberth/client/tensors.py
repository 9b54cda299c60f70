"""Tells an engine's arrays apart: numpy's, torch's in host memory, torch's on a GPU. Imports no torch.

Whoever hands a tensor over has torch loaded. A tensor in host memory is taken as its bytes, by a view: so dtypes that
numpy lacks (bfloat16, float8) are moved like any other.
"""

import sys
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np


class Tensor(Protocol):
    """What is used of a `torch.Tensor`."""

    @property
    def device(self) -> object: ...
    @property
    def dtype(self) -> object: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def ndim(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, at: int) -> "Tensor": ...
    def numel(self) -> int: ...
    def stride(self, dim: int) -> int: ...
    def is_contiguous(self) -> bool: ...
    def detach(self) -> "Tensor": ...
    def as_strided(self, size: Sequence[int], stride: Sequence[int]) -> "Tensor": ...
    def view(self, dtype: object) -> "Tensor": ...
    def numpy(self) -> np.ndarray[Any, Any]: ...


Array = np.ndarray[Any, Any] | Tensor


def is_tensor(array: object) -> TypeGuard[Tensor]:
    """Whether it is one of torch's."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def device_of(arrays: Sequence[Array]) -> str:
    """Where all of them lie: `cpu`, or `cuda:0` and so on. Raises ValueError where they lie in several places."""
    found = sorted({str(array.device) if is_tensor(array) else "cpu" for array in arrays})
    if len(found) > 1:
        raise ValueError(f"the regions of a layout lie on one device, these on {', '.join(found)}")
    return found[0] if found else "cpu"


def in_rows(number: int, tensor: Tensor) -> Tensor:
    """The tensor itself, without its gradient; raises ValueError where its blocks do not lie in a row each."""
    data = tensor.detach()
    if data.ndim < 2 or not data.numel() or not data[0].is_contiguous() or data.stride(0) < data[0].numel():
        strides = tuple(data.stride(dim) for dim in range(data.ndim))
        raise ValueError(
            f"region {number} of shape {tuple(data.shape)} and strides {strides} should count blocks by its first axis "
            f"and hold each block's bytes in a row"
        )
    return data


def in_host(number: int, array: Array) -> np.ndarray[Any, Any]:
    """A region as numpy has it, over the same memory; raises ValueError where it can't be had without a copy."""
    if isinstance(array, np.ndarray):
        return array
    if not is_tensor(array):
        raise ValueError(f"region {number} is a {type(array).__name__}, it should be numpy's array or torch's tensor")
    data = in_rows(number, array)
    rows = data.as_strided((len(data), data[0].numel()), (data.stride(0), 1))
    try:
        return rows.view(sys.modules["torch"].uint8).numpy()
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"region {number} of {data.dtype} can't be seen as bytes ({error})") from None

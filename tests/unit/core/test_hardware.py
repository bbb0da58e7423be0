"""The device that computes: what it says where memory is short."""

import pytest
import torch

from subtune.core import hardware


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("could not create a primitive"),
        MemoryError(),
    ],
)
def test_a_want_of_memory_is_told_from_other_errors(error):
    assert hardware.is_out_of_memory(error)
    assert not hardware.is_out_of_memory(RuntimeError("mat1 and mat2 cannot be multiplied"))
    assert not hardware.is_out_of_memory(ValueError("out of memory"))


def test_the_allocators_own_words_are_known():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**55, dtype=torch.float32)
    assert hardware.is_out_of_memory(raised.value)

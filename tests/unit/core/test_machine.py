"""The machine that computes."""

import pytest
import torch

from subtune.core.machine import is_out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("could not create a primitive"),
        MemoryError(),
    ],
)
def test_a_lack_of_memory_differs_from_other_errors(error):
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 cannot be multiplied"))
    assert not is_out_of_memory(ValueError("out of memory"))


def test_the_message_of_torchs_allocator_is_known():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**55, dtype=torch.float32)
    assert is_out_of_memory(raised.value)

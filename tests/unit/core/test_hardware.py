"""The device that computes: its name, its energy, and what it says where memory is short."""

import sys
from types import SimpleNamespace

import pytest
import torch

from subtune.core import hardware

CPU = torch.device("cpu")


def package(folder, microjoules, turn=1_000_000):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "energy_uj").write_text(str(microjoules))
    (folder / "max_energy_range_uj").write_text(str(turn))


def test_energy_is_what_all_packages_counted_since_it_was_last_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "POWER", tmp_path)
    package(tmp_path / "intel-rapl:0", 100_000)
    package(tmp_path / "intel-rapl:1", 900_000)
    meter = hardware.EnergyMeter(CPU)
    package(tmp_path / "intel-rapl:0", 300_000)
    meter.read()
    # This one passed its turn and started anew.
    package(tmp_path / "intel-rapl:1", 400_000)
    assert round(meter.spent(), 6) == 0.2 + 0.5
    assert meter.spent() == 0


def test_energy_that_cannot_be_read_is_none_and_not_zero(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "POWER", tmp_path)
    assert hardware.EnergyMeter(CPU).spent() is None


def test_a_gpus_energy_is_its_drivers_counter(monkeypatch):
    counts = iter([2_000, 2_000, 5_500])  # the first call finds out whether there is one
    driver = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda identifier: identifier,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: next(counts),
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1-2")
    )
    assert hardware.EnergyMeter(torch.device("cuda")).spent() == 3.5


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

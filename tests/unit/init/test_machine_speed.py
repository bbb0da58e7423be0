"""The estimate of this machine's speed."""

import pytest
import torch

from subtune.init import machine_speed


@pytest.mark.skipif(torch.cuda.is_available(), reason="the clock of a processor is replaced")
def test_training_takes_twice_as_long_as_the_fastest_product(monkeypatch):
    # The five products take 3, 1, 2, 3 and 3 seconds.
    ticks = iter([0, 3, 10, 11, 20, 22, 30, 33, 40, 43] * 2)
    monkeypatch.setattr(machine_speed, "WIDTH", 10)
    monkeypatch.setattr(machine_speed, "_clock", lambda device: next(ticks))
    assumed = machine_speed.estimate_speed()
    # 1,000 multiplications and additions in the fastest second, and half of them while training.
    assert assumed.teraflops == {"fp32": 1e-9, "bf16": 1e-9}
    assert "one core of" in assumed.device

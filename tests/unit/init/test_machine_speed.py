"""The estimate of this machine's speed."""

from types import SimpleNamespace

from subtune.init import machine_speed


def test_training_reaches_part_of_the_speed_of_the_fastest_product(monkeypatch):
    class Timer:
        def __init__(self, statement, globals):
            exec(statement, globals)

        def blocked_autorange(self, min_run_time):
            return SimpleNamespace(times=[3.0, 1.0, 2.0])

    monkeypatch.setattr(machine_speed, "WIDTH", 10)
    monkeypatch.setattr(machine_speed, "Timer", Timer)
    # 1,000 multiplications and additions in the fastest second, and a third of them while training.
    assert machine_speed.estimate_speed().teraflops == {"fp32": 6.6e-10, "bf16": 6.6e-10}

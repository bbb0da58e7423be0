"""The plan that tests change."""

import pytest

from tests.helpers.plans import plan


@pytest.fixture(scope="session")
def base():
    return plan()

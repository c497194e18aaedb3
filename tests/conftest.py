"""Fixtures shared by all tests."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")


@pytest.fixture(params=["numpy", "array_api_strict"])
def xp(request):
    return {"numpy": np, "array_api_strict": array_api_strict}[request.param]


@pytest.fixture
def rng():
    return np.random.default_rng(20_240_607)

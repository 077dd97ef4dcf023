"""The backend torch_compile: inductor's settings are in force during the call that compiles, and at no other time."""

from __future__ import annotations

import pytest
from torch._inductor import config

from suites.backends.torch_compile import TorchCompile


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, (True, None, True)), ({"freezing": "off", "simdlen": "256", "epilogue_fusion": "off"}, (False, 256, False))],
)
def test_settings_hold_for_the_first_call_alone(options, expected):
    before, seen = config.save_config_portable(), []
    TorchCompile(1, options)._first(
        lambda: seen.append((config.freezing, config.cpp.simdlen, config.epilogue_fusion)),
    )
    assert seen == [expected]
    assert config.save_config_portable() == before


def test_settings_are_put_back_where_the_first_call_raises():
    before = config.save_config_portable()
    with pytest.raises(KeyError):
        TorchCompile(1, {})._first({}.popitem)
    assert config.save_config_portable() == before

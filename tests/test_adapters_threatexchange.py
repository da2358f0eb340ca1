"""Without python-threatexchange its adapter says what to install; tests/test_image_peers.py has it with the package."""

import importlib
import subprocess
import sys
from types import ModuleType
from typing import Generic, TypeVar

import pytest

import fpstore

T = TypeVar("T")


def test_without_the_package_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["threatexchange"] = None
import fpstore.adapters
try:
    import fpstore.adapters.threatexchange
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "fpstore.adapters.threatexchange needs threatexchange: pip install 'fpstore[images]'\n"


def test_a_threshold_that_no_store_has_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Index(Generic[T]):
        pass

    faked = ModuleType("threatexchange.signal_type.index")
    for name in ("IndexMatchUntyped", "SignalSimilarityInfoWithIntDistance", "SignalTypeIndex"):
        setattr(faked, name, Index)
    for name in ("threatexchange", "threatexchange.signal_type"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, faked.__name__, faked)
    monkeypatch.delitem(sys.modules, "fpstore.adapters.threatexchange", raising=False)
    adapter = importlib.import_module("fpstore.adapters.threatexchange")
    monkeypatch.delitem(sys.modules, "fpstore.adapters.threatexchange")
    for bad in (100, 65, -1, "3", 2.5, None):
        with pytest.raises(ValueError, match=f"threshold: found {bad!r}, expected an integer from 0 to 64"):
            adapter.PDQIndex(threshold=bad)
    with pytest.raises(ValueError, match="max_distance: found 65, expected an integer from 0 to 64"):
        fpstore.predict(n=1, max_distance=adapter.MOST_THRESHOLD + 1, bits=256)
    index = adapter.PDQIndex(threshold=adapter.MOST_THRESHOLD)
    index.add("0" * 64, "entry")
    assert len(index) == 1
    index.dispose()

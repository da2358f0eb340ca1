"""Without python-threatexchange its adapter says what to install; tests/test_image_peers.py has it with the package."""

import subprocess
import sys


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

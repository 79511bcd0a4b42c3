"""The same store as the tests of the library read."""

from tests.library.conftest import kept

__all__ = ["kept"]

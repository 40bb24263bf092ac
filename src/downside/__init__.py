"""Reinforcement learning under a bound on downside risk.

The public names stand in ``__init__.pyi``, grouped by their modules. A module is imported when
one of its names is first used, so that the command line answers before JAX is loaded.
"""

import lazy_loader

from downside.registration import register_with_gymnasium

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register_with_gymnasium()

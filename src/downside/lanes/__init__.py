"""`jax.vmap` with the many along the last axis of every array: for loops of small steps.

`jax.vmap` puts the many first, and the numbers of one of them side by side: rows of 7 or of 11,
which do not fill the registers of a processor. Here the same number of all of them stands side by
side, and every operation is a loop over many equal ones. The function is written for one and
traced once; then each of its operations is made with an axis more. Those that have no rule here
are left to `jax.vmap`, which is right as well, and slower. Each operation is rounded by itself
(`rounding`), so that the numbers of one are the same in tiles of every size and however the loop
around it is compiled: as one kernel, where that can be (`kernels`).
"""

from downside.lanes.layout import Layout, layout_of
from downside.lanes.running import vmap_last

__all__ = ["Layout", "layout_of", "vmap_last"]

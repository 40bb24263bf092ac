"""Training runs on disk: checkpoints that survive kills, full disks and power cuts.

    DIR/
      lock                          held while a run writes; its text says who
      checkpoints/000000400000/     one folder per checkpoint, named after its step
        manifest.json               identity, facts, step, SHA-256 of every file and of itself
        state.npz                   the arrays
      records.parquet               a view for people, derived from the checkpoint

Names that start with "." are unfinished work and are never read as checkpoints, but for
``.replaced-STEP``, which counts while ``STEP`` itself is missing. Needs NumPy, not JAX.
"""

from downside.store.checkpoint import (
    Checkpoint,
    checkpoints,
    newest_facts,
    read_checkpoint,
    read_newest,
)
from downside.store.errors import StoreError
from downside.store.folder import RunFolder
from downside.store.lock import Holder, holder

__all__ = [
    "Checkpoint",
    "Holder",
    "RunFolder",
    "StoreError",
    "checkpoints",
    "holder",
    "newest_facts",
    "read_checkpoint",
    "read_newest",
]

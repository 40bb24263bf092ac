"""What may be on a disk when the power goes: a small model of files, folders and syncs."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

FATES = ("lost", "half", "zeros", "all")


@dataclass(eq=False)
class Node:
    """A folder, or (with content) a file, of which the first bytes are synced."""

    content: bytes | None = None
    n_synced: int = 0
    entries: dict = field(default_factory=dict)

    def after_cut(self, fate):
        synced, rest = self.content[: self.n_synced], self.content[self.n_synced :]
        half = rest[: len(rest) // 2]
        return synced + {"lost": b"", "half": half, "zeros": bytes(len(rest)), "all": rest}[fate]


@dataclass(eq=False)
class Change:
    """In a folder, the name ``old`` goes (if given) and ``new`` (if given) comes."""

    folder: Node
    old: str | None
    new: str | None
    node: Node


class Disk:
    """Follows what a program asks of the disk below ``root``."""

    def __init__(self, root):
        self.root, self.top = root, Node()
        self.changes, self.unsynced, self.files = [], [], []

    def apply(self, call, path, *args):
        if call == "make_folder":
            self._change(path, None, path.name, Node())
        elif call == "create":
            self.files.append(Node(b""))
            self._change(path, None, path.name, self.files[-1])
        elif call == "rename":
            self._change(path, path.name, args[0].name, self._find(path))
        elif call == "remove":
            self._change(path, path.name, None, self._find(path))
        elif call == "write":
            self._find(path).content += args[0]
        elif call == "sync":
            self._find(path).n_synced = len(self._find(path).content)
        elif call == "sync_folder":
            folder = self._find(path)
            done = [change for change in self.unsynced if change.folder is folder]
            gone = [change.node for change in done if change.new is None]
            self.unsynced = [c for c in self.unsynced if c.folder not in (folder, *gone)]

    def after_cut(self):
        """All the disks that may be found: sets of (path, content), None for a folder.

        A change of names is certain once its folder was synced; of the others, any may have
        reached the disk. Content that was not synced may be lost, half there, zeros, all there.
        """
        at_risk = any(len(file.content) > file.n_synced for file in self.files)
        found = set()
        for chosen in itertools.product([False, True], repeat=len(self.unsynced)):
            skipped = {change for change, yes in zip(self.unsynced, chosen, strict=True) if not yes}
            tree = {}
            for change in self.changes:
                if change not in skipped:
                    entries = tree.setdefault(change.folder, {})
                    entries.pop(change.old, None)
                    if change.new is not None:
                        entries[change.new] = change.node
            for fate in FATES if at_risk else FATES[:1]:
                found.add(frozenset(_listing(tree, self.top, Path(), fate)))
        return found

    def _find(self, path):
        node = self.top
        for name in path.relative_to(self.root).parts:
            node = node.entries[name]
        return node

    def _change(self, path, old, new, node):
        folder = self._find(path.parent)
        folder.entries.pop(old, None)
        if new is not None:
            folder.entries[new] = node
        self.changes.append(Change(folder, old, new, node))
        self.unsynced.append(self.changes[-1])


def _listing(tree, folder, path, fate):
    for name, node in tree.get(folder, {}).items():
        if node.content is not None:
            yield path / name, node.after_cut(fate)
        else:
            yield path / name, None
            yield from _listing(tree, node, path / name, fate)


def build(disk, root):
    """Make the files and folders of one such disk."""
    root.mkdir()
    for path, content in sorted(disk, key=lambda entry: entry[0]):
        if content is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(content)

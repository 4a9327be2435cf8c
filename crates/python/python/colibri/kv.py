"""Keys and values: Colibri's storage engine, with names that py-lmdb has.

    import colibri.kv

    with colibri.kv.open("birds.kv") as env:
        with env.begin(write=True) as txn:
            txn.put(b"bee", b"1.95")
        with env.begin() as txn:
            print(txn.get(b"bee"), txn.count(b"a", b"c"))

One transaction writes at a time; any number of others read, each the state as it was when it began. Several processes
may have a database open. What differs from py-lmdb: values are always copied into bytes; there are no flags and sizes to
choose, and no limit of tables; `count`, `rank` and `delete_range` are new, and take O(log n).
"""

from ._colibri import Environment, KeyCursor, Table, Transaction

__all__ = ["Environment", "KeyCursor", "Table", "Transaction", "open"]


def open(path, *, readonly=False, durability="sync", create=True, map_size=None):
    """Opens the database in a directory. `map_size`: its largest size in bytes; without it, none."""
    return Environment(path, readonly, durability, create, map_size)

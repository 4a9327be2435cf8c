"""The public-domain test of DB-API 2.0 (`dbapi20`, of PyPI's dbapi-compliance) with this package.

Run by scripts/test-python-suites, which puts it on the path.
"""

import os
import shutil
import tempfile
import unittest

import colibri
import dbapi20


class Colibri(dbapi20.DatabaseAPI20Test):
    driver = colibri

    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.connect_args = (os.path.join(self.dir, "db"),)

    def tearDown(self):
        shutil.rmtree(self.dir)

    # The next two are empty there, for drivers to fill in. `nextset` is optional, and a statement has one result here.

    def test_nextset(self):
        with self._connect() as conn:
            self.assertFalse(hasattr(conn.cursor(), "nextset"))

    def test_setoutputsize(self):
        with self._connect() as conn:
            conn.cursor().setoutputsize(1000, 0)

    # It wants closing twice to be an error, of which DB-API says nothing; no other driver of PostgreSQL does that.
    def test_non_idempotent_close(self):
        conn = self._connect()
        conn.close()
        conn.close()
        self.assertRaises(colibri.InterfaceError, conn.execute, "SELECT 1")


if __name__ == "__main__":
    unittest.main()

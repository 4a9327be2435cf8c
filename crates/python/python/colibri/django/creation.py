"""Databases of tests: directories beside the one that they stand for."""

import os
import shutil

from django.db.backends.base.creation import BaseDatabaseCreation

from . import driver


class DatabaseCreation(BaseDatabaseCreation):
    def _get_test_db_name(self):
        named = self.connection.settings_dict["TEST"]["NAME"]
        if named:
            return os.fspath(named)
        directory, name = os.path.split(os.path.abspath(self.connection.settings_dict["NAME"]))
        return os.path.join(directory, f"test_{name}")

    def _create_test_db(self, verbosity, autoclobber, keepdb=False):
        path = self._get_test_db_name()
        if not keepdb and os.path.exists(path):
            if not autoclobber:
                answer = input(f"Type 'yes' if you would like to try deleting the test database '{path}', or 'no' to cancel: ")
                if answer != "yes":
                    raise SystemExit("Tests cancelled.")
            shutil.rmtree(path)
        return path

    def _destroy_test_db(self, test_database_name, verbosity):
        driver.let_go(test_database_name)
        shutil.rmtree(test_database_name, ignore_errors=True)

    def get_test_db_clone_settings(self, suffix):
        settings = self.connection.settings_dict
        return {**settings, "NAME": f"{os.fspath(settings['NAME'])}_{suffix}"}

    def _clone_test_db(self, suffix, verbosity, keepdb=False):
        source = self.connection.settings_dict["NAME"]
        target = self.get_test_db_clone_settings(suffix)["NAME"]
        if os.path.exists(target):
            if keepdb:
                return
            shutil.rmtree(target)
        # A database that is open is written to while it is copied.
        self.connection.close()
        driver.let_go(source)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.sock"))

    def test_db_signature(self):
        return (os.path.abspath(self.connection.settings_dict["NAME"]),)

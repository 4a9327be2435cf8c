"""The backend that Django loads: PostgreSQL's, with a directory for a database and no server."""

import os

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.base.base import BaseDatabaseWrapper

from .creation import DatabaseCreation
from .postgresql import base as postgresql


class DatabaseFeatures(postgresql.DatabaseFeatures):
    # Tests may run in several processes, each with a copy of the database.
    can_clone_databases = True
    test_db_allows_multiple_connections = True
    supported_explain_formats = {"JSON", "TEXT"}


class DatabaseWrapper(postgresql.DatabaseWrapper):
    display_name = "Colibri"
    creation_class = DatabaseCreation
    features_class = DatabaseFeatures

    def get_connection_params(self):
        settings = self.settings_dict
        if not settings["NAME"]:
            raise ImproperlyConfigured('settings.DATABASES names no directory: "NAME": BASE_DIR / "birds"')
        params = {"path": os.fspath(settings["NAME"]), **settings["OPTIONS"]}
        for name in ("isolation_level", "assume_role"):
            params.pop(name, None)
        if settings["USER"]:
            params["user"] = settings["USER"]
        return params

    def create_cursor(self, name=None):
        # The rows of a statement are in memory, as the engine has them; a name would change nothing.
        return super().create_cursor()

    def chunked_cursor(self):
        return self._cursor()

    def _nodb_cursor(self):
        # There is no other database that one could be made from.
        return BaseDatabaseWrapper._nodb_cursor(self)

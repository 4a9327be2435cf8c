"""Django's backend for PostgreSQL, loaded once more with this package's driver in the place of psycopg2.

Django imports psycopg when its backend is loaded. A program may use both, so that backend stays as it is: its
modules are loaded a second time, under names of their own, while the names that they import stand for `driver`.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys
import types

from . import driver

_PACKAGE = f"{__name__}_modules"
# In the order in which they need each other.
_MODULES = ("client", "creation", "features", "introspection", "operations", "schema", "base")


def _load():
    found = importlib.util.find_spec("django.db.backends.postgresql")
    directory = pathlib.Path(found.origin).parent
    package = types.ModuleType(_PACKAGE)
    package.__path__ = []
    # What is imported while they are loaded, by the names that they use.
    stand_ins = {
        "psycopg": None,
        "psycopg2": driver,
        "psycopg2.extensions": driver.extensions,
        "psycopg2.extras": driver.extras,
        "django.db.backends.postgresql.psycopg_any": driver.psycopg_any,
    }
    names = [*stand_ins]
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(stand_ins)
    sys.modules[_PACKAGE] = package
    sys.modules[f"{_PACKAGE}.psycopg_any"] = driver.psycopg_any
    try:
        for name in _MODULES:
            full = f"{_PACKAGE}.{name}"
            spec = importlib.util.spec_from_file_location(full, directory / f"{name}.py")
            module = importlib.util.module_from_spec(spec)
            sys.modules[full] = module
            spec.loader.exec_module(module)
            setattr(package, name, module)
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
    return package


modules = _load()
base = modules.base

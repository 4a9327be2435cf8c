"""Settings for Django's own tests on a server of PostgreSQL, to compare with."""

import os
import urllib.parse

from django_for_all import *  # noqa: F403

_url = urllib.parse.urlsplit(os.environ["COLIBRI_SUITES_URL"])
DATABASES = {
    name: {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": f"colibri_suites_{name}",
        "USER": _url.username,
        "PASSWORD": _url.password,
        "HOST": _url.hostname,
        "PORT": _url.port,
    }
    for name in ("default", "other")
}

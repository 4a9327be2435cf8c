"""Settings for Django's own tests with this package's backend."""

import os

from django_for_all import *  # noqa: F403

DATABASES = {
    name: {
        "ENGINE": "colibri.django",
        "NAME": os.path.join(os.environ["COLIBRI_SUITES_DIR"], name),
        "OPTIONS": {"durability": "nosync"},
    }
    for name in ("default", "other")
}

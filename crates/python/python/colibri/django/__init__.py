"""A backend for Django: `"ENGINE": "colibri.django", "NAME": BASE_DIR / "birds"`, where NAME is a directory.

| module | what |
| --- | --- |
| `driver` | connections and cursors in the form that Django's backend for PostgreSQL uses psycopg2 |
| `postgresql` | that backend, loaded with this driver in psycopg2's place |
| `base` | the backend: what differs from PostgreSQL's |
| `creation` | databases of tests: directories |
"""

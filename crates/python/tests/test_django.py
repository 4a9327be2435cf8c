"""The backend for Django: its own migrations, and an application."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("django")

SETTINGS = """
import os, pathlib
BASE_DIR = pathlib.Path(__file__).parent
SECRET_KEY = "of tests"
DATABASES = {"default": {"ENGINE": "colibri.django", "NAME": BASE_DIR / "birds", "OPTIONS": {"durability": "nosync"}}}
INSTALLED_APPS = [
    "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
    "django.contrib.messages", "django.contrib.sites", "django.contrib.flatpages", "django.contrib.redirects", "aviary",
]
SITE_ID = 1
USE_TZ = os.environ.get("USE_TZ", "1") == "1"
TIME_ZONE = os.environ.get("ZONE", "UTC")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
              "django.contrib.messages.middleware.MessageMiddleware"]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
    "django.template.context_processors.request", "django.contrib.auth.context_processors.auth", "django.contrib.messages.context_processors.messages"]}}]
"""

MODELS = """
import uuid
from django.db import models
from django.db.models.functions import Lower

class Bird(models.Model):
    name = models.CharField(max_length=50, unique=True)
    grams = models.DecimalField(max_digits=8, decimal_places=2, null=True)
    seen = models.DateTimeField(null=True, db_index=True)
    day = models.DateField(null=True)
    at = models.TimeField(null=True)
    flight = models.DurationField(null=True)
    key = models.UUIDField(default=uuid.uuid4)
    notes = models.JSONField(default=dict)
    photo = models.BinaryField(null=True)
    speed = models.FloatField(null=True)
    protected = models.BooleanField(default=False)
    address = models.GenericIPAddressField(null=True)
    slug = models.SlugField(default="")
    count = models.PositiveIntegerField(default=0)
    friends = models.ManyToManyField("self")

    class Meta:
        constraints = [models.CheckConstraint(**{CHECK: models.Q(count__lt=1000)}, name="few"),
                       models.UniqueConstraint(Lower("name"), name="one_name")]
        indexes = [models.Index(fields=["name", "-grams"], name="by_name")]

class Nest(models.Model):
    bird = models.ForeignKey(Bird, on_delete=models.CASCADE, related_name="nests")
    eggs = models.IntegerField(default=0)
"""

CHECK = "import django\nCHECK = 'condition' if django.VERSION >= (5, 1) else 'check'\n"

TESTS = """
from django.db import IntegrityError, transaction
from django.test import TestCase, TransactionTestCase
from aviary.models import Bird, Nest

class Rolled(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.bee = Bird.objects.create(name="bee", grams="1.95")

    def test_it_is_there(self):
        self.assertEqual(Bird.objects.count(), 1)
        Bird.objects.create(name="anna")

    def test_others_are_not(self):
        self.assertEqual(Bird.objects.count(), 1)
        with self.assertRaises(IntegrityError), transaction.atomic():
            Bird.objects.create(name="BEE")
        self.assertEqual(Bird.objects.count(), 1)

class Flushed(TransactionTestCase):
    def test_sequences(self):
        nest = Nest.objects.create(bird=Bird.objects.create(name="bee"))
        self.assertEqual(Nest.objects.select_related("bird").get().bird.name, "bee")

class Admin(TestCase):
    def test_a_user_logs_in(self):
        from django.contrib.auth.models import User
        from django.contrib.sessions.backends.db import SessionStore
        User.objects.create_superuser("anna", "a@example.org", "secret")
        self.assertTrue(self.client.login(username="anna", password="secret"))
        session = SessionStore()
        session["a"] = 1
        session.save()
        self.assertEqual(SessionStore(session.session_key)["a"], 1)
"""


class Project:
    """Runs Django's commands, and programs."""

    def __init__(self, path):
        self.path = path

    def manage(self, *arguments, **environment):
        return self._run([sys.executable, "-m", "django", *arguments, "--settings", "settings"], environment)

    def run(self, program, **environment):
        return self._run([sys.executable, "-c", BEGIN + textwrap.dedent(program)], environment)

    def _run(self, command, environment):
        paths = os.pathsep.join([str(self.path), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": "settings", **environment}
        done = subprocess.run(command, cwd=self.path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout + done.stderr


BEGIN = """
import django; django.setup()
from django.db import *
from django.db import transaction
from django.db.models import *
from aviary.models import Bird, Nest
"""


@pytest.fixture(scope="session")
def migrated(tmp_path_factory):
    """A project whose database has all tables."""
    path = tmp_path_factory.mktemp("django") / "project"
    app = path / "aviary"
    app.mkdir(parents=True)
    (path / "settings.py").write_text(SETTINGS)
    (app / "__init__.py").write_text("")
    (app / "models.py").write_text(CHECK + MODELS)
    (app / "tests.py").write_text(TESTS)
    project = Project(path)
    project.manage("makemigrations", "aviary")
    project.manage("migrate")
    return path


@pytest.fixture
def project(migrated, tmp_path):
    """A project of the test's own."""
    return Project(shutil.copytree(migrated, tmp_path / "project"))


def test_migrations_go_forth_and_back(project):
    assert "[ ]" not in project.manage("showmigrations")
    assert "No changes detected" in project.manage("makemigrations", "--check", "--dry-run")
    models = project.path / "aviary" / "models.py"
    text = models.read_text()
    models.write_text(
        text.replace('grams = models.DecimalField(max_digits=8, decimal_places=2, null=True)', 'weight = models.FloatField(default=1.5, db_index=True)')
        .replace("count = models.PositiveIntegerField(default=0)", "count = models.BigIntegerField(default=0, db_comment='how many')")
        .replace('fields=["name", "-grams"]', 'fields=["name"]').replace("max_length=50, unique=True", "max_length=70")
        .replace("eggs = models.IntegerField(default=0)", "eggs = models.CharField(max_length=9, default='')")
    )
    project.manage("makemigrations", "aviary", "--noinput")
    project.manage("migrate")
    assert "No changes detected" in project.manage("makemigrations", "--check", "--dry-run")
    project.manage("migrate", "aviary", "0001")
    project.manage("migrate", "aviary", "zero")
    project.manage("migrate")
    project.manage("check", "--database", "default")
    assert "CREATE TABLE" in project.manage("sqlmigrate", "aviary", "0001")


def test_what_models_hold_comes_back(project):
    project.run("""
        import datetime, decimal, uuid
        utc = datetime.timezone.utc
        given = dict(
            grams=decimal.Decimal("-1.95"), seen=datetime.datetime(2026, 11, 30, 7, 8, 9, 123456, utc), day=datetime.date(2026, 11, 30),
            at=datetime.time(7, 8, 9, 5), flight=datetime.timedelta(days=-3, seconds=5, microseconds=7), key=uuid.uuid4(),
            notes={"a": [1, None, "it's %s \\\\"], "b": {"c": 1.5}}, photo=bytes(range(256)), speed=-1e300, protected=True,
            address="10.0.0.1", slug="a-b", count=7,
        )
        Bird.objects.create(name="it's 100% \\\\ \\"bee\\" ü", **given)
        bird = Bird.objects.get(name__contains="100%")
        for name, value in given.items():
            found = getattr(bird, name)
            assert (bytes(found) if name == "photo" else found) == value, (name, found, value)
        Bird.objects.create(name="none")
        assert [getattr(Bird.objects.get(name="none"), name) for name in ("grams", "seen", "photo", "address")] == [None] * 4
        assert Bird.objects.filter(seen__date=datetime.date(2026, 11, 30), seen__hour=7, flight__lt=datetime.timedelta()).count() == 1
        assert Bird.objects.filter(notes__b__c__gte=1.5, notes__has_key="a", notes__a__0=1).values_list("notes__b__c", flat=True)[0] == 1.5
    """)


def test_questions_of_many_kinds(project):
    project.run("""
        from django.db.models.functions import *
        birds = Bird.objects.bulk_create([Bird(name=f"bird {n}", count=n, grams=n, seen=timezone.now() if n % 2 else None) for n in range(500)]
            ) if (timezone := __import__("django.utils.timezone").utils.timezone) else None
        assert all(bird.pk for bird in birds)
        Nest.objects.bulk_create(Nest(bird=birds[n % 10], eggs=n) for n in range(100))
        assert Bird.objects.aggregate(n=Count("*"), s=Sum("count"), a=Avg("grams"), d=StdDev("count"))["s"] == 124750
        top = Bird.objects.annotate(eggs=Sum("nests__eggs"), n=Count("nests")).filter(n__gt=0).order_by("-eggs", "pk")
        assert (top[0].name, top[0].eggs, top[0].n, len(top)) == ("bird 9", 540, 10, 10)
        Bird.objects.filter(count__gte=490).update(count=F("count") - 1, name=Concat("name", Value("!")))
        assert Bird.objects.filter(name__endswith="!").count() == 10
        assert Bird.objects.filter(name__iregex=r"^BIRD 1\\d$").count() == 10
        assert Bird.objects.filter(Exists(Nest.objects.filter(bird=OuterRef("pk"), eggs__gt=95))).count() == 4
        ranked = Bird.objects.annotate(r=Window(RowNumber(), order_by="-count")).order_by("r").values_list("name", "r")[:2]
        assert list(ranked) == [("bird 499!", 1), ("bird 498!", 2)]
        assert Bird.objects.annotate(m=TruncMonth("seen")).values("m").annotate(n=Count("pk")).count() == 2
        assert [bird.pk for bird in Bird.objects.order_by(Coalesce("seen", Now()).desc(), "pk").iterator(chunk_size=50)]
        assert Bird.objects.in_bulk([birds[3].pk])[birds[3].pk].name == "bird 3"
        birds[1].friends.add(birds[2], birds[3])
        assert {b.name for b in birds[2].friends.prefetch_related("nests")} == {"bird 1"}
        got, made = Bird.objects.update_or_create(name="bird 5", defaults={"notes": {"x": [1]}})
        assert not made and Bird.objects.get(notes={"x": [1]}) == got
        Bird.objects.bulk_create([Bird(name="bird 5", slug="new")], update_conflicts=True, unique_fields=["name"], update_fields=["slug"])
        assert Bird.objects.get(name="bird 5").slug == "new"
        union = Bird.objects.filter(count=1).union(Bird.objects.filter(count=2)).order_by("name").values_list("name", flat=True)
        assert list(union) == ["bird 1", "bird 2"]
        assert Bird.objects.filter(pk=birds[0].pk).explain()
        deleted, per = Bird.objects.filter(count__lt=10).delete()
        assert per["aviary.Nest"] == 100 and not Nest.objects.exists()
        assert len(connection.queries_log) == 0
    """)


def test_transactions_and_errors(project):
    project.run("""
        import threading
        try:
            with transaction.atomic():
                Bird.objects.create(name="bee")
                try:
                    with transaction.atomic():
                        Bird.objects.create(name="anna")
                        Bird.objects.create(name="bee")
                except IntegrityError as error:
                    assert error.__cause__.sqlstate == "23505", error.__cause__
                assert Bird.objects.count() == 1
                raise KeyError
        except KeyError:
            pass
        assert Bird.objects.count() == 0
        for wrong, kind in [(dict(name="x", count=1000), IntegrityError), (dict(name="y" * 51), DataError), (dict(name="a\\0"), (DataError, ValueError))]:
            try:
                Bird.objects.create(**wrong)
            except kind:
                pass
            else:
                raise AssertionError(wrong)
        done = []
        with transaction.atomic():
            transaction.on_commit(lambda: done.append(1))
            bee = Bird.objects.create(name="bee")
            assert Bird.objects.select_for_update().get(name="bee") == bee
        assert done == [1]
        def add():
            Bird.objects.filter(name="bee").update(count=F("count") + 1)
            connection.close()
        threads = [threading.Thread(target=add) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert Bird.objects.get().count == 8
    """)


def test_local_times_without_zones(project):
    for environment in ({"USE_TZ": "0", "ZONE": "Asia/Kolkata"}, {"USE_TZ": "1", "ZONE": "Asia/Kolkata"}):
        project.run("""
            import datetime
            from django.conf import settings
            zone = datetime.timezone.utc if settings.USE_TZ else None
            given = datetime.datetime(2026, 11, 30, 23, 30, tzinfo=zone)
            bird = Bird.objects.create(name=str(zone), seen=given)
            bird.refresh_from_db()
            assert bird.seen == given and (bird.seen.tzinfo is None) == (zone is None), bird.seen
            day = Bird.objects.filter(pk=bird.pk).values_list("seen__date", flat=True)[0]
            assert day == datetime.date(2026, 12, 1 if zone else 30) if zone else datetime.date(2026, 11, 30), day
        """, **environment)


def test_djangos_test_runner(project):
    assert "OK" in project.manage("test", "--noinput")
    assert not (project.path / "test_birds").exists()
    assert "OK" in project.manage("test", "--noinput", "--parallel", "2")
    assert [path.name for path in project.path.iterdir() if path.name.startswith("test_birds")] == []


def test_commands_that_read_the_catalogue(project):
    project.run("Nest.objects.create(bird=Bird.objects.create(name='bee', notes={'a': 1}), eggs=3)")
    models = project.manage("inspectdb")
    assert "class AviaryBird(models.Model):" in models and "models.ForeignKey(AviaryBird" in models.replace("'AviaryBird'", "AviaryBird")
    assert "JSONField" in models and "DecimalField(max_digits=8, decimal_places=2" in models
    dumped = project.manage("dumpdata", "aviary")
    (project.path / "birds.json").write_text(dumped)
    project.manage("flush", "--noinput")
    assert "Installed 2 object(s)" in project.manage("loaddata", "birds.json")
    project.run("assert Nest.objects.get().bird.notes == {'a': 1}; assert Nest.objects.create(bird=Bird.objects.get()).pk > 1")
    project.manage("createcachetable", "--dry-run")
    project.manage("clearsessions")


def test_applications_of_others(project):
    """django-taggit, with generic relations; django-treebeard, which writes SQL of its own for PostgreSQL."""
    pytest.importorskip("taggit")
    pytest.importorskip("treebeard")
    settings, models = project.path / "settings.py", project.path / "aviary" / "models.py"
    settings.write_text(settings.read_text().replace('"aviary"', '"aviary", "taggit", "treebeard"'))
    models.write_text(models.read_text() + textwrap.dedent("""
        from taggit.managers import TaggableManager
        from treebeard.mp_tree import MP_Node
        from treebeard.ns_tree import NS_Node

        class Owl(models.Model):
            tags = TaggableManager()

        class Path(MP_Node):
            name = models.CharField(max_length=20)

        class Nested(NS_Node):
            name = models.CharField(max_length=20)
    """))
    project.manage("makemigrations", "aviary")
    project.manage("migrate")
    project.run("""
        from aviary.models import Owl, Path, Nested
        owls = [Owl.objects.create() for _ in range(3)]
        owls[0].tags.add("night", "white")
        owls[1].tags.add("night", "brown")
        assert Owl.objects.filter(tags__name__in=["night"]).distinct().count() == 2
        assert owls[0].tags.similar_objects() == [owls[1]]
        owls[0].tags.set(["grey"])
        assert sorted(tag.name for tag in Owl.tags.most_common()[:9]) == ["brown", "grey", "night"]
        for Tree in (Path, Nested):
            root = Tree.add_root(name="birds")
            owl = root.add_child(name="owls")
            for name in ("barn", "tawny", "snowy"):
                Tree.objects.get(pk=owl.pk).add_child(name=name)
            Tree.objects.get(pk=root.pk).add_child(name="ducks")
            get = lambda name: Tree.objects.get(name=name)
            get("snowy").move(get("ducks"), "last-child")
            get("owls").move(get("ducks"), "left")
            assert [node.name for node in Tree.get_tree()] == ["birds", "owls", "barn", "tawny", "ducks", "snowy"], Tree.dump_bulk()
            assert [node.get_depth() for node in Tree.get_tree()] == [1, 2, 3, 3, 2, 3]
            get("owls").delete()
            assert get("birds").get_descendant_count() == 2
    """)

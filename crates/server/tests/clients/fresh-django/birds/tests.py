from django.db import connection
from django.test import TestCase, TransactionTestCase

from .models import Species


class Begins(TestCase):
    def test_rows_are_there(self):
        self.assertEqual(Species.objects.count(), 1000)
        Species.objects.filter(id__gt=10).delete()

    def test_rows_are_there_again(self):
        self.assertEqual(Species.objects.count(), 1000)


class HasItsOwn(TransactionTestCase):
    def test_database(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_database()")
            self.assertTrue(cursor.fetchone()[0].startswith("test_birds"))
        self.assertEqual(Species.objects.count(), 1000)

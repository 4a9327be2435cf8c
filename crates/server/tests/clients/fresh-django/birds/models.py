from django.db import models


class Species(models.Model):
    name = models.TextField()

    class Meta:
        # Its table comes with the model database.
        managed = False
        db_table = "species"

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="DailySample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField(unique=True)),
                ("file_count", models.BigIntegerField(db_default=0)),
                ("total_bytes", models.BigIntegerField(db_default=0)),
                ("reclaimable_bytes", models.BigIntegerField(db_default=0)),
                ("trashed_bytes", models.BigIntegerField(db_default=0)),
                ("freed_bytes", models.BigIntegerField(db_default=0)),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={"db_table": "daily_samples"},
        ),
    ]

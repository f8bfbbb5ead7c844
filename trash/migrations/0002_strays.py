from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('trash', '0001_acts'),
    ]

    operations = [
        migrations.AddField(
            model_name='trashitem',
            name='stray_mtime_ns',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='trashitem',
            name='stray_size_bytes',
            field=models.BigIntegerField(blank=True, null=True),
        ),
    ]

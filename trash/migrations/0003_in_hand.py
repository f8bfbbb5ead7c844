from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('trash', '0002_strays'),
    ]

    operations = [
        migrations.AddField(
            model_name='act',
            name='bytes_in_hand',
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name='act',
            name='seconds_in_hand',
            field=models.FloatField(db_default=0.0),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('libraries', '0004_takes_young'),
    ]

    operations = [
        migrations.AddField(
            model_name='hashrun',
            name='share_held',
            field=models.SmallIntegerField(db_default=0),
        ),
    ]

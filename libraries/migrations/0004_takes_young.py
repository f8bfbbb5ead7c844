from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('libraries', '0003_groups_counted_from_the_index'),
    ]

    operations = [
        migrations.AddField(
            model_name='libraryroot',
            name='takes_young',
            field=models.BooleanField(db_default=False),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('duplicates', '0003_plans_carried_out'),
    ]

    operations = [
        migrations.AddField(
            model_name='planfolder',
            name='is_writable',
            field=models.BooleanField(blank=True, null=True),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='may_authorise',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]

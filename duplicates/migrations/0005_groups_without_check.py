from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('duplicates', '0004_folders_asked'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='duplicategroup',
            name='ck_duplicate_groups_content_hash',
        ),
    ]

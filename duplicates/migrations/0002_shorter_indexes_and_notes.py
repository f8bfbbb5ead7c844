import database.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('duplicates', '0001_groups_rules_plans'),
    ]

    operations = [
        migrations.RemoveIndex(model_name='duplicategroup', name='ix_duplicate_groups_reclaim'),
        migrations.RemoveIndex(model_name='duplicategroup', name='ix_duplicate_groups_newest'),
        migrations.RemoveIndex(model_name='duplicategroup', name='ix_duplicate_groups_size'),
        # Made anew, not altered: triggers write into it. Putting them back has everything counted anew.
        migrations.DeleteModel(name='GroupChange'),
        migrations.CreateModel(
            name='GroupChange',
            fields=[
                ('id', database.fields.PlainAutoField(primary_key=True, serialize=False)),
                ('file_id', models.BigIntegerField(null=True)),
                ('hash_algorithm', models.CharField(max_length=16, null=True)),
                ('content_hash', models.BinaryField(max_length=32, null=True)),
            ],
            options={
                'db_table': 'duplicate_changes',
            },
        ),
        migrations.AddIndex(
            model_name='duplicategroup',
            index=models.Index(fields=['by_reclaimable', 'sample_file_id'], name='ix_duplicate_groups_reclaim'),
        ),
        migrations.AddIndex(
            model_name='duplicategroup',
            index=models.Index(fields=['by_newest', 'sample_file_id'], name='ix_duplicate_groups_newest'),
        ),
        migrations.AddIndex(
            model_name='duplicategroup',
            index=models.Index(fields=['by_size', 'sample_file_id'], name='ix_duplicate_groups_size'),
        ),
    ]

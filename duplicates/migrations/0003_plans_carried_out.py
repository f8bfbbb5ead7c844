from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('duplicates', '0002_shorter_indexes_and_notes'),
        ('jobs', '0002_wal_sizes'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='plan',
            name='ck_plans_status',
        ),
        migrations.AddField(
            model_name='plan',
            name='links_despite_metadata',
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name='plan',
            name='removes_empty_folders',
            field=models.BooleanField(db_default=False),
        ),
        migrations.AlterField(
            model_name='plan',
            name='status',
            field=models.CharField(choices=[('planning', 'Planning'), ('ready', 'Ready'), ('authorised', 'Authorised'), ('done', 'Done'), ('discarded', 'Discarded')], db_default='planning', max_length=16),
        ),
        migrations.AddConstraint(
            model_name='plan',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['planning', 'ready', 'authorised', 'done', 'discarded'])), name='ck_plans_status'),
        ),
        migrations.AddIndex(
            model_name='plan',
            index=models.Index(fields=['status', '-id'], name='ix_plans_status'),
        ),
    ]

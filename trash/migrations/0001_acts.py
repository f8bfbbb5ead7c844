import django.db.models.deletion
import django.db.models.functions.datetime
import jobs.models
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('duplicates', '0003_plans_carried_out'),
        ('jobs', '0002_wal_sizes'),
        ('libraries', '0003_groups_counted_from_the_index'),
    ]

    operations = [
        migrations.CreateModel(
            name='Act',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(default=jobs.models.new_job_id, max_length=36, unique=True)),
                ('verb', models.CharField(choices=[('act', 'Act'), ('undo', 'Undo'), ('empty', 'Empty')], db_default='act', max_length=16)),
                ('status', models.CharField(choices=[('authorised', 'Authorised'), ('running', 'Running'), ('completed', 'Completed'), ('cancelled', 'Cancelled'), ('failed', 'Failed'), ('void', 'Void')], db_default='authorised', max_length=16)),
                ('selection', models.JSONField(db_default=models.Value({}, models.JSONField()))),
                ('authorised_by', models.CharField(max_length=150)),
                ('authorised_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('starts_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('is_paused', models.BooleanField(db_default=False)),
                ('file_count', models.BigIntegerField(db_default=0)),
                ('total_bytes', models.BigIntegerField(db_default=0)),
                ('done_count', models.BigIntegerField(db_default=0)),
                ('skipped_count', models.BigIntegerField(db_default=0)),
                ('bytes_done', models.BigIntegerField(db_default=0)),
                ('busy_seconds', models.FloatField(db_default=0.0)),
                ('trashed_count', models.BigIntegerField(db_default=0)),
                ('trashed_bytes', models.BigIntegerField(db_default=0)),
                ('space', models.JSONField(db_default=models.Value({}, models.JSONField()))),
                ('proof_name', models.CharField(blank=True, db_default='', max_length=255)),
                ('proof_sha256', models.CharField(blank=True, db_default='', max_length=64)),
                ('note', models.TextField(blank=True, db_default='')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('job', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='act', to='jobs.job')),
                ('plan', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='acts', to='duplicates.plan')),
            ],
            options={
                'db_table': 'acts',
            },
        ),
        migrations.CreateModel(
            name='RemovedFolder',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('folder', models.CharField(max_length=4096)),
                ('mode', models.IntegerField()),
                ('uid', models.BigIntegerField()),
                ('gid', models.BigIntegerField()),
                ('mtime_ns', models.BigIntegerField()),
                ('attributes', models.JSONField(db_default=models.Value({}, models.JSONField()))),
                ('is_back', models.BooleanField(db_default=False)),
                ('act', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='removed_folders', to='trash.act')),
                ('library', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='libraries.libraryroot')),
            ],
            options={
                'db_table': 'removed_folders',
            },
        ),
        migrations.CreateModel(
            name='Switches',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_acting_allowed', models.BooleanField(db_default=False)),
                ('is_removing_allowed', models.BooleanField(db_default=False)),
                ('empty_after_days', models.IntegerField(blank=True, null=True)),
                ('updated_by', models.CharField(blank=True, db_default='', max_length=150)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'verbose_name_plural': 'switches',
                'db_table': 'switches',
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='ck_switches_one'), models.CheckConstraint(condition=models.Q(('empty_after_days__isnull', True), ('empty_after_days__gte', 1), _connector='OR'), name='ck_switches_days')],
            },
        ),
        migrations.CreateModel(
            name='TrashItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('intended', 'Intended'), ('skipped', 'Skipped'), ('trashed', 'Trashed'), ('deleted', 'Deleted'), ('undoing', 'Undoing'), ('undone', 'Undone'), ('emptying', 'Emptying'), ('emptied', 'Emptied')], db_default='intended', max_length=16)),
                ('reason_code', models.CharField(blank=True, db_default='', max_length=64)),
                ('reason', models.TextField(blank=True, db_default='')),
                ('path_key', models.BinaryField(max_length=16)),
                ('trash_folder', models.CharField(blank=True, db_default='', max_length=4096)),
                ('device', models.BigIntegerField(blank=True, null=True)),
                ('inode', models.BigIntegerField(blank=True, null=True)),
                ('linked_inode', models.BigIntegerField(blank=True, null=True)),
                ('acted_at', models.DateTimeField(blank=True, null=True)),
                ('left_at', models.DateTimeField(blank=True, null=True)),
                ('is_last_copy', models.BooleanField(db_default=False)),
                ('act', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='items', to='trash.act')),
                ('left_by', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='taken', to='trash.act')),
                ('library', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='libraries.libraryroot')),
                ('plan_file', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='trash_items', to='duplicates.planfile')),
            ],
            options={
                'db_table': 'trash_items',
            },
        ),
        migrations.AddIndex(
            model_name='act',
            index=models.Index(fields=['plan', '-id'], name='ix_acts_plan'),
        ),
        migrations.AddIndex(
            model_name='act',
            index=models.Index(fields=['status', 'id'], name='ix_acts_status'),
        ),
        migrations.AddConstraint(
            model_name='act',
            constraint=models.CheckConstraint(condition=models.Q(('verb__in', ['act', 'undo', 'empty'])), name='ck_acts_verb'),
        ),
        migrations.AddConstraint(
            model_name='act',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['authorised', 'running', 'completed', 'cancelled', 'failed', 'void'])), name='ck_acts_status'),
        ),
        migrations.AddConstraint(
            model_name='act',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('verb', 'act'), _negated=True), ('plan__isnull', False), _connector='OR'), name='ck_acts_plan'),
        ),
        migrations.AddConstraint(
            model_name='act',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ['authorised', 'running']), ('verb', 'act')), fields=('plan',), name='ux_acts_living_plan'),
        ),
        migrations.AddIndex(
            model_name='removedfolder',
            index=models.Index(fields=['act', 'id'], name='ix_removed_folders_act'),
        ),
        migrations.AddIndex(
            model_name='trashitem',
            index=models.Index(fields=['status', 'id'], name='ix_trash_items_status'),
        ),
        migrations.AddIndex(
            model_name='trashitem',
            index=models.Index(fields=['library', 'path_key'], name='ix_trash_items_path'),
        ),
        migrations.AddIndex(
            model_name='trashitem',
            index=models.Index(fields=['plan_file'], name='ix_trash_items_plan_file'),
        ),
        migrations.AddConstraint(
            model_name='trashitem',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['intended', 'skipped', 'trashed', 'deleted', 'undoing', 'undone', 'emptying', 'emptied'])), name='ck_trash_items_status'),
        ),
        migrations.AddConstraint(
            model_name='trashitem',
            constraint=models.UniqueConstraint(fields=('act', 'plan_file'), name='ux_trash_items_file'),
        ),
    ]

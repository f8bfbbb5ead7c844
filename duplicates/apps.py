from importlib import import_module

from django.apps import AppConfig


class DuplicatesConfig(AppConfig):
    name = "duplicates"

    def ready(self) -> None:
        from database.objects import register
        from duplicates import ignoring, overlapping, summary
        from duplicates.living_groups import living_among
        from duplicates.objects import OBJECTS
        from libraries.listening import when_algorithm_switches, when_files_changed
        from thumbnails.cleaning import register_living_groups

        register(*OBJECTS)
        import_module("duplicates.examining")
        when_files_changed(summary.bring_up_to_date_as_executor)
        when_algorithm_switches(ignoring.carry_over)
        overlapping.register()
        register_living_groups(living_among)

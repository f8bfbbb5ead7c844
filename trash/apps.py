from django.apps import AppConfig


class TrashConfig(AppConfig):
    name = "trash"

    def ready(self) -> None:
        from database.after_restore import after_restore, forget_after_restore
        from database.objects import register
        from jobs.handlers import handles
        from libraries.listening import before_removal
        from trash import settling, witness
        from trash.carrying_out import carry_out
        from trash.keeping_libraries import refuse_removal
        from trash.objects import OBJECTS
        from trash.restored import STATEMENTS

        register(*OBJECTS)
        # In the place of the one that makes plans, which it hands dry runs on to.
        handles("delete", carry_out)
        settling.register()
        witness.register()
        before_removal(refuse_removal)
        after_restore(*STATEMENTS)
        forget_after_restore(witness.NAME)

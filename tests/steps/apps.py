from django.apps import AppConfig


class StepsConfig(AppConfig):
    name = "tests.steps"

    def ready(self) -> None:
        from jobs.handlers import handles
        from tests.steps.handler import scan_or_take_steps, take_steps

        handles("scan", scan_or_take_steps)
        handles("thumbnail", take_steps)

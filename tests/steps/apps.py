from django.apps import AppConfig


class StepsConfig(AppConfig):
    name = "tests.steps"

    def ready(self) -> None:
        from jobs.handlers import handles
        from tests.steps.handler import take_steps

        handles("scan", take_steps)
        handles("thumbnail", take_steps)

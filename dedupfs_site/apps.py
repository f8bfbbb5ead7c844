from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "dedupfs_site"

"""No tables of its own: Django sends `post_migrate` only to applications that have a models module."""

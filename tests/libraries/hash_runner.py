"""A process that carries out a hash job by itself, as `scan --now` does; tests kill it."""

from __future__ import annotations

import django

django.setup()

from libraries.running_now import hash_now  # noqa: E402

if __name__ == "__main__":
    print(hash_now(actor="runner").status)

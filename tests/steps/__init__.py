"""A handler for tests: a job that takes numbered steps and leaves a trace on disk, in a real consumer."""

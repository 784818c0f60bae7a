"""The `pqlab` command: one module a verb, each with HELP, add_arguments(parser) and run(args) → exit code."""

"""Output of the commands: on the terminal, and as files for people and programs."""

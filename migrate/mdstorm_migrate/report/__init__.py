"""What the command says: on the terminal, and in files for people and machines."""

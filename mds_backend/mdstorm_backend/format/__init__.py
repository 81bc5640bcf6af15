"""What the bytes of an MDS dataset mean: no file is opened here."""

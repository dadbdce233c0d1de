"""Total parsers for what strangers print and write. None of them raises, none of them runs what it reads."""

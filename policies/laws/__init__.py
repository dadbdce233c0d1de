"""Control laws: one file each, independent of each other. Their parameters' bounds are the search space of a study."""
